"""What the engine needs of somebody, done for queues that no worker serves: one read finds what is due, ops do it.

All of it may be done by any number of agents and workers at once, and twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck import workers
from qdeck._engine import keys, programs, transitions
from qdeck._engine.stored_numbers import digits
from qdeck._redis import reads
from qdeck._redis.commands import ordered
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck._deck.model import QueueRow
    from qdeck._redis.commands import Command, Program

WORKER_MS: Final = 24 * 3_600_000  # a worker that was not heard of for so long is struck off the list
UNMADE_MS: Final = 3_600_000  # a name is registered a moment before its queue is made
MOST_SWEEPS: Final = 1000  # of one queue in one run: what is left then waits for the next run
REAP_SLICE: Final = 200


@dataclass(slots=True)
class QueueWork:
    """What one queue needs done."""

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
        """Counts what could not be handled, and keeps the first reason."""
        self.errors += len(unread)
        self.error = self.error or next(iter(unread), "")

    def counts(self) -> dict[str, int]:
        """The numbers that are not zero."""
        names = ("warned", "requeued", "buried", "delivered", "quarantined", "trimmed", "workers", "errors")
        return {name: count for name in names if (count := getattr(self, name))}

    def summary(self) -> dict[str, int | str]:
        """What there is to tell; nothing when nothing was done."""
        return {**self.counts(), **({"error": self.error} if self.error else {})}


def find_work(rows: Sequence[QueueRow], now: int, *, trims: bool) -> Program[list[QueueWork]]:
    """What there is to do, from plain reads: overdue leases, leases that lost their place, effects not delivered."""
    calls: list[Command] = []
    for row in rows:
        running = keys.key(row.name, "running")
        calls += [
            (b"ZRANGEBYSCORE", running, b"-inf", b"(%d" % now, b"LIMIT", 0, 1),
            (b"ZCARD", running),
            (b"HLEN", keys.key(row.name, "lease")),
            (b"XLEN", keys.key(row.name, "outbox")),
        ]
    replies = yield from reads.ask_all(calls)
    found = []
    for at, row in enumerate(rows):
        overdue, running, leases, outbox = replies[4 * at : 4 * at + 4]
        broken = any(map(is_error, (overdue, running, leases)))
        waits = bool(row.running or row.delayed or row.blocked)
        work = QueueWork(
            row.name,
            # What cannot be read is tried all the same: the script says what is wrong, and the run reports it.
            # With `trims`, also to find times that are too far ahead.
            reap=broken or bool(overdue) or leases - 1 > running or (trims and waits),
            deliver=is_error(outbox) or outbox > 0,
            trim=trims and (row.problem is not None or bool(row.done or row.dead or row.cancelled)),
        )
        if work.reap or work.deliver or work.trim:
            found.append(work)
    return found


def do_work(work: QueueWork, done: WorkDone) -> Program[None]:
    """Does what one queue needs; a queue that refuses is counted and told, and holds up no other."""
    done.queues += 1
    for wanted, what in ((work.reap, _reap), (work.deliver, _deliver), (work.trim, _trim)):
        if not wanted:
            continue
        unread: list[str] = []
        yield from reads.contained(what(work.queue, done), work.queue, unread)
        done.add_errors(unread)


def _reap(queue: str, done: WorkDone) -> Program[None]:
    for _ in range(MOST_SWEEPS):
        reaped = yield from programs.call(transitions.reap(queue, REAP_SLICE))
        done.warned += reaped.warned
        done.requeued += reaped.requeued
        done.buried += reaped.buried
        if reaped.warned + reaped.requeued + reaped.buried < REAP_SLICE:
            return


def _deliver(queue: str, done: WorkDone) -> Program[None]:
    def report(why: str) -> None:
        done.quarantined += 1
        done.error = done.error or why

    for _ in range(MOST_SWEEPS):
        before = done.quarantined
        count = yield from programs.deliver(queue, report=report)
        done.delivered += count - (done.quarantined - before)
        if count < programs.OUTBOX_SLICE:
            return


def _trim(queue: str, done: WorkDone) -> Program[None]:
    for _ in range(MOST_SWEEPS):
        count = yield from programs.call(transitions.trim(queue))
        done.trimmed += count
        if count == 0:
            return


def prune_workers(now: int, done: WorkDone) -> Program[None]:
    """Strikes workers off the list that were not heard of for a day. One that lives after all says so again soon."""
    said = yield from reads.scan_hash(keys.WORKERS)
    gone = [name for name, raw in said.items() if name and _silent(name, raw, now)]
    for part in _slices(gone):
        calls = [(b"HDEL", key, *part) for key in (keys.WORKERS, keys.CONTROL, keys.TASKS)]
        struck, *_ = yield ordered(*calls, key=keys.WORKERS.encode())
        done.workers += struck


def prune_queues(now: int) -> Program[list[str]]:
    """Takes names off the registry whose queue is not there: it was never finished, or was deleted by hand.

    The name goes first and its queue is looked for again after: whoever made it meanwhile is registered anew.
    """
    known = yield from reads.scan_hash(keys.QUEUES)
    made = {name: digits(raw) for name, raw in known.items() if name.isascii()}
    old = [name for name, at in made.items() if at is not None and abs(now - at) > UNMADE_MS]
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


def _silent(name: bytes, raw: bytes, now: int) -> bool:
    row = workers.read_worker(name, raw, None, now)
    return row.heartbeat_ms is None or abs(now - row.heartbeat_ms) > WORKER_MS


def _slices(names: Sequence[bytes], most: int = 200) -> Iterable[Sequence[bytes]]:
    return (names[at : at + most] for at in range(0, len(names), most))
