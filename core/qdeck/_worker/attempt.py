"""One attempt of a job: its handler, its limits, and how its ending is reported."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
import time
import traceback as tracebacks
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from qdeck._engine import codec
from qdeck._engine.transitions import ClaimedJob, Ending
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
from qdeck._job_context import JobContext, read_failure
from qdeck._task_options import read_duration, retry_delay_ms

if TYPE_CHECKING:
    from qdeck._app import App, Task
    from qdeck._worker.output_capture import Output
    from qdeck._worker.worker_queue import WorkerQueue

MAX_MESSAGE: Final = 4_000
MAX_TRACEBACK: Final = 16_000
ExecutorKind = Literal["async", "thread", "process"]
StopReason = Literal["timeout", "lost", "cancelled", "shutdown"]
# The error that stops a handler, by reason.
STOP_ERRORS: Final[dict[str, type[Exception]]] = {
    "timeout": TimeLimitExceeded,
    "lost": LeaseLost,
    "cancelled": JobCancelled,
    "shutdown": JobCancelled,
}
# Messages of errors without text.
_EMPTY: Final[dict[type, str]] = {
    asyncio.CancelledError: "the handler was cancelled, and not by the worker",
}

_one_context: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """How to run the jobs with one head; read once, not for each job."""

    head: codec.JobHead
    task: Task[Any, Any] | None
    kind: ExecutorKind
    limit_s: float | None
    keeps_result: bool
    is_failure_handler: bool


def read_spec(app: App, raw_head: bytes) -> HandlerSpec:
    """Read a head and find its task."""
    head = codec.read_head(raw_head)
    retry_delay_ms(head.backoff, 1, 0.5)  # raises now when it cannot be read, not after a failed attempt
    task = app.tasks.get(head.task)
    kind: ExecutorKind = "async"
    if task is not None and task.options.process:
        kind = "process"
    elif task is not None and not inspect.iscoroutinefunction(task.function):
        kind = "thread"
    return HandlerSpec(
        head=head,
        task=task,
        kind=kind,
        limit_s=head.limit_ms / 1000 if head.limit_ms else None,
        keeps_result=head.keep_ms != 0,
        is_failure_handler=head.origin is not None,
    )


class Attempt:
    """A claimed job that this worker holds."""

    __slots__ = (
        "_context",
        "abandoned",
        "claimed",
        "crashes",
        "error",
        "expires_at",
        "number",
        "output",
        "queue",
        "renewed",
        "spec",
        "started",
        "stop",
        "stopped",
        "thread",
    )

    def __init__(self, queue: WorkerQueue[Attempt], claimed: ClaimedJob, spec: HandlerSpec, now: float) -> None:
        self.queue = queue
        self.claimed = claimed
        self.spec = spec
        self.renewed = now  # when the lease was surely held, on this machine's monotonic clock
        self.started = 0.0
        self.expires_at = 0.0
        self.stop: StopReason | None = None
        self.stopped = 0.0
        self.abandoned = False
        self.output: Output | None = None
        self.error: BaseException | None = None  # what the handler raised, for the log
        self.thread: int | asyncio.Task[None] | None = None
        earlier = codec.read_attempts(claimed.attempts)
        self.number = earlier.failed + 1
        self.crashes = earlier.crashes
        self._context: JobContext | None = None

    def begin(self) -> None:
        """Record the start of the handler."""
        self.started = time.monotonic()
        if self.spec.limit_s is not None:
            self.expires_at = self.started + self.spec.limit_s

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the handler."""
        if self.spec.is_failure_handler:
            return [read_failure(self.queue.name, self.claimed.body)], {}
        return codec.decode_call(self.claimed.body)

    def function(self) -> Any:
        """Return the handler."""
        if self.spec.task is None:
            raise UnknownTask(
                f"this worker has no task {self.spec.head.task!r}",
                hint="Import the module that declares it, or stop workers of an older version.",
            )
        return self.spec.task.function

    def context(self) -> JobContext:
        """Return the context that `current_job` gives to the handler."""
        if self._context is None:
            # The handler and the heartbeat may call this at the same time: they must get the same events.
            with _one_context:
                self._context = self._context or self._make_context()
        return self._context

    def _make_context(self) -> JobContext:
        head = self.spec.head
        return JobContext(
            id=self.claimed.id,
            queue=self.queue.name,
            task=head.task,
            attempt=self.number,
            retries=head.retries,
            crashes=self.crashes,
            worker=self.queue.worker,
            name=head.name,
            tags=head.tags,
            enqueued_ms=int(self.claimed.head.partition(b" ")[0]),
        )

    def request_stop(self, reason: StopReason) -> bool:
        """Record why the attempt has to stop and signal its handler; return False when that was done before."""
        if self.stop is not None:
            return False
        self.stop, self.stopped = reason, time.monotonic()
        if reason == "lost":
            self.context().lease_lost.set()
        else:
            self.context().cancelled.set()
        return True

    def log(self) -> bytes:
        """Return what the handler printed and logged."""
        return b"" if self.output is None else self.output.bytes()

    def success(self, value: Any) -> Ending | None:
        """Return the ending of a handler that returned; None when there is nothing to keep."""
        if (value is None or not self.spec.keeps_result) and self.output is None:
            return None
        try:
            result = b"" if value is None or not self.spec.keeps_result else codec.encode_value(value)
        except Exception as error:  # noqa: BLE001 - the encoder runs code of the value's class
            not_json = PayloadNotSerializable(f"the result of task {self.spec.head.task!r} is not JSON: {error}")
            return self.failure(not_json)
        most = codec.MAX_PAYLOAD if self.spec.task is None else self.spec.task.app.max_payload
        if len(result) > most:
            return self.failure(
                PayloadTooLarge(f"the result of task {self.spec.head.task!r} takes {len(result):,} bytes of {most:,}")
            )
        return self.ending("done", log=self.log(), result=result, keep_ms=self.spec.head.keep_ms or 0)

    def failure(self, error: BaseException) -> Ending:
        """Return the ending of a handler that raised."""
        self.error = error
        delay = retry_delay_ms(self.spec.head.backoff, self.number, random.random())  # noqa: S311 - spreads retries, guards nothing
        requested_ms = requested_delay_ms(error)
        if requested_ms is not None:
            delay = requested_ms
        elif is_final(error):
            delay = -1
        kind = "timeout" if self.stop == "timeout" else "failed"
        return self.ending(kind, delay_ms=delay, event=self._event(error), log=self.log())

    def ending(self, kind: str, **more: Any) -> Ending:
        """Return an ending of this attempt."""
        return Ending(kind=kind, id=self.claimed.id, token=self.claimed.token, **more)

    def _event(self, error: BaseException) -> bytes:
        ran_ms = round(1000 * (time.monotonic() - self.started)) if self.started else None
        return error_event(error, self.queue.worker, self.number, ran_ms)


