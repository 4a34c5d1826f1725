"""The program of a child process: `python -m qdeck._worker.child_process MODULE:APP FD` runs a worker's jobs."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing.connection as pipes
import signal
import sys
import time
from contextvars import copy_context
from typing import Any

import msgspec

from qdeck._engine import codec
from qdeck._errors import PayloadNotSerializable, PayloadTooLarge
from qdeck._job_context import JobContext, read_failure, running
from qdeck._worker.app_loader import load_app
from qdeck._worker.attempt import error_event, is_final, requested_delay_ms
from qdeck._worker.output_capture import Output, OutputCapture
from qdeck._worker.process_executor import ChildRequest, ChildResult


class _ChildAttempt:
    """The part of an attempt that the output capture and `current_job` need."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self.output: Output | None = None
        self.abandoned = False

    def context(self) -> JobContext:
        return self._context


def _run(app: Any, request: ChildRequest) -> ChildResult:
    """Run a job. Call it in a context of its own."""
    facts = request.facts | {"tags": tuple(request.facts["tags"])}
    attempt = _ChildAttempt(JobContext(task=request.task, **facts))
    task = app.tasks.get(request.task)
    if task is None:
        return ChildResult(unknown=True)
    running.set(attempt)
    report, begun = ChildResult(), time.monotonic()
    try:
        function = task.function
        args: list[Any]
        kwargs: dict[str, Any]
        if request.failure:
            args, kwargs = [read_failure(attempt.context().queue, request.body)], {}
        else:
            args, kwargs = codec.decode_call(request.body)
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
        report.result = b"" if value is None else _encode(request.task, value, app.max_payload)
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the child
        ran_ms = round(1000 * (time.monotonic() - begun))
        report.event = error_event(error, attempt.context().worker, attempt.context().attempt, ran_ms)
        report.rejected = is_final(error)
        report.delay_ms = requested_delay_ms(error)
    report.log = b"" if attempt.output is None else attempt.output.bytes()
    return report


async def _await(value: Any) -> Any:
    return await value


def _encode(task: str, value: Any, most: int) -> bytes:
    try:
        text = codec.encode_value(value)
    except Exception as error:
        raise PayloadNotSerializable(f"the result of task {task!r} is not JSON: {error}") from error
    if len(text) > most:
        raise PayloadTooLarge(f"the result of task {task!r} takes {len(text):,} bytes of {most:,}")
    return text


def main() -> None:
    """Run jobs until the worker closes the pipe."""
    # These signals reach the whole process group; the worker handles them: running jobs end, then it closes the pipe.
    # A handler that does nothing, rather than SIG_IGN, because processes that a job starts would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    app = load_app(sys.argv[1])
    app.autodiscover(*sys.argv[3:])
    pipe: pipes.Connection[bytes, bytes] = pipes.Connection(int(sys.argv[2]))
    with OutputCapture():
        while True:
            try:
                request = msgspec.msgpack.decode(pipe.recv_bytes(), type=ChildRequest)
                pipe.send_bytes(msgspec.msgpack.encode(copy_context().run(_run, app, request)))
            except (EOFError, OSError):
                return


if __name__ == "__main__":
    main()
