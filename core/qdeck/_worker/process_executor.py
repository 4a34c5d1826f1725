"""Runs CPU-bound handlers in child processes, each driven by a thread that survives its death."""

from __future__ import annotations

import contextlib
import multiprocessing.connection as pipes
import socket
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._subprocess_command import module_command
from qdeck._worker.attempt import STOP_ERRORS
from qdeck._worker.thread_executor import AttemptQueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.transitions import Ending
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.thread_executor import Reporter

POLL_S: Final = 0.05


class ChildRequest(msgspec.Struct):
    """One job for a child process to run."""

    task: str
    body: bytes
    failure: bool
    facts: dict[str, Any]


class ChildResult(msgspec.Struct):
    """How the job ended in the child: a result, or an event with the error."""

    result: bytes = b""
    log: bytes = b""
    event: bytes = b""
    rejected: bool = False
    unknown: bool = False  # the child lacks the task: it started later than its worker, from other files
    delay_ms: int | None = None


class ChildProcess:
    """A process that runs jobs one after another."""

    def __init__(self, app_ref: str, modules: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        command = module_command("qdeck._worker.child_process", app_ref, str(theirs.fileno()), *modules)
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._pipe: pipes.Connection[bytes, bytes] = pipes.Connection(ours.detach())

    def run(self, attempt: Attempt) -> ChildResult | None:
        """Run a job in the child; return None when the child died or had to be killed."""
        context = attempt.context()
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
        request = ChildRequest(attempt.spec.head.task, attempt.claimed.body, attempt.spec.is_failure_handler, facts)
        try:
            self._pipe.send_bytes(msgspec.msgpack.encode(request))
            while not self._pipe.poll(POLL_S):
                if attempt.stop is not None:
                    self.kill()
                    return None
            return msgspec.msgpack.decode(self._pipe.recv_bytes(), type=ChildResult)
        except (EOFError, OSError):
            self.kill()
            return None

    def kill(self) -> None:
        """Kill the child."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self._pipe.close()

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the child; None while it runs."""
        return self._process.poll()


class ProcessExecutor:
    """A few child processes, each driven by a thread; started when first needed."""

    def __init__(self, reporter: Reporter, app_ref: str, most: int, modules: Sequence[str] = ()) -> None:
        self._reporter = reporter
        self._app_ref = app_ref
        self._modules = modules
        self._most = most
        self._jobs = AttemptQueue()
        self._threads: list[threading.Thread] = []

    def put(self, attempt: Attempt) -> None:
        """Run a job as soon as a process is free."""
        self._jobs.put(attempt)
        if len(self._threads) < min(self._most, self._jobs.open):
            thread = threading.Thread(target=self._drive, name="qdeck-process", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def free(self) -> int:
        """Return how many more jobs could start at once."""
        return max(0, self._most - self._jobs.open)

    def take_waiting(self) -> list[Attempt]:
        """Remove and return the jobs that have not started."""
        return self._jobs.take_waiting()

    def stop(self) -> None:
        """End the idle children."""
        self._jobs.stop(len(self._threads))
        for thread in self._threads:
            thread.join(timeout=2)

    def _drive(self) -> None:
        child: ChildProcess | None = None
        while (attempt := self._jobs.get()) is not None:
            try:
                child = child or ChildProcess(self._app_ref, self._modules)
                ending = _run(child, attempt)
            except Exception as error:  # noqa: BLE001 - no process could be started, or it answered with nonsense
                ending = attempt.failure(error)
                if child is not None:
                    child.kill()
            if child is not None and child.exit_code is not None:
                child = None
            self._jobs.ended()
            self._reporter.put(attempt, ending)
        if child is not None:
            child.kill()


def _run(child: ChildProcess, attempt: Attempt) -> Ending | None:
    attempt.begin()
    report = None if attempt.stop is not None else child.run(attempt)
    return _ending(attempt, report, child.exit_code if report is None else None)


def _ending(attempt: Attempt, report: ChildResult | None, code: int | None) -> Ending | None:
    if report is None and attempt.stop is not None:
        return attempt.failure(STOP_ERRORS[attempt.stop]())
    if report is None:
        event = {"worker": attempt.queue.worker, "crashes": attempt.crashes + 1, "exit_code": code}
        return attempt.ending("crashed", event=codec.encode_json(event))
    if report.unknown:
        return attempt.ending("unknown")
    if report.event:
        ending = attempt.failure(RuntimeError())
        attempt.error = None  # it was raised in the child, and the event has its traceback
        delay = -1 if report.rejected else ending.delay_ms
        if report.delay_ms is not None:
            delay = report.delay_ms
        return attempt.ending("failed", delay_ms=delay, event=report.event, log=report.log)
    if not report.result and not report.log:
        return None
    result = report.result if attempt.spec.keeps_result else b""
    return attempt.ending("done", result=result, log=report.log, keep_ms=attempt.spec.head.keep_ms or 0)
