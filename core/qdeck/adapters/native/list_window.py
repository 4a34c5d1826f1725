"""A part of a long list by its position: scrolling through a million jobs reads only those on screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck._redis.errors import is_error
from qdeck.adapters.native import SLICE, newest_first
from qdeck.adapters.native.job import by_id
from qdeck.adapters.native.jobs import complete
from qdeck.adapters.native.records import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program

BODY: Final = 4096  # bytes of a payload up to which it is read for a row of a list


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some jobs of a list from `first` on, and how many the list has. One that left it meanwhile is not there."""

    jobs: tuple[JobRecord, ...]
    first: int
    total: int


def read_stretch(
    queue: str, state: str, first: int, most: int, *, newest: bool | None = None, around: str | None = None
) -> Program[Stretch]:
    """Return the jobs at these positions of a list, with short payloads.

    With `around` these are the positions around this job, if it is still in the list: lists change meanwhile.
    """
    key, down = keys.key(queue, state), newest_first(state, newest)
    by_rank, rank_of = (b"ZREVRANGE", b"ZREVRANK") if down else (b"ZRANGE", b"ZRANK")
    first, most = max(0, first), min(most, SLICE)
    if around is not None:
        rank = yield (rank_of, key, raw_of(around))
        first = first if rank is None else max(0, rank - most // 2)
    size, flat = yield [(b"ZCARD", key), (by_rank, key, first, first + most - 1, b"WITHSCORES")]
    records = yield from _filled(queue, (yield from _rows(queue, state, flat)))
    return Stretch(jobs=tuple(records), first=first, total=size)


def read_present(queue: str, state: str, job_ids: Sequence[str]) -> Program[list[bool]]:
    """Return which of these jobs are still in a list."""
    if not job_ids:
        return []
    scores = yield (b"ZMSCORE", keys.key(queue, state), *map(raw_of, job_ids))
    return [score is not None for score in scores]


def read_onward(
    queue: str, state: str, met: Sequence[str], until: str, last: int, *, newest: bool | None = None
) -> Program[Stretch]:
    """Return the next jobs of a list behind those that were read last, up to another one; none at the end.

    A caller that goes through a list so misses no job that stays, however the list changes. If the one at the end is
    gone, the limit is the position `last`; if all that were read are gone, nothing is returned. Payloads are not read.
    """
    key, down = keys.key(queue, state), newest_first(state, newest)
    by_rank, rank_of = (b"ZREVRANGE", b"ZREVRANK") if down else (b"ZRANGE", b"ZRANK")
    *found, end = yield from reads.fetch_all([(rank_of, key, raw_of(job_id)) for job_id in (*met, until)])
    first = next((rank + 1 for rank in reversed(found) if rank is not None), None)
    end = last if end is None else end
    if first is None or first > end:
        return Stretch(jobs=(), first=first or 0, total=0)
    until_rank = min(end, first + SLICE - 1)
    flat = yield (by_rank, key, first, until_rank, b"WITHSCORES")
    rows = yield from complete(queue, (yield from _rows(queue, state, flat)), bodies=False, errors=False)
    return Stretch(jobs=tuple(row.full() for row in rows), first=first, total=end - until_rank)


def read_some(queue: str, job_ids: Sequence[str]) -> Program[list[JobRecord | None]]:
    """Return these jobs as they are now, in any state; None for one that is gone."""
    found = yield from by_id(queue, job_ids, (yield from reads.clock()))
    records = yield from _filled(queue, [row for row in found if row is not None])
    known = {record.id: record for record in records}
    return [known.get(job_id) for job_id in job_ids]


def _rows(queue: str, state: str, flat: Sequence[bytes]) -> Program[list[Row]]:
    now = (yield from reads.clock()) if flat else 0
    return [Row(queue, state, member, score, now, True) for member, score in reads.pairs(flat)]


def _filled(queue: str, rows: Sequence[Row]) -> Program[list[JobRecord]]:
    records = [row.full() for row in (yield from complete(queue, rows, bodies=False))]
    body = keys.key(queue, "body")
    sizes = yield from reads.try_all([(b"HSTRLEN", body, raw_of(record.id)) for record in records])
    short = [at for at, size in enumerate(sizes) if not is_error(size) and 0 < size <= BODY]
    if short:
        values = yield (b"HMGET", body, *[raw_of(records[at].id) for at in short])
        for at, value in zip(short, values, strict=True):
            records[at] = replace(records[at], body=value)
    return records
