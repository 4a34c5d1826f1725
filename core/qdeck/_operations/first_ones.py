"""The first ones of a redrive, one by one: what became of each, and what it died of where it died again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from qdeck._deck.model import NATIVE
from qdeck._deck.payload import mask_text
from qdeck._deck.queue_ref import InQueue
from qdeck._engine import codec, keys
from qdeck._operations.fates import Fortunes
from qdeck._redis import reads

if TYPE_CHECKING:
    from qdeck._engine.ops import Program
    from qdeck._operations.model import PlanEntry
    from qdeck._operations.planfile import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class One(InQueue):
    """One entry of a plan; its fate is a field of `Fates`, or None where it was not touched, or was put back."""

    id: str
    queue: str
    adapter: str = NATIVE
    fate: str | None = None
    error: str = ""
    message: str = ""


def read_ones(plan: Plan, most: int) -> Program[tuple[One, ...]]:
    """What became of the first entries of a plan, in the order in which they go back."""
    entries = list(islice(plan.entries(), most))
    fates = yield from Fortunes(plan).read_at(enumerate(entries))
    errors = yield from _errors([e for e, fate in zip(entries, fates, strict=True) if fate == "dead_again"])
    return tuple(
        One(id=entry.id, queue=entry.queue, adapter=entry.adapter, fate=fate, error=error, message=message)
        for entry, fate in zip(entries, fates, strict=True)
        for error, message in [errors.get((entry.queue, entry.id), ("", ""))]
    )


def _errors(dead: list[PlanEntry]) -> Program[dict[tuple[str, str], tuple[str, str]]]:
    own = [entry for entry in dead if entry.adapter == NATIVE]
    replies = yield from reads.ask([(b"HGET", keys.key(entry.queue, "error"), entry.id) for entry in own])
    found = {}
    for entry, reply in zip(own, replies, strict=True):
        events = [] if reads.is_error(reply) else codec.read_events(reply)
        last = next((event.data for event in reversed(events) if event.data.get("class")), {})
        found[entry.queue, entry.id] = str(last.get("class") or ""), mask_text(str(last.get("message") or ""))
    return found
