"""Plans, batches and undo of very many dead letters, beside what the same commands do bare in the same run.

`python tests/bench/operations.py [--realtime] [COUNT [TRACEBACK_BYTES]]`
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.machine import BenchServer, Pins
from core._operations.yard import QUEUE, Yard
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

FILTERS: Final = ("error:Timeout* age>5m", "message:*77*", "payload.user.id:42", "payload.user.id<50", "")
SLICE: Final = 200
PACED: Final = 600

# What a retry has to do to a job at least, and a discard: no check, nothing kept to undo it, and nothing counted.
RETRY_BARE: Final = """
redis.call('ZMSCORE', KEYS[1], unpack(ARGV))
redis.call('HMGET', KEYS[2], unpack(ARGV))
local texts, e, z = redis.call('HMGET', KEYS[3], unpack(ARGV)), {}, {}
for i, id in ipairs(ARGV) do
  e[2 * i - 1], e[2 * i] = id, texts[i] .. '\\n1800000000000 retried {"reason":"retry by an operator","by":"somebody"}'
  z[2 * i - 1], z[2 * i] = 1, id
end
redis.call('HSET', KEYS[3], unpack(e))
redis.call('ZREM', KEYS[1], unpack(ARGV))
redis.call('ZADD', KEYS[4], unpack(z))
redis.call('HDEL', KEYS[5], unpack(ARGV))
"""
DISCARD_BARE: Final = """
redis.call('ZMSCORE', KEYS[1], unpack(ARGV))
redis.call('ZREM', KEYS[1], unpack(ARGV))
for i = 2, 5 do
  redis.call('HMGET', KEYS[i], unpack(ARGV))
  redis.call('HDEL', KEYS[i], unpack(ARGV))
end
"""


class Meter:
    """Measures steps: entries a second, the server's share of the time, its longest call, how memory grew here."""

    def __init__(self, raw: Any, count: int) -> None:
        self.raw, self.count = raw, count
        raw.config_set("slowlog-log-slower-than", 1000)
        raw.config_set("slowlog-max-len", 100_000)

    def __call__(self, name: str, step: Callable[[], Any]) -> Any:
        """Runs a step and prints its line."""
        self.raw.config_resetstat()
        self.raw.slowlog_reset()
        before = forget_peak()
        start = time.perf_counter()
        done = step()
        seconds = time.perf_counter() - start
        more = memory_mb("VmHWM") - before
        stats = self.raw.info("commandstats")
        busy = sum(stat["usec"] for name, stat in stats.items() if not _inside(name, stats)) / 1e6
        took = [call["duration"] / 1000 for call in self.raw.slowlog_get(100_000)]
        over = sum(ms > 5 for ms in took)
        print(
            f"{name:42} {self.count / seconds:10,.0f}/s  server {busy / seconds:4.0%}"
            f"  longest call {max(took, default=1.0):5.1f} ms, {over} over 5  {more:+4} MB"
        )
        return done


def _inside(name: str, stats: dict[str, Any]) -> bool:
    """Whether a command ran inside scripts, whose time counts for it already."""
    return "cmdstat_evalsha" in stats and name != "cmdstat_evalsha"


def main(count: int, trace: int, pins: Pins) -> None:
    """Prints a line for each step."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    with BenchServer(pins) as server, Writer(server.url) as writer:
        if pins.client is not None:
            os.sched_setaffinity(0, {pins.client})
        yard = Yard(server.url, server.raw)
        ids = yard.bulk_dead(count, trace)
        print(f"{count:,} dead letters with {trace} bytes of traceback; {pins}; {server.version()}")
        measure = Meter(server.raw, count)
        measure("limit: read every history", lambda: read_all(yard, ids))
        for where in FILTERS:
            plan = measure(f"plan {where or 'of everything'}", partial(build, writer, "retry", where))
        for verb, bare in (("retry", RETRY_BARE), ("discard", DISCARD_BARE)):
            measure(f"limit: {verb}, bare", partial(run_bare, yard, bare, ids))
            yard.raw.flushall(asynchronous=False)
            ids = yard.bulk_dead(count, trace)
            plan = measure(f"plan {verb} of everything", partial(build, writer, verb, ""))
            batch = measure(verb, partial(writer.apply, plan, keep_bytes=1 << 34))
            measure(f"undo of {verb}", partial(writer.undo, batch.batch))
            plan = build(writer, verb, "")
            measure(f"{verb} with pauses, for its calls", partial(with_pauses, writer.apply, plan, keep_bytes=1 << 34))
            measure("undo with pauses, for its calls", partial(with_pauses, writer.undo, plan.batch))
        measure("groups", lambda: writer.groups(QUEUE))


def with_pauses(step: Callable[..., Any], what: Any, **more: Any) -> None:
    """A few hundred slices with the server idle half of the time.

    A process with real-time priority is held up for 50 ms in each second that it fills, and then that is the longest
    call. So how long one really takes is only seen when there are pauses.
    """
    slices = itertools.count()

    def pause(_: Any) -> None:
        time.sleep(0.002)

    step(what, progress=pause, cancelled=lambda: next(slices) >= PACED, **more)


def build(writer: Writer, verb: str, where: str) -> Any:
    """A plan."""
    return writer.plan(verb, QUEUE, where=where)


def memory_mb(field: str) -> int:
    """What this process has in memory now (`VmRSS`), or had at most (`VmHWM`)."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0]) // 1024


def forget_peak() -> int:
    """Lets the peak start anew; returns what is in memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory_mb("VmRSS")


def read_all(yard: Yard, ids: list[str]) -> None:
    """What a filter over errors has to read, and nothing done with it."""
    for at in range(0, len(ids), 2000):
        yard.raw.hmget(yard.key("error"), ids[at : at + 2000])


def run_bare(yard: Yard, script: str, ids: list[str]) -> None:
    """A script over all ids, slice by slice."""
    if script == RETRY_BARE:
        names = [yard.key(part) for part in ("dead", "head", "error", "ready", "attempts")]
    else:
        names = [yard.key(part) for part in ("dead", "head", "error", "body", "attempts")]
    run = yard.raw.register_script(script)
    for at in range(0, len(ids), SLICE):
        run(keys=names, args=ids[at : at + SLICE])


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("count", nargs="?", type=int, default=100_000)
    asked.add_argument("trace", nargs="?", type=int, default=300)
    asked.add_argument("--realtime", action="store_true", help="before everything else that runs here (root)")
    asked.add_argument("--pin", default="0,1", help="processors of server and client, or `none`")
    given = asked.parse_args()
    if given.realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))  # inherited by the server
    main(given.count, given.trace, Pins.parse(given.pin))
