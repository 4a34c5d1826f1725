"""Dead letters in the API: the entry format of the document on queue reliability, with qdeck's field names."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from qdeck._errors import UsageError
from qdeck._formatting import iso
from qdeck._model.payload import mask_text
from qdeck._model.queue_ref import Feature, named
from qdeck._redis import reads

if TYPE_CHECKING:
    from qdeck._agent.shared_readers import SharedReaders
    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.model import Entry


class UnknownQueue(UsageError):
    """There is no queue of that name."""


async def dead_letters(readers: SharedReaders, queue: str | None, limit: int) -> dict[str, Any]:
    """Return the newest dead letters of a queue, or of all; `total` is their number, so that a cut is visible."""
    own = (await readers.counts()).queues
    known = [*own, *(row for row in (await readers.snapshot()).queues if not row.has(Feature.ORDER))]
    queues, where = readers.jobs.narrowed(queue)
    wanted = None if queue is None else named((row.ref for row in known), next(iter(queues), queue))
    rows = [row for row in known if wanted is None or row.ref in wanted]
    if queue is not None and (not rows or ":" in queue) and (kind := await _of_kind(readers, queue, limit)):
        return kind
    if queue is not None and not rows:
        near = difflib.get_close_matches(queue, [row.name for row in known], 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Get /api/v1/queue/health to list the queues."
        raise UnknownQueue(f"there is no queue {queue!r}", hint=hint)
    full = [row.ref for row in rows if row.dead and row.problem is None]
    lost: list[str] = []
    found = readers.jobs.dead_letters(full, where=where, limit=limit, unread=lost)
    records = [record async for record in found] if full else []
    total = sum(row.dead or 0 for row in rows)
    entries = [entry(record) for record in records]
    broken = [(row.ref, row.problem) for row in rows if row.problem is not None]
    unreadable: list[dict[str, Any]] = [
        {"adapter": ref.adapter, "queue": ref.name, "error": problem.text} for ref, problem in broken
    ]
    unreadable += [{"adapter": None, "queue": None, "error": text} for text in lost]
    return {"queue": queue, "limit": limit, "total": total, "entries": entries, "unreadable": unreadable}


async def _of_kind(readers: SharedReaders, word: str, limit: int) -> dict[str, Any] | None:
    """Return the newest dead letters of a kind, such as `pending` of VMPooler; None for another word."""
    for adapter in readers.jobs.adapters.shown:
        if adapter.is_there and (kind := adapter.dead_kind(word)):
            found, total = await readers.jobs.run(_read_kind(adapter, kind, limit))
            return {"queue": word, "limit": limit, "total": total, "entries": [*map(entry, found)], "unreadable": []}
    return None


def _read_kind(adapter: Adapter, kind: str, limit: int) -> Program[tuple[list[Entry], int]]:
    now = yield from reads.clock()
    return (yield from adapter.dead_of_kind(kind, limit, now))


def entry(record: JobRecord) -> dict[str, Any]:
    """Return one dead letter as JSON."""
    attempts = record.attempts
    return {
        "id": record.id,
        "adapter": record.adapter,
        "queue": record.queue,
        "queue_from": getattr(record, "queue_from", None) or record.queue,
        "name": record.name,
        "task": record.task,
        "error_class": record.error,
        "error_message": None if record.message is None else mask_text(record.message),
        "failed_at": iso(record.failed_ms or record.since_ms),
        "attempts": attempts,
        "retry_count": None if attempts is None else max(0, attempts - 1),
        "payload": record.payload(),
    }
