"""qdeck's steps against a program that does just what the scheduler's page says, at the same time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from qdeck.adapters import Context, Skipped, changes
from qdeck.adapters.paging import every
from qdeck.admin import Limits, State, Verb, Writer, make_adapter

if TYPE_CHECKING:
    import redis

    from support.servers import Server

JOBS = 400


def test_promoting_beside_a_worker_that_pops_loses_nothing_and_doubles_nothing(
    url: str, raw: redis.Redis, shared_server: Server
) -> None:
    """Two operators promote the same overdue jobs while a worker takes them: each is taken exactly once."""
    due = time.time_ns() // 1_000_000 - 1000
    raw.zadd("scheduler:queue:delayed", {f"job{number}:NORMAL": due for number in range(JOBS)})
    taken: list[bytes] = []
    stop = threading.Event()

    def work() -> None:
        with shared_server.client() as client:
            while not stop.is_set() or client.zcard("scheduler:queue:priority"):
                for job_id, _ in client.zpopmin("scheduler:queue:priority"):
                    taken.append(job_id)

    def promote(batch: str) -> None:
        with Writer(url) as writer:
            adapter = make_adapter("scheduler")
            entries = writer.run(every(adapter, "scheduler", (State.DELAYED,), most=JOBS * 2))
            for at, entry in enumerate(entries):
                [change] = writer.run(adapter.changes(Verb.RUN, [entry], Context(now=due, limits=Limits())))
                assert not isinstance(change, Skipped)
                writer.write(changes.apply("scheduler", batch, [change], places=[at]))

    worker = threading.Thread(target=work)
    operators = [threading.Thread(target=promote, args=(name,)) for name in ("one", "two")]
    for thread in (worker, *operators):
        thread.start()
    for thread in operators:
        thread.join(60)
    stop.set()
    worker.join(60)
    assert sorted(taken) == sorted(b"job%d" % number for number in range(JOBS))
    assert raw.zcard("scheduler:queue:delayed") == 0
