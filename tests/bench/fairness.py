"""How far the starts of several queues on one worker are from the queues' weights.

`python -m bench.fairness CONCURRENCY WEIGHT…` is the worker that is measured: its queues are numbered from 0.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench import processes
from bench.figures import Figure, Sample, Setting
from bench.jobs import STAMPS
from qdeck import App
from qdeck.runtime import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.machine import BenchServer

EXPECTED: Final = 100  # starts of each queue in the smallest window that counts
STALL_S: Final = 600.0  # a thousand queues have 200,000 starts to make


class Deviation(NamedTuple):
    """The window that is furthest from the weights."""

    share: float  # of the starts expected
    starts: float
    queue: str

    def is_within(self, share: float, claim: int) -> bool:
        """Whether the starts differ by at most this share, or by one claim."""
        return self.share <= share or self.starts <= claim


def worst(order: Sequence[str], weights: Mapping[str, int]) -> Deviation:
    """The worst deviation in any window in which at least a hundred starts of each queue are expected.

    `order` names the queue of each start. Windows of one size begin at every tenth of that size; sizes double.
    """
    total = sum(weights.values())
    size = -(-EXPECTED * total // min(weights.values()))
    if len(order) < size:
        raise ValueError(f"{len(order)} starts are fewer than the {size} of the smallest window")
    found = Deviation(0.0, 0.0, "")
    while size <= len(order):
        for first in range(0, len(order) - size + 1, max(1, size // 10)):
            counts = Counter(order[first : first + size])
            for queue, weight in weights.items():
                expected = size * weight / total
                off = abs(counts[queue] - expected)
                found = max(found, Deviation(off / expected, off, queue))
        size *= 2
    return found


class Case(NamedTuple):
    """Queues with a backlog each, all of one kind of job."""

    kind: str  # async, thread or process
    weights: tuple[int, ...]
    seconds: float  # that a job takes
    is_random: bool = False  # any time up to twice as long
    concurrency: int = 10

    @property
    def name(self) -> str:
        """What is measured, in short."""
        many = len(self.weights) > 3 and len(set(self.weights)) == 1
        weights = f"{len(self.weights)} queues" if many else ":".join(map(str, self.weights))
        times = "no-op" if not self.seconds else "random" if self.is_random else "equal"
        return f"{self.kind} {weights} {times}"

    @property
    def starts(self) -> int:
        """How many starts are looked at: twice the smallest window."""
        return 2 * EXPECTED * sum(self.weights) // min(self.weights)


CASES: Final = (
    Case("async", (1, 1), 0.01),
    Case("async", (1, 1), 0.01, is_random=True),
    Case("async", (5, 1), 0.01),
    Case("async", (5, 1), 0.01, is_random=True),
    Case("async", (1, 1), 0.0),
    Case("async", (1,) * 100, 0.01, is_random=True),
    Case("thread", (1, 1), 0.01),
    Case("thread", (5, 1), 0.01, is_random=True),
    Case("process", (1, 1), 0.002),
    Case("process", (5, 1), 0.002, is_random=True),
    Case("async", (1,) * 1000, 0.01, is_random=True, concurrency=50),
)


def queue_of(number: int) -> str:
    """The name of a queue."""
    return f"bench:{number}:actions"


@cache
def _stamps() -> int:
    return os.open(os.environ[STAMPS], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


async def on_loop(queue: int, seconds: float) -> None:
    """Note the start, then wait."""
    os.write(_stamps(), b"%d\n" % queue)
    if seconds:
        await asyncio.sleep(seconds)


def blocking(queue: int, seconds: float) -> None:
    """Note the start, then block."""
    os.write(_stamps(), b"%d\n" % queue)
    time.sleep(seconds)


def make_app(url: str) -> App:
    """The application on a server."""
    made = App(url, queue=queue_of(0))
    made.task(name="async")(on_loop)
    made.task(name="thread")(blocking)
    made.task(name="process", process=True)(blocking)
    return made


app = make_app(os.environ.get("QDECK_URL", "redis://127.0.0.1:6379"))


def _fill(server: BenchServer, case: Case) -> None:
    made = make_app(server.url)
    task: Any = made.tasks[case.kind]
    spread = random.Random(1)
    for number, weight in enumerate(case.weights):
        # More than the share that is looked at, so that no queue runs dry before.
        count = 2 * case.starts * weight // sum(case.weights) + 100
        calls = [
            task.call(
                number, case.seconds * 2 * spread.random() if case.is_random else case.seconds, _queue=queue_of(number)
            )
            for _ in range(count)
        ]
        for first in range(0, count, 1000):
            made.enqueue_many(calls[first : first + 1000])
    made.close()


def deviation(setting: Setting, case: Case) -> tuple[Deviation, float]:
    """Let a worker run a case; the worst deviation, and the starts per second."""
    with setting.server() as server, tempfile.TemporaryDirectory(prefix="qdeck-bench-") as name:
        folder = Path(name)
        stamps = folder / "stamps"
        _fill(server, case)
        command = [sys.executable, "-m", "bench.fairness", str(case.concurrency), *map(str, case.weights)]
        with processes.running(server, command, folder, {STAMPS: str(stamps)}):
            begun, until = 0.0, time.monotonic() + STALL_S
            while not stamps.exists() or stamps.read_bytes().count(b"\n") < case.starts:
                if time.monotonic() > until:
                    raise processes.Stalled(f"{case.name}: fewer than {case.starts:,} starts in {STALL_S:.0f} s")
                begun = begun or (time.monotonic() if stamps.exists() else 0.0)
                time.sleep(0.02)
            seconds = time.monotonic() - begun
        order = stamps.read_text("ascii").split()[: case.starts]
    return worst(order, {str(n): weight for n, weight in enumerate(case.weights)}), len(order) / seconds


def fair(setting: Setting) -> Sample:
    """The worst deviation from the weights, and that of each case with its starts per second.

    No-ops do not count: a single claim takes as many of them as end in two milliseconds, up to 200.
    """
    found = {case: deviation(setting, case) for case in CASES}
    more = {case.name: f"{100 * off.share:.1f} % at {rate:,.0f}/s" for case, (off, rate) in found.items()}
    return Sample(reached=max(100 * off.share for case, (off, _) in found.items() if case.seconds), more=more)


def figures() -> list[Figure]:
    """The figure of this module."""
    title = "starts of queues, deviation from the weights"
    return [Figure(key="fair", title=title, unit=" %", aim=10.0, at_least=False, measure=fair, once=True)]


def main(concurrency: str, *weights: str) -> None:
    """Run the worker until SIGTERM."""
    queues = {queue_of(number): int(weight) for number, weight in enumerate(weights)}
    Worker(app, queues, concurrency=int(concurrency), processes=2, app_ref="bench.fairness:app").run()


if __name__ == "__main__":
    main(*sys.argv[1:])
