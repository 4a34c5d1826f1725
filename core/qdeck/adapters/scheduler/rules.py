"""What a purge takes of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck.adapters.plans import Rule

if TYPE_CHECKING:
    from qdeck.adapters.model import Entry

OVERDUE_MS: Final = 60_000  # a worker puts in line what is due every 5s


def _is_broken(entry: Entry, _now: int, _prepared: Any) -> bool:
    return entry.problem is not None


def _is_overdue(entry: Entry, now: int, _prepared: Any) -> bool:
    late = 0 if entry.due_ms is None else now - entry.due_ms
    return entry.problem is None and (late > OVERDUE_MS or (entry.stuck is not None and late > 0))


RULES: Final = (
    Rule(name="broken_entries", states=(State.DELAYED,), verb=Verb.BURY, reason="{problem}", test=_is_broken),
    Rule(name="overdue_delayed", states=(State.DELAYED,), verb=Verb.RUN, reason="due for {late}", test=_is_overdue),
    Rule(
        name="dead_too_old", states=(State.DEAD,), verb=Verb.DISCARD, setting="dlq_ttl",
        reason="dead for {age} (limit {limit})",
    ),
    Rule(
        name="dead_too_many", states=(State.DEAD,), verb=Verb.DISCARD, setting="dlq_max_entries", rank=True,
        reason="more dead letters than {limit}; dead for {age}",
    ),
)  # fmt: skip