def requested_delay_ms(error: BaseException) -> int | None:
    """Return the delay of a handler that raised `Retry`; None leaves it to the task's policy."""
    if not isinstance(error, Retry) or error.delay is None:
        return None
    try:
        return read_duration("delay", error.delay)
    except QdeckError:
        return None


def is_final(error: BaseException) -> bool:
    """Return whether another attempt would end the same."""
    return isinstance(error, Reject | PayloadNotSerializable | PayloadTooLarge)


def error_event(error: BaseException, worker: str, attempt: int, ran_ms: int | None = None) -> bytes:
    """Return the event that records an error. Never raises: otherwise the job would never end."""
    try:
        message = str(error) or _EMPTY.get(type(error), "")
    except Exception as other:  # noqa: BLE001 - code of the application
        message = f"(no text: str() raised  {type(other).__name__})"
    try:
        lines = "".join(tracebacks.format_exception(error))
    except Exception as other:  # noqa: BLE001 - the same
        lines = f"(no traceback: formatting raised  {type(other).__name__})"
    record = {
        "class": type(error).__name__,
        "message": clean(message)[:MAX_MESSAGE],
        "traceback": clean(lines)[-MAX_TRACEBACK:],
        "worker": worker,
        "attempt": attempt,
    }
    return codec.encode_json(record if ran_ms is None else record | {"ran_ms": ran_ms})


def clean(text: str) -> str:
    """Return text that JSON can carry: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def raise_in_thread(thread: int, error: type[BaseException] | None) -> None:
    """Raise an error in another thread as soon as it runs Python code; None cancels a pending one."""
    import ctypes

    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
