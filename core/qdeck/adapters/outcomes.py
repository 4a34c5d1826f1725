"""The outcomes of the jobs of a batch, mostly of those whose changes are stored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from qdeck._redis import reads
from qdeck.adapters.changes import done_places
from qdeck.adapters.model import Retried, Seen

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Outcome
    from qdeck.adapters.plans import PlanEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntries:
    """Entries of one queue of an applied plan: their places in it, its batch, and when it was made.

    `repeated` has the hashes of what several entries of the plan have in common: which of them is dead again cannot
    be seen.
    """

    batch: str
    since_ms: int
    entries: Sequence[PlanEntry]
    places: Sequence[int]
    repeated: Collection[int] = ()


@dataclass(slots=True)
class KeptOutcomes:
    """The counted outcomes of a batch, from what is stored about it; `errors` has those of the dead ones."""

    jobs: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)


class Watched(Protocol):
    """The part of an adapter that reads the outcomes of its entries."""

    name: str

    def identity(self, job_id: str, seen: Seen) -> bytes:
        """Return what an entry and the same one, dead again, have in common."""

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes of retried entries."""


def of_planned(adapter: Watched, planned: PlannedEntries) -> Program[list[Outcome | None]]:
    """Return the outcome of each entry; None for one that was not changed, or was restored since."""
    done = yield from done_places(adapter.name, planned.batch, planned.places)
    changed = [entry for entry, kept in zip(planned.entries, done, strict=True) if kept is not None]
    if not changed:
        return [None] * len(done)
    tried = [
        Retried(
            id=entry.id, seen=(seen := Seen.parse(entry.version)), since_ms=planned.since_ms,
            twin=bool(planned.repeated) and hash(adapter.identity(entry.id, seen)) in planned.repeated,
        )
        for entry in changed
    ]  # fmt: skip
    found = iter((yield from adapter.outcomes(tried, (yield from reads.clock()))))
    return [None if kept is None else next(found) for kept in done]
