"""Expensive numbers of a queue: the age of its oldest job, and how many running jobs are stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec, keys
from qdeck._engine.codec import BAND
from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._model.values import Pause
from qdeck._model.words import Unreadable, UnreadableCode
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck._redis.parallel_programs import all_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.thresholds import Thresholds

MOST_BANDS: Final = 16  # priorities read in one queue; with more of them the oldest is "at least"
MOST_RUNNING: Final = 200  # running jobs of one queue whose time limit is read
UNDELIVERED_MS: Final = 30_000  # how old an outbox entry without a worker is before it is reported
GRACE_MS: Final = 5_000  # a job counts as over its time limit this long after it


@dataclass(slots=True)
class Detail:
    """`oldest_ms` is since when the oldest job waits to start."""

    oldest_ms: int | None = None
    exact: bool = True
    stuck: int | None = None
    over_limit: int = 0  # of the stuck jobs, those over their time limit
    overdue: int | None = None
    late: int | None = None
    late_delayed: int = 0
    set_aside: int = 0
    undelivered: int = 0
    problem: Unreadable | None = None

    def waits_since(self, ms: int) -> None:
        """Count a waiting job."""
        self.oldest_ms = ms if self.oldest_ms is None else min(self.oldest_ms, ms)


def read_details(
    rows: Sequence[QueueRow], now: int, thresholds: Thresholds, takers: Mapping[str, int] | None
) -> Program[dict[str, Detail]]:
    """Return the details of these queues, all in a few round trips. `takers` counts the workers of each queue."""
    readable = [row for row in rows if not row.is_unread]
    found = {row.name: Detail(stuck=0, overdue=0, late=0) for row in readable}
    # A process that was killed may have left entries in an outbox, which only a worker delivers.
    unserved = [] if takers is None else [row for row in readable if not takers.get(row.name)]
    waiting = [row for row in readable if row.ready or row.delayed]
    set_aside = [row for row in readable if row.totals.get("quarantined")]
    yield from all_of(
        [
            _read_waiting(waiting, found, now, thresholds.stuck_age_ms),
            _read_running([row for row in readable if row.running], found, now),
            _read_set_aside(set_aside, found),
            _read_undelivered(unserved, found, now),
        ]
    )
    return found


def _read_undelivered(rows: Sequence[QueueRow], found: dict[str, Detail], now: int) -> Program[None]:
    """Count the entries of outboxes that are not empty if the oldest one is old."""
    sizes = yield from reads.try_all([(b"XLEN", keys.key(row.name, "outbox")) for row in rows])
    filled = [(row.name, size) for row, size in zip(rows, sizes, strict=True) if isinstance(size, int) and size]
    old = b"%d" % (now - UNDELIVERED_MS)
    calls: list[Command] = [(b"XRANGE", keys.key(name, "outbox"), b"-", old, b"COUNT", 1) for name, _ in filled]
    for (name, size), first in zip(filled, (yield from reads.try_all(calls)), strict=True):
        found[name].undelivered = size if first and not is_error(first) else 0


def _read_set_aside(rows: Sequence[QueueRow], found: dict[str, Detail]) -> Program[None]:
    """Return how many outbox entries are in quarantine: the counter of a queue only grows, the stream can be
    deleted.
    """
    lengths = yield from reads.try_all([(b"XLEN", keys.key(row.name, "quarantine")) for row in rows])
    for row, length in zip(rows, lengths, strict=True):
        found[row.name].set_aside = length if isinstance(length, int) else 0


def _read_waiting(rows: Sequence[QueueRow], found: dict[str, Detail], now: int, stuck_age_ms: int) -> Program[None]:
    """Read the oldest jobs that wait, and what is late."""
    calls: list[Command] = []
    for row in rows:
        ready, delayed = keys.key(row.name, "ready"), keys.key(row.name, "delayed")
        calls += [
            (b"ZRANGE", ready, 0, 0, b"WITHSCORES"),
            (b"ZRANGE", ready, -1, -1, b"WITHSCORES"),
            (b"ZRANGE", delayed, 0, 0, b"WITHSCORES"),
            (b"ZCOUNT", delayed, b"-inf", now),
        ]
    replies = yield from reads.try_all(calls)
    open_bands: dict[str, tuple[int, int]] = {}
    limit = now - stuck_age_ms
    late: list[tuple[str, Command]] = []
    for at, row in enumerate(rows):
        detail = found[row.name]
        first, last, due = (_score(reply, detail, row.name) for reply in replies[4 * at : 4 * at + 3])
        due_count = replies[4 * at + 3]
        detail.overdue = due_count if isinstance(due_count, int) else None
        if due is not None and due <= now:
            detail.waits_since(due)  # due, and no worker has moved it to ready
            if due < limit:
                late.append((row.name, (b"ZCOUNT", keys.key(row.name, "delayed"), b"-inf", b"(%d" % limit)))
        if first is not None:
            detail.waits_since(first % BAND)
            if first % BAND < limit:
                late.append((row.name, _late_in(row.name, first // BAND, limit)))
            if last is not None and last // BAND > first // BAND:
                open_bands[row.name] = (first // BAND, last // BAND)
    yield from _read_bands(open_bands, found, late, limit)
    yield from _count_late(late, found)


def _late_in(queue: str, band: int, limit: int) -> Command:
    return (b"ZCOUNT", keys.key(queue, "ready"), band * BAND, b"(%d" % (band * BAND + limit))


def _count_late(late: Sequence[tuple[str, Command]], found: dict[str, Detail]) -> Program[None]:
    for (name, call), count in zip(late, (yield from reads.try_all([call for _, call in late])), strict=True):
        if isinstance(count, int):
            found[name].late = (found[name].late or 0) + count
            found[name].late_delayed += count if call[1] == keys.key(name, "delayed") else 0


def _read_bands(
    open_bands: dict[str, tuple[int, int]],
    found: dict[str, Detail],
    late: list[tuple[str, Command]],
    limit: int,
) -> Program[None]:
    """Return the oldest job of each priority: the first entry of `ready` is the most urgent job, not the oldest."""
    for _ in range(MOST_BANDS - 1):
        if not open_bands:
            return
        names = list(open_bands)
        replies = yield from reads.try_all([_next_band(name, open_bands[name][0]) for name in names])
        for name, reply in zip(names, replies, strict=True):
            score = _score(reply, found[name], name)
            if score is None or score // BAND >= open_bands[name][1]:
                del open_bands[name]
            else:
                open_bands[name] = (score // BAND, open_bands[name][1])
            if score is not None:
                found[name].waits_since(score % BAND)
                if score % BAND < limit:
                    late.append((name, _late_in(name, score // BAND, limit)))
    for name in open_bands:
        found[name].exact = False


def _next_band(queue: str, band: int) -> Command:
    after = (band + 1) * BAND
    return (b"ZRANGEBYSCORE", keys.key(queue, "ready"), after, b"+inf", b"WITHSCORES", b"LIMIT", 0, 1)


def _score(reply: Any, detail: Detail, queue: str) -> int | None:
    if is_error(reply):
        detail.problem = Unreadable.of(reply)
        return None
    if not reply:
        return None
    found = score_ms(reply[1])
    if found is None:
        first = reply[1][:20].decode()
        detail.problem = Unreadable(code=UnreadableCode.GARBAGE, what="score", count=1, key=f"{{{queue}}}", first=first)
    return found


def _read_running(rows: Sequence[QueueRow], found: dict[str, Detail], now: int) -> Program[None]:
    calls: list[Command] = []
    for row in rows:
        running = keys.key(row.name, "running")
        calls += [
            (b"ZCOUNT", running, b"-inf", b"(%d" % now),
            (b"ZRANGEBYSCORE", running, now, b"+inf", b"LIMIT", 0, MOST_RUNNING),
        ]
    replies = yield from reads.try_all(calls)
    held: list[tuple[str, list[bytes]]] = []
    for at, row in enumerate(rows):
        late, ids = replies[2 * at : 2 * at + 2]
        if is_error(late):
            found[row.name].problem = Unreadable.of(late)
            continue
        found[row.name].stuck = late
        if ids:
            held.append((row.name, ids))
    calls = []
    for name, ids in held:
        calls += [(b"HMGET", keys.key(name, "head"), *ids), (b"HMGET", keys.key(name, "lease"), *ids)]
    replies = yield from reads.try_all(calls)
    for at, (name, _) in enumerate(held):
        heads, leases = replies[2 * at : 2 * at + 2]
        if not is_error(heads) and not is_error(leases):
            reasons = [stuck_since(lease, head, now, now) for head, lease in zip(heads, leases, strict=True)]
            codes = [reason[0] for reason in reasons if reason is not None]
            found[name].stuck = (found[name].stuck or 0) + len(codes)
            found[name].over_limit = codes.count("over_limit")


def stuck_since(lease: bytes | None, head: bytes | None, deadline: int, now: int) -> tuple[str, int] | None:
    """Return why a running job is stuck, a value of `StuckCode`, and since when; None if it is not.

    `records.why_stuck` adds delayed jobs whose task no worker has, and tells a lost worker from one that is alive.
    """
    try:
        held = None if lease is None else codec.read_lease(lease)
    except (ValueError, IndexError):
        return "no_lease", min(deadline, now)  # its worker cannot renew a lease that it cannot read
    if held is None:  # before its deadline it may have ended between two reads
        return ("no_lease", deadline) if deadline < now else None
    if held.expired_once:  # it is in the last grace period of half a lease
        return "lease_expired", min(deadline - held.lease_ms // 2, now)
    if deadline < now:
        return "lease_expired", deadline
    limit = _limit(head)
    if limit is None or now - held.claimed_ms - limit <= GRACE_MS:
        return None
    return "over_limit", held.claimed_ms + limit


def _limit(head: bytes | None) -> int | None:
    """Return the time limit of a job; None where its record cannot be read."""
    if head is None or b"\nm" not in head:
        return None
    try:
        return codec.read_head(head).limit_ms
    except (ValueError, IndexError):
        return None


def pause_of(raw: bytes | None) -> Pause | None:
    """Return who paused a queue, when and why, from the setting; None when it is not paused."""
    if raw is None:
        return None
    try:
        said = codec.decode_json(raw)
    except (msgspec.DecodeError, ValueError):
        said = {}
    if not isinstance(said, dict):
        return Pause()
    who, reason = said.get("who"), said.get("reason")
    return Pause(
        who=who if isinstance(who, str) else None,
        at_ms=whole(said.get("at_ms")),
        reason=reason if isinstance(reason, str) else "",
    )
