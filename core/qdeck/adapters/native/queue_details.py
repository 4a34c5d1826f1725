"""The details of one queue: waiting and running times, payload sizes, and errors of dead letters.

Nothing is stored for this purpose: the numbers are from a bounded sample of the jobs, so each number has its sample
size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._engine.codec import BAND
from qdeck._engine.stored_numbers import clamped
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.native import records
from qdeck.adapters.native.groups import read_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

MOST: Final = 200  # jobs of a state that are looked at one by one
_PLACES: Final = 100  # looked at in a longer line of several priorities
_SIZED: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Durations of `sampled` jobs out of `of`: what half of them stay under, what most do, and the longest."""

    p50_ms: int
    p95_ms: int
    max_ms: int
    sampled: int
    of: int

    @classmethod
    def over(cls, durations: Sequence[int], of: int) -> Spread | None:
        """Return the spread of some durations; None without any."""
        found = sorted(max(0, ms) for ms in durations)
        if not found:
            return None
        p50, p95 = (found[max(0, ceil(share * len(found)) - 1)] for share in (0.5, 0.95))
        return cls(p50_ms=p50, p95_ms=p95, max_ms=found[-1], sampled=len(found), of=max(of, len(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """Dead letters of one error class."""

    error_class: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseUp:
    """The details of a native queue at one moment.

    `waiting` is how long those that are ready have waited, `running` how long those that run have run, `done` the time
    from enqueued to done of those that ended last (with their delay, where they had one). `died` is None where the
    queue has dead letters that it did not count by kind.
    """

    at_ms: int
    waiting: Spread | None = None
    running: Spread | None = None
    done: Spread | None = None
    died: tuple[Died, ...] | None = ()
    payloads: int = 0
    payload_bytes: float | None = None  # of one, the mean of a few


def read_close_up(queue: str) -> Program[CloseUp]:
    """Return the details of a queue, in five round trips and some hundred entries at most."""
    now = yield from reads.clock()
    ready, running, done, dead, body = (keys.key(queue, part) for part in ("ready", "running", "done", "dead", "body"))
    replies = yield with_errors(
        (b"ZCARD", ready), (b"ZRANGE", ready, 0, MOST - 1, b"WITHSCORES"), (b"ZRANGE", ready, -1, -1, b"WITHSCORES"),
        (b"ZCARD", running), (b"ZRANGE", running, 0, MOST - 1),
        (b"ZCARD", done), (b"ZREVRANGE", done, 0, MOST - 1, b"WITHSCORES"),
        (b"ZCARD", dead), (b"ZREVRANGE", dead, 0, _SIZED - 1), (b"HGETALL", keys.key(queue, "groups")),
        (b"HLEN", body), (b"HEXISTS", body, b""),
    )  # fmt: skip
    # What may not be read is left out.
    waiting, first, last, run, running_ids, ended, done_flat, dead_count, dead_ids, groups, payloads, blank = (
        None if is_error(reply) else reply for reply in replies
    )
    of_ready, of_done = reads.pairs(first or []), reads.pairs(done_flat or [])
    done_ids = [job_id for job_id, _ in of_done]
    lists = [[job_id for job_id, _ in of_ready], list(running_ids or []), list(dead_ids or []), done_ids]
    some = [job_id for ids in zip_longest(*(ids[:_SIZED] for ids in lists)) for job_id in ids if job_id]
    mean, claimed, enqueued = yield from _details(queue, some[:_SIZED], lists[1], done_ids)
    spread = yield from _waiting(ready, waiting or 0, of_ready, reads.pairs(last or []), now)
    took = [clamped(score) - at for (_, score), at in zip(of_done, enqueued, strict=True) if at is not None]
    return CloseUp(
        at_ms=now,
        waiting=spread,
        running=Spread.over([now - at for at in claimed], run or 0),
        done=Spread.over(took, ended or 0),
        died=_died(groups, dead_count or 0),
        payloads=(payloads or 0) - (blank or 0),  # the field without a name is the queue's own
        payload_bytes=mean,
    )


def _details(
    queue: str, sized: list[bytes], running: list[bytes], done: list[bytes]
) -> Program[tuple[float | None, list[int], list[int | None]]]:
    """The mean size of some payloads, since when some jobs run, and when some that are done were enqueued."""
    calls: list[Command] = [(b"HSTRLEN", keys.key(queue, "body"), job_id) for job_id in sized]
    if running:
        calls.append((b"HMGET", keys.key(queue, "lease"), *running))
    if done:
        calls.append((b"HMGET", keys.key(queue, "head"), *done))
    replies = yield from reads.try_all(calls)
    heads: list[bytes | None] = _values(replies.pop(), len(done)) if done else []
    leases: list[bytes | None] = _values(replies.pop(), len(running)) if running else []
    sizes = [size for size in replies if isinstance(size, int)]
    claimed = [lease.claimed_ms for raw in leases if (lease := records.read_lease(raw)) is not None]
    enqueued = [None if (head := records.read_head(raw)) is None else head.enqueued_ms for raw in heads]
    return sum(sizes) / len(sizes) if sizes else None, claimed, enqueued


def _values(reply: Any, count: int) -> list[bytes | None]:
    return [None] * count if is_error(reply) else list(reply)


def _waiting(
    key: bytes, count: int, first: list[tuple[bytes, bytes]], last: list[tuple[bytes, bytes]], now: int
) -> Program[Spread | None]:
    """How long those in line have waited. A line of one priority is in the order of its ages, so that the place of each
    share is known; in one of several, places at even distances are looked at.
    """
    if not first or not last:
        return None
    since = [_since(score) for _, score in first]
    if count <= len(first):
        return Spread.over([now - at for at in since], count)
    one_priority = float(first[0][1]) // BAND == float(last[0][1]) // BAND
    ranks = (
        [0, max(0, count - ceil(0.95 * count)), count - ceil(0.5 * count)]
        if one_priority
        else [count * place // _PLACES for place in range(_PLACES)]
    )
    replies = yield from reads.try_all([(b"ZRANGE", key, rank, rank, b"WITHSCORES") for rank in ranks])
    found = [now - _since(reply[1]) for reply in replies if not is_error(reply) and reply]
    if not one_priority:
        return Spread.over(found, count)
    if len(found) < len(ranks):
        return None  # the list became shorter meanwhile: the next refresh shows it
    longest, p95, p50 = (max(0, ms) for ms in found)
    return Spread(p50_ms=p50, p95_ms=p95, max_ms=longest, sampled=count, of=count)


def _since(score: bytes) -> int:
    return clamped(score) % BAND


def _died(groups: Any, dead: int) -> tuple[Died, ...] | None:
    counts: dict[str, int] = {}
    for group in read_groups(groups or []):
        counts[group.error] = counts.get(group.error, 0) + group.size
    if not counts and dead:
        return None
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Died(error_class=error, count=count) for error, count in ordered if count > 0)
