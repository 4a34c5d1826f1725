"""What is measured, each figure on a fresh server, and what it should reach."""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import limits, processes
from bench.jobs import STAMPS, make_app
from bench.machine import BenchServer, Pins, on_cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BACKLOG: Final = {"noop_async": 120_000, "noop_sync": 120_000}
PEER_BACKLOG: Final = 8_000
PEER_KNOWN: Final = 0.066  # of core_claim50_ack50
WAITING: Final = 100_000
WAITING_PAYLOAD: Final = 200
PACE_PER_S: Final = 200
PACE_S: Final = 10.0
IDLE_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How the benchmarks run."""

    pins: Pins
    seconds: float = 1.0
    binary: Path | None = None
    peers: Path | None = None

    def server(self) -> BenchServer:
        """A fresh server."""
        return BenchServer(self.pins, self.binary)

    @property
    def peer_python(self) -> Path | None:
        """The Python that has dramatiq, if there is one."""
        python = self.peers / "bin" / "python" if self.peers else None
        if python is None or not python.exists():
            return None
        found = subprocess.run([python, "-c", "import dramatiq"], capture_output=True, check=False)
        return python if found.returncode == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement; with the limit around it, before and after."""

    reached: float
    limit: tuple[float, float] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """The share of the limit."""
        return self.reached / statistics.mean(self.limit) if self.limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: how to measure it and what it should reach."""

    key: str
    title: str
    unit: str
    limit: str = "–"
    aim: float | None
    at_least: bool
    measure: Callable[[Setting], Sample]
    once: bool = False

    def is_met(self, value: float) -> bool:
        """Whether a median is good enough."""
        return self.aim is None or (value >= self.aim if self.at_least else value <= self.aim)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="qdeck-bench-") as name:
        yield Path(name)


def text_for(payload: int) -> str:
    """The argument of a call whose payload has that many bytes."""
    return "x" * (payload - len('[[""],{}]'))


def _between(setting: Setting, server: BenchServer, name: str, measure: Callable[[], float]) -> Sample:
    with on_cpu(setting.pins.client):
        before = limits.measure(name, server, setting.seconds)
    reached = measure()
    with on_cpu(setting.pins.client):
        after = limits.measure(name, server, setting.seconds)
    return Sample(reached=reached, limit=(before, after))


def enqueue_one(setting: Setting) -> Sample:
    """Enqueues one job after the other, in blocking code, with the payload of the limit."""
    with setting.server() as server:
        app, text, more = make_app(server.url), text_for(len(limits.PAYLOAD)), {}
        enqueue = app.tasks["noop_async"].enqueue

        def measure() -> float:
            with on_cpu(setting.pins.client):
                enqueue(text)
                cpu, look, start = time.process_time(), server.look(), time.perf_counter()
                rate = limits.rate_of(lambda: enqueue(text), setting.seconds)
                jobs = (time.perf_counter() - start) * rate
                more["client_cpu_us"] = (time.process_time() - cpu) / jobs * 1e6
                more["server_script_us"] = server.look().since(look).script_us / jobs
            return rate

        sample = _between(setting, server, "core_enq1", measure)
        app.close()
    return Sample(reached=sample.reached, limit=sample.limit, more=more)


def enqueue_many(setting: Setting) -> Sample:
    """Enqueues jobs of 200 bytes, 500 in a list."""
    with setting.server() as server:
        app, text = make_app(server.url), text_for(WAITING_PAYLOAD)
        call = app.tasks["noop_async"].call

        def measure() -> float:
            with on_cpu(setting.pins.client):
                return limits.rate_of(
                    lambda: app.enqueue_many([call(text) for _ in range(500)]), setting.seconds, per_call=500
                )

        sample = _between(setting, server, "core_enq_batch100", measure)
        app.close()
    return sample


def _backlog(server: BenchServer, task: str, count: int) -> None:
    app = make_app(server.url)
    for _ in range(count // 1000):
        app.enqueue_many([app.tasks[task].call() for _ in range(1000)])
    app.close()


def drain(server: BenchServer, task: str, folder: Path, command: list[str] | None = None) -> processes.Drained:
    """Lets one worker process empty a backlog of no-transitions."""
    _backlog(server, task, BACKLOG[task])
    with processes.running(server, command or processes.worker_command(), folder) as worker:
        return processes.drain(server, worker, BACKLOG[task], processes.done_count(server))


def run_async(setting: Setting) -> Sample:
    """One worker process, no-ops on its loop."""
    more: dict[str, Any] = {}
    with setting.server() as server, _folder() as folder:

        def measure() -> float:
            drained = drain(server, "noop_async", folder)
            more.update(drained.per_job(), startup_s=drained.startup_s)
            return drained.rate

        sample = _between(setting, server, "core_claim50_ack50", measure)
    return Sample(reached=sample.reached, limit=sample.limit, more=more)


def run_sync(setting: Setting) -> Sample:
    """One worker process, no-ops in its threads; against dramatiq in the same minute when there is one."""
    more: dict[str, Any] = {}
    with setting.server() as server, _folder() as folder:
        peers: list[float] = []

        def measure() -> float:
            if setting.peer_python:
                peers.append(_drain_peer(server, setting.peer_python, folder))
                server.empty()
            drained = drain(server, "noop_sync", folder)
            more.update(drained.per_job())
            server.empty()
            if setting.peer_python:
                peers.append(_drain_peer(server, setting.peer_python, folder))
            return drained.rate

        sample = _between(setting, server, "core_claim50_ack50", measure)
    more["ratio_to_core_claim50_ack50"] = sample.ratio
    if peers:
        return Sample(reached=sample.reached, limit=(peers[0], peers[1]), more=more)
    return Sample(reached=sample.reached, limit=sample.limit, more=more)


def _drain_peer(server: BenchServer, python: Path, folder: Path) -> float:
    environment = {"QDECK_URL": server.url, "PYTHONPATH": str(processes.TESTS)}
    with on_cpu(server.pins.client):
        subprocess.run(
            [python, Path(__file__).with_name("peer_dramatiq.py"), str(PEER_BACKLOG)],
            env=os.environ | environment,
            check=True,
        )

    def done() -> int:
        left: Any = server.raw.hlen("dramatiq:default.msgs")
        return PEER_BACKLOG - int(left)

    command = [str(python.with_name("dramatiq")), "bench.peer_dramatiq:broker", "-p", "1", "-t", "32"]
    with processes.running(server, command, folder, environment) as worker:
        return processes.drain(server, worker, PEER_BACKLOG, done).rate


def latency(setting: Setting) -> Sample:
    """From just before an enqueue to the start of the job, 200 times a second; the producer is not pinned.

    A bare push to a process that blocks on a list comes first: what the machine itself does at this moment.
    """
    with setting.server() as server, _folder() as folder:
        bare = folder / "bare"
        with processes.running(server, [sys.executable, "-m", "bench.bare"], folder, {STAMPS: str(bare)}):
            _wait_for(bare)
            _pace(lambda: server.raw.lpush("bare", time.monotonic_ns()), PACE_S / 2)
            time.sleep(0.1)
        server.empty()
        app, stamps = make_app(server.url), folder / "stamps"
        task = app.tasks["stamp"]
        task.enqueue(time.monotonic_ns())
        with processes.running(server, processes.worker_command(), folder) as worker:
            processes.drain(server, worker, 1, processes.done_count(server))
            sent = _pace(lambda: task.enqueue(time.monotonic_ns()), PACE_S)
            processes.drain(server, worker, 1 + sent, processes.done_count(server))
        app.close()
        seen, limit = _waits_ms(stamps), _waits_ms(bare)
    shown: dict[str, Any] = {f"p{p}_ms": _percentile(seen, p) for p in (50, 90, 99)}
    shown |= {"worst_ms": seen[-1], "jobs": len(seen)}
    shown |= {f"bare_p{p}_ms": _percentile(limit, p) for p in (50, 90, 99)}
    return Sample(reached=shown["p99_ms"], more=shown)


def _wait_for(path: Path) -> None:
    until = time.monotonic() + 10.0
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.01)


def _pace(send: Callable[[], object], seconds: float) -> int:
    """Sends at a steady pace, a second longer than asked; that second warms up."""
    count, start = int(PACE_PER_S * (seconds + 1)), time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + number / PACE_PER_S - time.perf_counter()))
        send()
    return count


def _waits_ms(path: Path) -> list[float]:
    """What was noted, without the first second, in order of length."""
    return sorted(int(line) / 1e6 for line in path.read_text("ascii").split()[PACE_PER_S:])


def _percentile(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, math.floor(len(ordered) * percent / 100))]


def idle(setting: Setting) -> Sample:
    """What a worker asks of the server when there is nothing to do, calls inside scripts counted."""
    with setting.server() as server, _folder() as folder:
        app = make_app(server.url)
        app.tasks["noop_async"].enqueue()
        app.close()
        with processes.running(server, processes.worker_command(), folder) as worker:
            processes.drain(server, worker, 1, processes.done_count(server))
            time.sleep(3.0)  # what follows a job is over
            cpu, before = sum(worker.cpu_times()[:2]), server.look()
            time.sleep(IDLE_S)
            work = server.look().since(before)
            spent = sum(worker.cpu_times()[:2]) - cpu
            rss = worker.memory_info().rss
    more = {"calls": work.calls, "cpu_percent": 100 * spent / work.seconds, "rss_mb": rss / 2**20}
    return Sample(reached=work.commands / work.seconds, more=more)


def memory(setting: Setting) -> Sample:
    """What a waiting job takes on the server beyond its payload."""
    with setting.server() as server:
        app, text = make_app(server.url), text_for(WAITING_PAYLOAD)
        call = app.tasks["noop_async"].call
        app.enqueue_many([call(text) for _ in range(1000)])
        before = server.look()
        for _ in range(WAITING // 1000):
            app.enqueue_many([call(text) for _ in range(1000)])
        work = server.look().since(before)
        app.close()
    return Sample(reached=work.memory / WAITING - WAITING_PAYLOAD)


def all_figures(setting: Setting, *, server_is_valkey: bool) -> list[Figure]:
    """Every figure, in the order of the table."""
    peer = setting.peer_python is not None
    return [
        Figure(
            key="one",
            title="enqueue one by one",
            unit="/s",
            limit="core_enq1",
            aim=0.9,
            at_least=True,
            measure=enqueue_one,
        ),
        Figure(
            key="many",
            title="enqueue many",
            unit="/s",
            limit="core_enq_batch100",
            aim=0.7,
            at_least=True,
            measure=enqueue_many,
        ),
        Figure(
            key="async",
            title="async no-op",
            unit="/s",
            limit="core_claim50_ack50",
            aim=0.5,
            at_least=True,
            measure=run_async,
        ),
        Figure(
            key="sync",
            title="sync no-op in threads",
            unit="/s",
            limit="dramatiq, 32 threads" if peer else "core_claim50_ack50",
            aim=5.0 if peer else 5 * PEER_KNOWN,
            at_least=True,
            measure=run_sync,
        ),
        Figure(
            key="latency",
            title="latency p99 at 200 jobs/s",
            unit=" ms",
            aim=0.5,
            at_least=False,
            measure=latency,
            once=True,
        ),
        Figure(
            key="idle", title="commands of an idle worker", unit="/s", aim=0.5, at_least=False, measure=idle, once=True
        ),
        Figure(
            key="memory",
            title="bytes per waiting job beyond its payload",
            unit="",
            # Servers before Valkey 8 keep hashes and sorted sets in tables with longer chains of pointers.
            aim=300 if server_is_valkey else 360,
            at_least=False,
            measure=memory,
            once=True,
        ),
    ]
