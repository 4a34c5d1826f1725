"""What a purge takes of streams."""

from __future__ import annotations

from typing import Final

from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck.adapters.plans import Rule

RULES: Final = (
    Rule(
        name="pending_too_old", states=(State.RUNNING,), verb=Verb.BURY, setting="max_pending_age",
        reason="pending for {age} (limit {limit})", test=lambda entry, _now, _prepared: entry.stuck is not None,
    ),
    Rule(
        name="dead_too_old", states=(State.DEAD,), verb=Verb.DISCARD, setting="dlq_ttl",
        reason="dead for {age} (limit {limit})",
    ),
)  # fmt: skip
