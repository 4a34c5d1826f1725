"""Retry of all failed jobs of RQ or BullMQ, with plan and undo, beside what the system's own tool does with the same.

`python tests/bench/systems.py rq|bullmq5|bullmq6 [COUNT]`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.machine import BenchServer, Pins
from bench.operations import Meter
from core.adapters.bullmq import records as bullmq
from core.adapters.rq import records as rq
from qdeck.admin import Writer
from support.systems import node_with, python_with

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES: Final = {"rq": "rq/mail", "bullmq5": "bullmq/post", "bullmq6": "bullmq/post"}
AIMS: Final = {"rq": 8.0, "bullmq5": 0.5, "bullmq6": 0.5}  # the share of the own tool's speed
VERSIONS: Final = {"bullmq5": "5.81.5", "bullmq6": "6.7.0"}
_SLICE: Final = 1_000


def fill(raw: Any, system: str, count: int) -> None:
    """Write failed jobs."""
    raw.flushall()
    put: Callable[..., None] = partial(rq.put, queue="mail") if system == "rq" else bullmq.put
    if system != "rq":
        bullmq.queue(raw, version=VERSIONS[system])
    for start in range(0, count, _SLICE):
        with raw.pipeline(transaction=False) as pipe:
            for number in range(start, min(count, start + _SLICE)):
                put(pipe, job=f"job-{number}", state="failed")
            pipe.execute()


def own_tool(system: str, server: BenchServer) -> list[str]:
    """Return the command that retries all jobs of the queue with the system's own tool."""
    if system == "rq":
        python = python_with("rq==2.12.0", "redis==5.3.1")
        return [str(Path(python).parent / "rq"), "requeue", "--all", "--queue", "mail", "--url", server.url]
    folder = node_with("ioredis@5", *(f"bullmq{one[0]}@npm:bullmq@{one}" for one in VERSIONS.values()))
    script = Path(__file__).parents[1] / "core" / "adapters" / "bullmq" / "real.js"
    port = server.url.rpartition(":")[2].partition("/")[0]
    return ["node", str(script), f"{folder}/{system}", port, "0", "retryall"]


def main(system: str, count: int, pins: Pins) -> None:
    """Print a line for each step, and the share of the own tool's speed."""
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    queue = QUEUES[system]
    with BenchServer(pins) as server, Writer(server.url) as writer:
        print(f"{count:,} failed jobs of {system}; {pins}; {server.version()}")
        measure, seconds = Meter(server.raw, count), {}
        fill(server.raw, system, count)
        command, env = own_tool(system, server), {**os.environ, "QUEUE": "post"}
        run = partial(subprocess.run, command, env=env, check=True, capture_output=True)
        seconds["own"] = timed(partial(measure, f"{system}'s own tool", run))
        left = server.raw.zcard("rq:failed:mail" if system == "rq" else bullmq.P + "failed")
        assert left == 0, f"{left} jobs are still failed"
        fill(server.raw, system, count)
        plans: list[Any] = []
        seconds["plan"] = timed(lambda: plans.append(measure("plan", partial(writer.plan, "retry", queue))))
        batches: list[Any] = []
        apply = partial(writer.apply, plans[0], keep_bytes=1 << 34)
        seconds["apply"] = timed(lambda: batches.append(measure("apply", apply)))
        assert batches[0].applied == count
        measure("undo", partial(writer.undo, batches[0].batch))
        ratio = seconds["own"] / (seconds["plan"] + seconds["apply"])
        print(f"plan and apply: {ratio:.2f} × the own tool; aim {AIMS[system]:.1f}")


def timed(step: Callable[[], object]) -> float:
    """Run a step and return its seconds."""
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("system", choices=QUEUES)
    asked.add_argument("count", nargs="?", type=int, default=100_000)
    asked.add_argument("--pin", default="0,1", help="processors of server and client, or `none`")
    given = asked.parse_args()
    main(given.system, given.count, Pins.parse(given.pin))
