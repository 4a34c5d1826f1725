"""The demo: server, history, worker, producer and a worker that hangs, and the console on them."""

from __future__ import annotations

import contextlib
import json as jsonlib
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self

from qdeck import QdeckError
from qdeck.admin import NATIVE, Reader
from qdeck.runtime import module_command
from qdeck.testing import Past
from qdeck_console.demo import names
from qdeck_console.demo.incidents import INCIDENTS, IncidentCheck, text_of
from qdeck_console.demo.others import seed_others
from qdeck_console.demo.schedules import seed_schedules
from qdeck_console.demo.seed import GONE, Seeder
from qdeck_console.embedded_cluster import EmbeddedCluster
from qdeck_console.embedded_server import EmbeddedServer, dying_with_parent
from qdeck_console.terminal import check_terminal, has_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from qdeck_console.demo.incidents import Incident

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_GRACE_S: Final = 3.0
_WORKERS_S: Final = 3.0


class _Ended(BaseException):
    """A signal ended the demo."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Demo:
    """The demo's server and processes. Whatever was started ends with the context manager, by its own pid."""

    def __init__(self, seed: int = 1, *, cluster: bool = False, incident: Incident | None = None) -> None:
        self.seed, self.incident = seed, incident
        self.server = EmbeddedCluster(lambda args: EmbeddedServer(args=args)) if cluster else EmbeddedServer()
        # The queues of other systems are not on Cluster.
        self._other_systems = not cluster and (incident is None or incident.other_systems)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()

    def __enter__(self) -> Self:
        try:
            self.server.start()
            self._fill()
            self._start_processes()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_processes(self) -> None:
        incident = self.incident
        self._start("work", "32", *(f"{queue}={weight}" for queue, weight in names.WORKER.items()))
        self._start("produce", str(self.seed), *(incident.kinds if incident else ()))
        if self._other_systems:
            self._start("others", str(self.seed))
        if incident is not None:
            self._await_workers(1)
            return
        hung = self._start("work", "2", f"{names.VIDEO}=1")
        self._await_workers(2)
        threading.Thread(target=self._freeze, args=(hung,), name="qdeck-demo-freeze", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the demo's server."""
        return self.server.url

    def stop(self) -> None:
        """End the processes and the server, and remove its directory."""
        self._over.set()
        for process in self._processes:
            process.terminate()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)  # a frozen process receives no signal
        last_moment = time.monotonic() + _GRACE_S
        for process in self._processes:
            try:
                process.wait(max(0.05, last_moment - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self.server.stop()

    def _fill(self) -> None:
        with Past(self.url, seed=self.seed, worker=GONE) as past:
            seeder = Seeder(past)
            if self.incident is None:
                seeder.run()
                seed_schedules(past)
            else:
                self.incident.seed(seeder)  # dead letters come first, as in `run`
                seeder.done()
        if self._other_systems:
            seed_others(self.url, self.seed)

    def _await_workers(self, count: int) -> None:
        """Wait until the workers have reported, so that the first frame has them."""
        last_moment = time.monotonic() + _WORKERS_S
        with Reader(self.url, adapters=[NATIVE]) as reader:  # the others would be remembered beyond the demo
            while len(reader.workers()) < count and time.monotonic() < last_moment:
                time.sleep(0.02)

    def _start(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = module_command(f"qdeck_console.demo.{module}", *arguments)
        process = subprocess.Popen(
            dying_with_parent(command),
            env={**os.environ, "QDECK_URL": self.url, **(self.incident.environment if self.incident else {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # ctrl-c in the terminal is for the console alone
        )
        self._processes.append(process)
        return process

    def _freeze(self, process: subprocess.Popen[bytes]) -> None:
        """Freeze the video worker once it runs a job: its leases expire, and no other worker serves its queue."""
        try:
            with Reader(self.url, adapters=[NATIVE]) as reader:
                while not self._over.wait(0.2):
                    if process.poll() is not None:
                        return
                    if len(reader.page(names.VIDEO, state="running", bodies=False).jobs) >= 2:
                        process.send_signal(signal.SIGSTOP)
                        return
        except QdeckError:
            return  # the server has ended already


def run(
    headless: bool = False,
    seconds: float | None = None,
    json: bool = False,
    *,
    seed: int = 1,
    read_only: bool = False,
    cluster: bool = False,
    incident: int | None = None,
) -> int:
    """Run the demo until the console is closed; headless, for some seconds or until a signal. Return the exit code.

    Without a terminal, it shows the status of its server and one frame, and runs on as if it were headless.
    """
    has_console = not headless and has_terminal()
    if has_console:
        check_terminal()
    chosen = None if incident is None else INCIDENTS[incident - 1]
    try:
        with _told_by_signals(), Demo(seed, cluster=cluster, incident=chosen) as demo:
            try:
                if has_console:
                    return _console(demo, seconds, read_only=read_only, incident=incident)
                return _headless(demo, seconds, json=json, shows=not headless and not json, incident=incident)
            finally:
                _ignore_signals()
    except _Ended as told:
        return 128 + told.number if has_console else 0


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _headless(demo: Demo, seconds: float | None, *, json: bool, shows: bool, incident: int | None) -> int:
    _write(jsonlib.dumps({"url": demo.url}) if json else demo.url)
    if incident is not None and not json:
        _write(text_of(incident))
    if shows:
        for command in (["status"], ["snapshot", "--size", "120x36"]):
            _write("")
            subprocess.run(module_command("qdeck_console", "--url", demo.url, *command), check=False)
        _write(f"\nOpen the console in a terminal: qdeck --url {demo.url}")
        _write("It runs until SIGTERM or Ctrl-C." if seconds is None else f"It runs for {seconds:g}s.")
    threading.Event().wait(seconds)
    return 0


def _console(demo: Demo, seconds: float | None, *, read_only: bool, incident: int | None) -> int:
    from qdeck_console.run_console import run_console

    if incident is None:
        return run_console(demo.url, read_only=read_only, title="demo", seconds=seconds)
    _write(f"{text_of(incident)}\n\nPress Enter to open the console. `q` leaves it.")
    sys.stdin.readline()
    with IncidentCheck(demo.url, INCIDENTS[incident - 1]) as watch:
        code = run_console(
            demo.url, read_only=read_only, title=f"incident {incident}", seconds=seconds, on_start=watch.attach
        )
    _write(watch.result)
    return code


@contextlib.contextmanager
def _told_by_signals() -> Iterator[None]:
    """Let signals end the demo in an orderly way from its first process on."""

    def told(number: int, _frame: FrameType | None) -> None:
        _ignore_signals()  # once is enough: what was started is being ended
        raise _Ended(number)

    before = {number: signal.signal(number, told) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
