"""One run of one job: what it is, and how its end is told."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
import traceback as tracebacks
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from qdeck._context import JobContext, read_failure
from qdeck._engine import codec
from qdeck._engine.ops import Claimed, Ending
from qdeck._errors import (
    JobCancelled,
    LeaseLost,
    PayloadNotSerializable,
    PayloadTooLarge,
    QdeckError,
    Reject,
    Retry,
    TimeLimitExceeded,
    UnknownTask,
)
from qdeck._options import read_duration, retry_delay_ms

if TYPE_CHECKING:
    from qdeck._app import App, Task
    from qdeck._worker.capture import Output
    from qdeck._worker.lane import Lane

MAX_MESSAGE: Final = 4_000
MAX_TRACEBACK: Final = 16_000
Kind = Literal["async", "thread", "process"]
StopReason = Literal["timeout", "lost", "cancelled", "shutdown"]
# What a handler is stopped with, by the reason.
STOPS: Final[dict[str, type[Exception]]] = {
    "timeout": TimeLimitExceeded,
    "lost": LeaseLost,
    "cancelled": JobCancelled,
    "shutdown": JobCancelled,
}
# What is said about errors that say nothing themselves.
_EMPTY: Final[dict[type, str]] = {
    asyncio.CancelledError: "the handler was cancelled, and not by the worker",
}

_one_context: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Plan:
    """How jobs with one kind of head are run; read once, not per job."""

    head: codec.Head
    task: Task[Any, Any] | None
    kind: Kind
    limit_s: float | None
    keeps: bool
    handles_failure: bool


def make_plan(app: App, raw_head: bytes) -> Plan:
    """Reads a head and finds the task it names."""
    head = codec.read_head(raw_head)
    retry_delay_ms(head.backoff, 1, 0.5)  # raises when it cannot be read, now rather than when a run has failed
    task = app.tasks.get(head.task)
    kind: Kind = "async"
    if task is not None and task.options.process:
        kind = "process"
    elif task is not None and not inspect.iscoroutinefunction(task.function):
        kind = "thread"
    return Plan(
        head=head,
        task=task,
        kind=kind,
        limit_s=head.limit_ms / 1000 if head.limit_ms else None,
        keeps=head.keep_ms != 0,
        handles_failure=head.origin is not None,
    )


class Run:
    """A claimed job in this worker's hand."""

    __slots__ = (
        "_context",
        "abandoned",
        "attempts",
        "claimed",
        "crashes",
        "due",
        "error",
        "lane",
        "output",
        "plan",
        "renewed",
        "started",
        "stop",
        "stopped",
        "thread",
    )

    def __init__(self, lane: Lane[Run], claimed: Claimed, plan: Plan, now: float) -> None:
        self.lane = lane
        self.claimed = claimed
        self.plan = plan
        self.renewed = now  # when the lease was surely held last, on this machine's monotonic clock
        self.started = 0.0
        self.due = 0.0
        self.stop: StopReason | None = None
        self.stopped = 0.0
        self.abandoned = False
        self.output: Output | None = None
        self.error: BaseException | None = None  # what the handler raised, for the log
        self.thread: int | asyncio.Task[None] | None = None
        self.attempts = codec.read_attempts(claimed.attempts)
        self.crashes = self.attempts.crashes
        self._context: JobContext | None = None

    def begin(self) -> None:
        """The handler starts now."""
        self.started = time.monotonic()
        if self.plan.limit_s is not None:
            self.due = self.started + self.plan.limit_s

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """What the handler is called with."""
        if self.plan.handles_failure:
            return [read_failure(self.lane.queue, self.claimed.body)], {}
        return codec.decode_call(self.claimed.body)

    def function(self) -> Any:
        """The handler."""
        if self.plan.task is None:
            raise UnknownTask(f"this worker has no task {self.plan.head.task!r}", hint="does its module declare it?")
        return self.plan.task.function

    def context(self) -> JobContext:
        """What the handler can know about its job."""
        if self._context is None:
            # The handler and the heartbeat may both ask for the first time: they must get the same events.
            with _one_context:
                self._context = self._context or self._make_context()
        return self._context

    def _make_context(self) -> JobContext:
        head = self.plan.head
        return JobContext(
            id=self.claimed.id,
            queue=self.lane.queue,
            task=head.task,
            attempt=self.attempts.failed + 1,
            retries=head.retries,
            crashes=self.attempts.crashes,
            worker=self.lane.worker,
            name=head.name,
            tags=head.tags,
            enqueued_ms=int(self.claimed.head.partition(b" ")[0]),
        )

    def ask_to_stop(self, reason: StopReason) -> bool:
        """Notes why the run has to stop and tells its handler; false when that was done before."""
        if self.stop is not None:
            return False
        self.stop, self.stopped = reason, time.monotonic()
        if reason == "lost":
            self.context().lease_lost.set()
        else:
            self.context().cancelled.set()
        return True

    def log(self) -> bytes:
        """What the handler printed and logged."""
        return b"" if self.output is None else self.output.bytes()

    def ended_well(self, value: Any) -> Ending | None:
        """How to tell a good end; none when there is nothing to keep."""
        if (value is None or not self.plan.keeps) and self.output is None:
            return None
        try:
            result = b"" if value is None or not self.plan.keeps else codec.encode_value(value)
        except Exception as error:  # noqa: BLE001 - the encoder runs code of the value's class
            refused = PayloadNotSerializable(f"the result of task {self.plan.head.task!r} is not JSON: {error}")
            return self.ended_badly(refused)
        most = codec.MAX_PAYLOAD if self.plan.task is None else self.plan.task.app.max_payload
        if len(result) > most:
            return self.ended_badly(
                PayloadTooLarge(f"the result of task {self.plan.head.task!r} takes {len(result):,} bytes of {most:,}")
            )
        return self.ending("done", log=self.log(), result=result, keep_ms=self.plan.head.keep_ms or 0)

    def ended_badly(self, error: BaseException) -> Ending:
        """How to tell that the handler raised."""
        self.error = error
        attempt = self.attempts.failed + 1
        delay = retry_delay_ms(self.plan.head.backoff, attempt, random.random())  # noqa: S311 - spreads retries, guards nothing
        asked = asked_delay_ms(error)
        if asked is not None:
            delay = asked
        elif is_final(error):
            delay = -1
        kind = "timeout" if self.stop == "timeout" else "failed"
        return self.ending(kind, delay_ms=delay, event=self._event(error, attempt), log=self.log())

    def ending(self, kind: str, **more: Any) -> Ending:
        """An end of this run."""
        return Ending(kind=kind, id=self.claimed.id, token=self.claimed.token, **more)

    def _event(self, error: BaseException, attempt: int) -> bytes:
        ran_ms = round(1000 * (time.monotonic() - self.started)) if self.started else None
        return error_event(error, self.lane.worker, attempt, ran_ms)


