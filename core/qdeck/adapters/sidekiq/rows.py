"""The numbers of Sidekiq's queues, and its sorted sets as queues of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from qdeck._model.values import QueueRow
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import Look, age_s
from qdeck.adapters.row_problems import problem_of
from qdeck.adapters.sidekiq import jobs, processes
from qdeck.adapters.sidekiq.keys import SETS
from qdeck.adapters.worker_counts import counter_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.sidekiq.keys import SidekiqKeys

MOST_QUEUES: Final = 10_000
MOST_RUNNING: Final = 5_000  # of one process


def read(adapter: str, keys: SidekiqKeys, now: int, wrong: Sequence[str]) -> Program[Look]:
    """Read all queues, then the sorted sets that have jobs; `wrong` has the texts about keys of other types."""
    names_reply, paused_reply, registered = yield with_errors(
        (b"SSCAN", keys.queues, b"0", b"COUNT", MOST_QUEUES), (b"SSCAN", keys.paused, b"0", b"COUNT", MOST_QUEUES),
        processes.registered(keys),
    )  # fmt: skip
    identities = processes.identities_in(registered)
    names = [] if is_error(names_reply) else sorted({text_of(one) for one in names_reply[1]})
    paused = set() if is_error(paused_reply) else {text_of(one) for one in paused_reply[1]}
    sizes = yield from reads.try_all([(b"LLEN", keys.queue(name)) for name in names])
    workers = yield from processes.read(adapter, keys, identities, now)
    workers_of = counter_of(workers, are_known=not is_error(registered))
    running = yield from _count_running(keys, identities)
    filled = [name for name, size in zip(names, sizes, strict=True) if reads.number(size)]
    oldest = yield from _read_oldest(keys, filled)
    rows = [
        QueueRow(
            adapter=adapter,
            name=name,
            ready=reads.number(size),
            running=running[name],
            paused=name in paused,
            workers=workers_of(name),
            oldest_s=age_s(now, oldest.get(name)),
            problem=problem_of([(b"LLEN", keys.queue(name))], [size]),
        )
        for name, size in zip(names, sizes, strict=True)
    ]
    return Look(rows=(*rows, *(yield from _sets(adapter, keys, now))), unread=tuple(wrong))


def _count_running(keys: SidekiqKeys, names: Sequence[bytes]) -> Program[Counter[str]]:
    """Count the jobs that these processes run, by queue."""
    replies = yield from reads.try_all([(b"HSCAN", keys.work(name), b"0", b"COUNT", MOST_RUNNING) for name in names])
    found: Counter[str] = Counter()
    for reply in replies:
        for _, value in [] if is_error(reply) else reads.pairs(reply[1]):
            queue = (jobs.read(value) or {}).get("queue")
            found[queue if isinstance(queue, str) else ""] += 1
    return found


def _read_oldest(keys: SidekiqKeys, names: list[str]) -> Program[dict[str, int | None]]:
    """Read when the next job of each queue was enqueued, like Sidekiq does for its latency."""
    replies = yield from reads.try_all([(b"LINDEX", keys.queue(name), -1) for name in names])
    found: dict[str, int | None] = {}
    for name, reply in zip(names, replies, strict=True):
        job = None if is_error(reply) else jobs.read(reply)
        found[name] = None if job is None else jobs.in_ms(job.get("enqueued_at"))
    return found


def _sets(adapter: str, keys: SidekiqKeys, now: int) -> Program[list[QueueRow]]:
    grace = b"(%d.%03d" % divmod(now - jobs.GRACE_MS, 1000)
    replies = yield with_errors(
        *((b"ZCARD", keys.set_of(name)) for name in SETS),
        *((b"ZCOUNT", keys.set_of(name), b"-inf", now // 1000) for name in SETS),
        *((b"ZCOUNT", keys.set_of(name), b"-inf", grace) for name in SETS),
    )
    rows: list[QueueRow] = []
    for at, (name, state) in enumerate(SETS.items()):
        size, due, late = replies[at], replies[at + len(SETS)], replies[at + 2 * len(SETS)]
        if is_error(size):
            rows.append(
                QueueRow(adapter=adapter, name=name, problem=problem_of([(b"ZCARD", keys.set_of(name))], [size]))
            )
        elif size:
            waits = {} if state == "dead" else {"overdue": reads.number(due), "stuck": reads.number(late)}
            rows.append(QueueRow(adapter=adapter, name=name, **{state.value: int(size)}, **waits))  # type: ignore[arg-type]
    return rows
