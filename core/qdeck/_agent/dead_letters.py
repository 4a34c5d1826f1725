"""Dead letters in the API: the entry format of the document on queue reliability, with qdeck's field names."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._engine.stored_numbers import clamped
from qdeck._errors import UsageError
from qdeck._formatting import iso
from qdeck._model.payload import mask_text
from qdeck._model.queue_ref import Feature, named
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._agent.shared_readers import SharedReaders
    from qdeck._model.values import JobRecord, QueueRef
    from qdeck._redis import AsyncClient
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.model import Entry


_NEWEST: Final = 1 << 62


class UnknownQueue(UsageError):
    """There is no queue of that name."""


async def dead_letters(readers: SharedReaders, client: AsyncClient, queue: str | None, limit: int) -> dict[str, Any]:
    """Return the newest dead letters of a queue, or of all; `total` is their number, so that a cut is visible."""
    own = (await readers.counts()).queues
    known = [*own, *(row for row in (await readers.snapshot()).queues if not row.has(Feature.ORDER))]
    wanted = None if queue is None else named((row.ref for row in known), queue)
    rows = [row for row in known if wanted is None or row.ref in wanted]
    if queue is not None and (not rows or ":" in queue) and (kind := await _of_kind(readers, queue, limit)):
        return kind
    if queue is not None and not rows:
        near = difflib.get_close_matches(queue, [row.name for row in known], 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Get /api/v1/queue/health to list the queues."
        raise UnknownQueue(f"there is no queue {queue!r}", hint=hint)
    records: list[JobRecord] = []
    full = [row for row in rows if row.dead and row.problem is None]
    # Without an order their newest entry is unknown before they are read: they come first.
    others = [(row.ref, _NEWEST) for row in full if not row.has(Feature.ORDER)]
    for ref, newest_ms in [*others, *await _newest(client, [row.ref for row in full if row.has(Feature.ORDER)])]:
        if len(records) >= limit and _moment(records[limit - 1]) >= newest_ms:
            break  # all others are older
        found = [record async for record in readers.jobs.jobs(ref, state="dead", limit=limit)]
        records = sorted([*records, *found], key=_moment, reverse=True)[:limit]
    total = sum(row.dead or 0 for row in rows)
    entries = [entry(record) for record in records]
    broken = [(row.ref, row.problem) for row in rows if row.problem is not None]
    unreadable = [{"adapter": ref.adapter, "queue": ref.name, "error": problem.text} for ref, problem in broken]
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


async def _newest(client: AsyncClient, queues: Sequence[QueueRef]) -> list[tuple[QueueRef, int]]:
    """Return queues with the time of their newest dead letter, the newest first."""
    moments = await client.run(_read_newest([queue.name for queue in queues]))
    return sorted(zip(queues, moments, strict=True), key=lambda pair: -pair[1])


def _read_newest(queues: Sequence[str]) -> Program[list[int]]:
    calls = [(b"ZRANGE", keys.key(queue, "dead"), -1, -1, b"WITHSCORES") for queue in queues]
    replies = yield from reads.fetch_all(calls)
    return [clamped(flat[1]) if flat else 0 for queue, flat in zip(queues, replies, strict=True)]


def _moment(record: JobRecord) -> int:
    return record.since_ms or record.failed_ms or 0


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
