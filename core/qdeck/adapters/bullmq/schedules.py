"""Job schedulers of BullMQ: each has a hash, and the time of its next job in a sorted set of its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._model import payload
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck._redis.errors import is_error
from qdeck._schedules.model import ScheduleRow
from qdeck.adapters import recurring
from qdeck.adapters.bullmq.keys import base_of
from qdeck.adapters.stored_values import read_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program

_FIELDS: Final = (b"name", b"pattern", b"every", b"tz", b"ic", b"data")


def read(adapter: str, prefix: str, queues: Sequence[str], now: int) -> Program[list[ScheduleRow]]:
    """Read the job schedulers of these queues, each with the job that it created for its next run."""
    bases = {queue: base_of(prefix, queue) for queue in queues}
    replies = yield from reads.try_all(
        [(b"ZRANGE", base + b"repeat", 0, recurring.MOST - 1, b"WITHSCORES") for base in bases.values()]
    )
    found = [
        (queue, member, score)
        for queue, reply in zip(bases, replies, strict=True)
        for member, score in ([] if is_error(reply) else reads.pairs(reply))
    ][: recurring.MOST]
    keys = [bases[queue] + b"repeat:" + one for queue, one, _ in found]
    values = yield from read_short([(key, name) for key in keys for name in _FIELDS])
    jobs = [b"repeat:%b:%d" % (one, score_ms(score) or 0) for _, one, score in found]
    places = yield from reads.try_all(
        [(b"ZSCORE", bases[queue] + b"delayed", job) for (queue, _, _), job in zip(found, jobs, strict=True)]
    )
    rows = []
    for at, ((queue, member, score), job, place) in enumerate(zip(found, jobs, places, strict=True)):
        own = dict(zip(_FIELDS, values[at * len(_FIELDS) : (at + 1) * len(_FIELDS)], strict=True))
        next_ms, interval = score_ms(score), digits(own[b"every"] or b"")
        is_delayed = not is_error(place) and place is not None
        rows.append(
            ScheduleRow(
                name=payload.mask_text(text_of(member)), adapter=adapter, queue=queue,
                task=payload.mask_text(text_of(own[b"name"] or b"")),
                cron=recurring.every(interval / 1000) if interval else text_of(own[b"pattern"] or b""),
                tz=text_of(own[b"tz"] or b"") or "UTC", next_ms=next_ms, jobs_made=digits(own[b"ic"] or b"") or 0,
                payload=own[b"data"] or b"",
                next_id=text_of(job) if is_delayed else None, late_s=recurring.late_s(next_ms, now),
                problem="" if own[b"name"] or own[b"pattern"] or interval else "it has no record",
                why_fixed="change it with upsertJobScheduler of BullMQ",
            )
        )  # fmt: skip
    return rows
