"""The child process: `python -m qdeck._worker.child MODULE:APP FD` runs jobs that its worker sends."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing.connection as pipes
import signal
import sys
import traceback
from typing import Any

import msgspec

from qdeck._context import JobContext, read_failure, running
from qdeck._engine import codec
from qdeck._errors import PayloadNotSerializable, Reject, Retry
from qdeck._worker.capture import Capture, Output
from qdeck._worker.loading import load_app
from qdeck._worker.processes import Order, Report
from qdeck._worker.run import MAX_MESSAGE, MAX_TRACEBACK, clean


class _Run:
    """The part of a run that the capture and `current_job` need."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self.output: Output | None = None
        self.abandoned = False

    def context(self) -> JobContext:
        return self._context


def _run(app: Any, order: Order) -> Report:
    facts = order.facts | {"tags": tuple(order.facts["tags"])}
    run = _Run(JobContext(task=order.task, **facts))
    running.set(run)
    report = Report()
    try:
        function = app.find_task(order.task).function
        args: list[Any]
        kwargs: dict[str, Any]
        if order.failure:
            args, kwargs = [read_failure(run.context().queue, order.body)], {}
        else:
            args, kwargs = codec.decode_call(order.body)
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
        report.result = b"" if value is None else _encode(order.task, value)
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the child
        report.event = _event(error, run.context())
        report.rejected = isinstance(error, Reject | PayloadNotSerializable)
        report.delay_s = error.delay if isinstance(error, Retry) else None
    finally:
        running.set(None)
    report.log = b"" if run.output is None else run.output.bytes()
    return report


async def _await(value: Any) -> Any:
    return await value


def _encode(task: str, value: Any) -> bytes:
    try:
        return codec.encode_value(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PayloadNotSerializable(f"the result of task {task!r} is not JSON: {error}") from error


def _event(error: BaseException, context: JobContext) -> bytes:
    return codec.encode_json(
        {
            "class": type(error).__name__,
            "message": clean(str(error))[:MAX_MESSAGE],
            "traceback": clean("".join(traceback.format_exception(error)))[-MAX_TRACEBACK:],
            "worker": context.worker,
            "attempt": context.attempt,
        }
    )


def main() -> None:
    """Runs jobs until the worker closes the pipe."""
    # Ctrl-C and the terminal's other signals are the worker's to handle.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    app = load_app(sys.argv[1])
    pipe: pipes.Connection[bytes, bytes] = pipes.Connection(int(sys.argv[2]))
    with Capture():
        while True:
            try:
                order = msgspec.msgpack.decode(pipe.recv_bytes(), type=Order)
                pipe.send_bytes(msgspec.msgpack.encode(_run(app, order)))
            except (EOFError, OSError):
                return


if __name__ == "__main__":
    main()
