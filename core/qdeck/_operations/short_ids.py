"""Ids as people type them: the beginning of one, one that was cut in the middle, or the name of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine.job_ids import is_made
from qdeck._errors import UsageError
from qdeck._model.queue_ref import Feature
from qdeck._model.values import State
from qdeck._operations.queue_scope import places_of
from qdeck._redis import reads
from qdeck.adapters.model import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import JobRecord, QueueRef
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters

SHORTEST: Final = 3
"""How many characters a short form has at least."""
MOST_READ: Final = 200_000
_SHOWN: Final = 3  # ids that the error for an ambiguous one lists


def full_ids(adapters: Adapters, queues: Sequence[str | QueueRef], typed: Sequence[str]) -> Program[tuple[str, ...]]:
    """Return the whole ids; one that names no job is returned as it is. Raise for one that names several."""
    places = (yield from places_of(adapters, queues)).queues
    known: dict[str, set[str]] = {one: set() for one in typed}
    now = yield from reads.clock()
    for adapter, queue in places:
        yield from _look(adapter, queue, known, now)
    for one, found in known.items():
        if len(found) > 1 and one not in found:
            some = ", ".join(sorted(found)[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            raise UsageError(f"{one!r} names {len(found):,} jobs", hint=f"Write the whole id: {some}")
    return tuple(one if one in known[one] else next(iter(known[one]), one) for one in typed)


def _look(adapter: Adapter, queue: str, known: dict[str, set[str]], now: int) -> Program[None]:
    """Add the ids of the jobs of a queue that are meant."""
    left = [one for one in known if one not in known[one]]
    if Feature.ORDER in adapter.features:  # a job is found by its id
        for one in left:
            if (yield from adapter.find([queue], one, [])):
                known[one].add(one)
        left = [one for one in left if one not in known[one] and not is_made(one)]
    left = [one for one in left if len(one) >= SHORTEST]
    cursor, scanned = None, 0
    while left and scanned < MOST_READ:
        page = yield from adapter.page(queue, tuple(State), cursor=cursor, now=now, want=frozenset({Part.RECORD}))
        for record in page.jobs:
            for one in left:
                if names(one, record):
                    known[one].add(one if one in (record.id, record.key) else record.id)
        cursor, scanned = page.cursor, scanned + max(1, page.scanned)
        if cursor is None:
            return


def names(typed: str, record: JobRecord) -> bool:
    """Return whether a short form is of a job: `…` stands for what was cut out."""
    if typed in (record.id, record.key, record.name):
        return True
    first, cut, last = typed.partition("…")
    is_fit = record.id.startswith(first) and record.id.endswith(last)
    return is_fit and (not cut or len(record.id) >= len(first) + len(last))
