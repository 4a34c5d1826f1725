"""Maintenance of queues that no worker serves: one read finds due work, transitions do it.

Any number of agents and workers may do all of it at once, and twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys, programs, transitions
from qdeck._engine.stored_numbers import digits
from qdeck._redis import reads
from qdeck._redis.commands import ordered
from qdeck._redis.errors import is_error
from qdeck._server import workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Command, Program

DEAD_WORKER_MS: Final = 24 * 3_600_000  # a worker without a heartbeat for so long is removed
QUEUE_CREATION_MS: Final = 3_600_000  # a name is registered a moment before its queue is created
MAX_SWEEPS: Final = 1000  # of one queue in one run; the next run continues
REAP_SLICE: Final = 200


@dataclass(slots=True)
class QueueWork:
    """What one queue needs."""

    queue: str
    reap: bool = False
    deliver: bool = False
    trim: bool = False


@dataclass(slots=True)
class WorkDone:
    """What was done to all queues."""

    queues: int = 0
    warned: int = 0
    requeued: int = 0
    buried: int = 0
    delivered: int = 0
    quarantined: int = 0
    trimmed: int = 0
    workers: int = 0
    errors: int = 0
    error: str = ""

    def add_errors(self, unread: Sequence[str]) -> None:
        """Count errors and keep the first one."""
        self.errors += len(unread)
        self.error = self.error or next(iter(unread), "")

    def counts(self) -> dict[str, int]:
        """Return the numbers that are not zero."""
        names = ("warned", "requeued", "buried", "delivered", "quarantined", "trimmed", "workers", "errors")
        return {name: count for name in names if (count := getattr(self, name))}

    def summary(self) -> dict[str, int | str]:
        """Return what to report; empty when nothing was changed."""
        return {**self.counts(), **({"error": self.error} if self.error else {})}


def find_work(rows: Sequence[QueueRow], now: int, *, trims: bool) -> Program[list[QueueWork]]:
    """Find overdue leases, leases without an entry in `running`, and undelivered effects, with plain reads."""
    calls: list[Command] = []
    for row in rows:
        running = keys.key(row.name, "running")
        calls += [
            (b"ZRANGEBYSCORE", running, b"-inf", b"(%d" % now, b"LIMIT", 0, 1),
            (b"ZCARD", running),
            (b"HLEN", keys.key(row.name, "lease")),
            (b"XLEN", keys.key(row.name, "outbox")),
        ]
    replies = yield from reads.try_all(calls)
    found = []
    for at, row in enumerate(rows):
        overdue, running, leases, outbox = replies[4 * at : 4 * at + 4]
        broken = any(map(is_error, (overdue, running, leases)))
        waits = bool(row.running or row.delayed or row.blocked)
        work = QueueWork(
            row.name,
            # What cannot be read is maintained all the same: the script returns the error, and the run reports it.
            # With `trims`, also to find times that are too far ahead.
            reap=broken or bool(overdue) or leases - 1 > running or (trims and waits),
            deliver=is_error(outbox) or outbox > 0,
            trim=trims and (row.problem is not None or bool(row.done or row.dead or row.cancelled)),
        )
        if work.reap or work.deliver or work.trim:
            found.append(work)
    return found


def do_work(work: QueueWork, done: WorkDone) -> Program[None]:
    """Do what one queue needs; a queue that refuses is counted and does not block the others."""
    done.queues += 1
    for wanted, what in ((work.reap, _reap), (work.deliver, _deliver), (work.trim, _trim)):
        if not wanted:
            continue
        unread: list[str] = []
        yield from reads.contained(what(work.queue, done), work.queue, unread)
        done.add_errors(unread)


def _reap(queue: str, done: WorkDone) -> Program[None]:
    for _ in range(MAX_SWEEPS):
        reaped = yield from programs.call(transitions.reap(queue, REAP_SLICE))
        done.warned += reaped.warned
        done.requeued += reaped.requeued
        done.buried += reaped.buried
        if reaped.warned + reaped.requeued + reaped.buried < REAP_SLICE:
            return


def _deliver(queue: str, done: WorkDone) -> Program[None]:
    def report(error: str) -> None:
        done.quarantined += 1
        done.error = done.error or error

    for _ in range(MAX_SWEEPS):
        before = done.quarantined
        count = yield from programs.deliver(queue, report=report)
        done.delivered += count - (done.quarantined - before)
        if count < programs.OUTBOX_SLICE:
            return


def _trim(queue: str, done: WorkDone) -> Program[None]:
    for _ in range(MAX_SWEEPS):
        count = yield from programs.call(transitions.trim(queue))
        done.trimmed += count
        if count == 0:
            return


def prune_workers(now: int, done: WorkDone) -> Program[None]:
    """Remove workers without a heartbeat for a day. One that lives registers again soon."""
    said = yield from reads.scan_hash(keys.WORKERS)
    gone = [name for name, raw in said.items() if name and _is_dead(name, raw, now)]
    for part in _slices(gone):
        calls = [(b"HDEL", key, *part) for key in (keys.WORKERS, keys.CONTROL, keys.TASKS)]
        removed, *_ = yield ordered(*calls, key=keys.WORKERS.encode())
        done.workers += removed


def prune_queues(now: int) -> Program[list[str]]:
    """Remove names from the registry whose queue does not exist: never finished, or deleted by hand.

    The name is removed first and its queue is checked again after: one that was created meanwhile is registered again.
    """
    known = yield from reads.scan_hash(keys.QUEUES)
    made = {name: digits(raw) for name, raw in known.items() if name.isascii()}
    old = [name for name, at in made.items() if at is not None and abs(now - at) > QUEUE_CREATION_MS]
    gone: list[str] = []
    for part in _slices(old):
        metas = [keys.key(name.decode(), "meta") for name in part]
        there = yield from reads.fetch_all([(b"EXISTS", meta) for meta in metas])
        missing = [(n, m, known[n]) for n, m, e in zip(part, metas, there, strict=True) if e == 0]
        for name, meta, raw in missing:
            removed, exists = yield ordered((b"HDEL", keys.QUEUES, name), (b"EXISTS", meta), key=meta)
            if exists:
                yield (b"HSETNX", keys.QUEUES, name, raw)
            elif removed:
                gone.append(name.decode())
    return gone


def _is_dead(name: bytes, raw: bytes, now: int) -> bool:
    row = workers.read_worker(name, raw, None, now)
    return row.heartbeat_ms is None or abs(now - row.heartbeat_ms) > DEAD_WORKER_MS


def _slices(names: Sequence[bytes], most: int = 200) -> Iterable[Sequence[bytes]]:
    return (names[at : at + most] for at in range(0, len(names), most))
