"""Plans, batches and undo of very many dead letters, beside what plain commands do in the same run.

`python tests/bench/operations.py [COUNT [TRACEBACK_BYTES]]`
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from operations.yard import QUEUE, Yard
from qdeck._deck.deck import Deck
from qdeck._operations import api
from support.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable

FILTERS = ("error:Timeout* age>5m", "message:*77*", "payload.user.id:42", "payload.user.id<50", "")


def main(count: int, trace: int) -> None:
    """Prints entries a second of each step."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    with Server() as server, server.client(timeout_s=60) as raw, Deck(server.url) as deck:
        yard = Yard(server.url, raw)
        ids = yard.bulk_dead(count, trace)
        raw.config_set("slowlog-log-slower-than", 5000)

        def measure(name: str, step: Callable[[], Any]) -> Any:
            raw.slowlog_reset()
            start = time.perf_counter()
            done = step()
            seconds = time.perf_counter() - start
            calls: Any = raw.slowlog_get(1000)
            slow = [call["duration"] / 1000 for call in calls]
            told = f", {len(slow)} calls over 5 ms, the longest {max(slow):.1f} ms" if slow else ""
            print(f"{name:40} {count / seconds:12,.0f}/s  {memory_mb()} MB{told}")
            return done

        measure("limit: read every history", lambda: read_all(yard, ids))
        for where in FILTERS:
            plan = measure(f"plan {where or 'of everything'}", partial(build, deck, "retry", where))
        measure("limit: zrem, zadd, hset in pairs of 200", lambda: move_all(yard, ids))
        batch = measure("retry", lambda: api.apply_plan(deck, plan, keep_bytes=1 << 34))
        measure("undo", lambda: api.undo_batch(deck, batch.batch))
        plan = measure("plan discard", partial(build, deck, "discard", ""))
        batch = measure("discard", lambda: api.apply_plan(deck, plan, keep_bytes=1 << 34))
        measure("undo", lambda: api.undo_batch(deck, batch.batch))
        measure("groups", lambda: api.read_groups(deck, QUEUE))


def build(deck: Deck, verb: str, where: str) -> Any:
    """A plan."""
    return api.build_plan(deck, verb, QUEUE, where=where)


def memory_mb() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def read_all(yard: Yard, ids: list[str]) -> None:
    """What a filter over errors has to read, and nothing done with it."""
    for at in range(0, len(ids), 2000):
        yard.raw.hmget(yard.key("error"), ids[at : at + 2000])


def move_all(yard: Yard, ids: list[str]) -> None:
    """What a retry has to write at least, without a check and without undo."""
    for at in range(0, len(ids), 200):
        part = ids[at : at + 200]
        pipe = yard.raw.pipeline(transaction=False)
        pipe.zadd("limit:from", dict.fromkeys(part, 1))
        pipe.zrem("limit:from", *part)
        pipe.zadd("limit:to", dict.fromkeys(part, 1))
        pipe.hset("limit:hash", mapping=dict.fromkeys(part, "x"))
        pipe.execute()


if __name__ == "__main__":
    sizes = [int(text) for text in sys.argv[1:3]]
    main(sizes[0] if sizes else 100_000, sizes[1] if len(sizes) > 1 else 300)
