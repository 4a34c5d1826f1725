"""Runs CPU-bound handlers in processes: a thread of this worker drives each child and outlives its death."""

from __future__ import annotations

import contextlib
import multiprocessing.connection as pipes
import socket
import subprocess
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._python import module_command
from qdeck._worker.run import STOPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Ending
    from qdeck._worker.run import Run
    from qdeck._worker.threads import Reports

POLL_S: Final = 0.05


class Order(msgspec.Struct):
    """What a child is asked to run."""

    task: str
    body: bytes
    failure: bool
    facts: dict[str, Any]


class Report(msgspec.Struct):
    """How it ended in the child: a result, or an event that tells the error."""

    result: bytes = b""
    log: bytes = b""
    event: bytes = b""
    rejected: bool = False
    unknown: bool = False  # the child does not know the task: it started later than its worker, from other files
    delay_ms: int | None = None


class Child:
    """One process that runs jobs one after another."""

    def __init__(self, app_ref: str, modules: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        command = module_command("qdeck._worker.child", app_ref, str(theirs.fileno()), *modules)
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._pipe: pipes.Connection[bytes, bytes] = pipes.Connection(ours.detach())

    def ask(self, run: Run) -> Report | None:
        """Runs a job in the child; none when the child died or had to be killed."""
        context = run.context()
        facts = {
            "id": context.id,
            "queue": context.queue,
            "attempt": context.attempt,
            "retries": context.retries,
            "crashes": context.crashes,
            "worker": context.worker,
            "name": context.name,
            "tags": list(context.tags),
            "enqueued_ms": context.enqueued_ms,
        }
        order = Order(run.plan.head.task, run.claimed.body, run.plan.handles_failure, facts)
        try:
            self._pipe.send_bytes(msgspec.msgpack.encode(order))
            while not self._pipe.poll(POLL_S):
                if run.stop is not None:
                    self.kill()
                    return None
            return msgspec.msgpack.decode(self._pipe.recv_bytes(), type=Report)
        except (EOFError, OSError):
            self.kill()
            return None

    def kill(self) -> None:
        """Ends the child, whatever it does."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._pipe.close()

    @property
    def exit_code(self) -> int | None:
        """How the child ended."""
        return self._process.poll()


class Processes:
    """A few children, each driven by a thread; made when first needed."""

    def __init__(self, reports: Reports, app_ref: str, most: int, modules: Sequence[str] = ()) -> None:
        self._reports = reports
        self._app_ref = app_ref
        self._modules = modules
        self._most = most
        self._jobs: SimpleQueue[Run | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0
        self._lock = threading.Lock()  # for `_open`, which the loop and the threads change

    def put(self, run: Run) -> None:
        """Runs a job as soon as a process is free."""
        self._jobs.put(run)
        self._count(1)
        if len(self._threads) < min(self._most, self._open):
            thread = threading.Thread(target=self._drive, name="qdeck-process", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def free(self) -> int:
        """How many more jobs would run at once."""
        return max(0, self._most - self._open)

    def take_waiting(self) -> list[Run]:
        """Takes out the jobs that no process has begun."""
        taken = []
        with contextlib.suppress(Empty):
            while True:
                run = self._jobs.get_nowait()
                if run is not None:
                    taken.append(run)
                    self._count(-1)
        return taken

    def _count(self, change: int) -> None:
        with self._lock:
            self._open += change

    def stop(self) -> None:
        """Ends the children that have nothing to do."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout=2)

    def _drive(self) -> None:
        child: Child | None = None
        while (run := self._jobs.get()) is not None:
            try:
                child = child or Child(self._app_ref, self._modules)
                ending = _run(child, run)
            except Exception as error:  # noqa: BLE001 - no process could be started, or it answered with nonsense
                ending = run.ended_badly(error)
                if child is not None:
                    child.kill()
            if child is not None and child.exit_code is not None:
                child = None
            self._count(-1)
            self._reports.put(run, ending)
        if child is not None:
            child.kill()


def _run(child: Child, run: Run) -> Ending | None:
    run.begin()
    report = None if run.stop is not None else child.ask(run)
    return _ending(run, report, child.exit_code if report is None else None)


def _ending(run: Run, report: Report | None, code: int | None) -> Ending | None:
    if report is None and run.stop is not None:
        return run.ended_badly(STOPS[run.stop]())
    if report is None:
        event = {"worker": run.lane.worker, "crashes": run.crashes + 1, "exit_code": code}
        return run.ending("crashed", event=codec.encode_json(event))
    if report.unknown:
        return run.ending("unknown")
    if report.event:
        ending = run.ended_badly(RuntimeError())
        run.error = None  # it was raised in the child, and its trace is in the event
        delay = -1 if report.rejected else ending.delay_ms
        if report.delay_ms is not None:
            delay = report.delay_ms
        return run.ending("failed", delay_ms=delay, event=report.event, log=report.log)
    if not report.result and not report.log:
        return None
    result = report.result if run.plan.keeps else b""
    return run.ending("done", result=result, log=report.log, keep_ms=run.plan.head.keep_ms or 0)
