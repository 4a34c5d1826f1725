"""Worker processes: our own as users start them, and that of the peer; and how fast they empty a backlog."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from bench.jobs import STAMPS
from bench.machine import META, BenchServer, Work, on_cpu
from qdeck_console.embedded_server import dying_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TESTS: Final = Path(__file__).resolve().parents[1]
_STARTUP_S: Final = 30.0
_STALL_S: Final = 20.0


class Stalled(Exception):
    """A worker ended or did nothing for a long time."""


@contextlib.contextmanager
def running(
    server: BenchServer, command: Sequence[str], folder: Path, environment: dict[str, str] | None = None
) -> Iterator[psutil.Process]:
    """Runs a worker's process on the client's processor; its whole group ends with the block."""
    variables = os.environ | {
        "QDECK_URL": server.url,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")])),
        STAMPS: str(folder / "stamps"),
        **(environment or {}),
    }
    log = folder / "worker.log"
    with log.open("wb") as output, on_cpu(server.pins.client):
        process = subprocess.Popen(
            dying_with_parent(command), env=variables, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield psutil.Process(process.pid)
    except Stalled as error:
        raise Stalled(f"{error}: {log.read_text('utf-8', 'replace')[-800:]}") from error
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign, patience_s in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)  # it leads a session of its own
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return


def worker_command(profile: Path | None = None) -> list[str]:
    """The command line of a worker of ours, under the profiler when a file for it is given."""
    return [sys.executable, "-m", "bench.serve", *([str(profile)] if profile else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """How a backlog was emptied, from the first job that was seen done to the last one."""

    jobs: int
    seconds: float
    startup_s: float
    worker_cpu_s: float
    work: Work

    @property
    def rate(self) -> float:
        """Jobs per second."""
        return self.jobs / self.seconds

    def per_job(self) -> dict[str, float]:
        """What a job costs; unlike the rate, it hardly moves with what else the machine does."""
        return {
            "wall_us": self.seconds / self.jobs * 1e6,
            "worker_cpu_us": self.worker_cpu_s / self.jobs * 1e6,
            "server_cpu_us": self.work.cpu_s / self.jobs * 1e6,
            "server_script_us": self.work.script_us / self.jobs,
            "server_commands": self.work.commands / self.jobs,
        }


def drain(server: BenchServer, worker: psutil.Process, total: int, done: Callable[[], int]) -> Drained:
    """Waits until `total` jobs are done; starting up does not count."""
    started = time.perf_counter()
    while (first := done()) == 0:
        _check(worker, time.perf_counter() - started < _STARTUP_S, f"nothing done of {total:,}")
        time.sleep(0.002)
    before, cpu, moved = server.look(), _cpu_s(worker), time.perf_counter()
    first, seen = done(), 0
    begun = time.perf_counter()
    while (count := done()) < total:
        if count != seen:
            seen, moved = count, time.perf_counter()
        _check(worker, time.perf_counter() - moved < _STALL_S, f"{count:,} of {total:,} done")
        time.sleep(0.005)
    ended = time.perf_counter()
    return Drained(
        jobs=max(total - first, 1),
        seconds=ended - begun,
        startup_s=begun - started,
        worker_cpu_s=_cpu_s(worker) - cpu,
        work=server.look().since(before),
    )


def _check(worker: psutil.Process, in_time: bool, what: str) -> None:
    if not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE:
        raise Stalled(f"the worker ended, {what}")
    if not in_time:
        raise Stalled(f"the worker does nothing, {what}")


def _cpu_s(worker: psutil.Process) -> float:
    total = 0.0
    for process in [worker, *worker.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def done_count(server: BenchServer) -> Callable[[], int]:
    """How many jobs of ours are acknowledged: one field, so asking 200 times a second disturbs nobody."""

    def count() -> int:
        value: Any = server.raw.hget(META, "n:done")
        return int(value or 0)

    return count