def asked_delay_ms(error: BaseException) -> int | None:
    """After how long a handler that raised `Retry` wants to run again; none leaves it to the task's own policy."""
    if not isinstance(error, Retry) or error.delay is None:
        return None
    try:
        return read_duration("delay", error.delay)
    except QdeckError:
        return None


def is_final(error: BaseException) -> bool:
    """Whether another run would end the same."""
    return isinstance(error, Reject | PayloadNotSerializable | PayloadTooLarge)


def error_event(error: BaseException, worker: str, attempt: int, ran_ms: int | None = None) -> bytes:
    """What is kept about an error. Must not fail, whatever the error's own methods do: the job would never end."""
    try:
        message = str(error) or _EMPTY.get(type(error), "")
    except Exception as other:  # noqa: BLE001 - code of the application
        message = f"(its text cannot be had: {type(other).__name__})"
    try:
        lines = "".join(tracebacks.format_exception(error))
    except Exception as other:  # noqa: BLE001 - the same
        lines = f"(its traceback cannot be had: {type(other).__name__})"
    told = {
        "class": type(error).__name__,
        "message": clean(message)[:MAX_MESSAGE],
        "traceback": clean(lines)[-MAX_TRACEBACK:],
        "worker": worker,
        "attempt": attempt,
    }
    return codec.encode_json(told if ran_ms is None else told | {"ran_ms": ran_ms})


def clean(text: str) -> str:
    """Text that JSON can carry: lone surrogates become visible."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def raise_in_thread(thread: int, error: type[BaseException] | None) -> None:
    """Raises an error in another thread, as soon as that runs Python code again; none takes back what was to come."""
    import ctypes

    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
