"""The child process: `python -m qdeck._worker.child MODULE:APP FD` runs jobs that its worker sends."""

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

from qdeck._context import JobContext, read_failure, running
from qdeck._engine import codec
from qdeck._errors import PayloadNotSerializable, PayloadTooLarge
from qdeck._worker.capture import Capture, Output
from qdeck._worker.loading import load_app
from qdeck._worker.processes import Order, Report
from qdeck._worker.run import asked_delay_ms, error_event, is_final


class _Run:
    """The part of a run that the capture and `current_job` need."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self.output: Output | None = None
        self.abandoned = False

    def context(self) -> JobContext:
        return self._context


def _run(app: Any, order: Order) -> Report:
    """Runs a job. Called in a context of its own."""
    facts = order.facts | {"tags": tuple(order.facts["tags"])}
    run = _Run(JobContext(task=order.task, **facts))
    task = app.tasks.get(order.task)
    if task is None:
        return Report(unknown=True)
    running.set(run)
    report, begun = Report(), time.monotonic()
    try:
        function = task.function
        args: list[Any]
        kwargs: dict[str, Any]
        if order.failure:
            args, kwargs = [read_failure(run.context().queue, order.body)], {}
        else:
            args, kwargs = codec.decode_call(order.body)
        value = function(*args, **kwargs)
        if inspect.isawaitable(value):
            value = asyncio.run(_await(value))
        report.result = b"" if value is None else _encode(order.task, value, app.max_payload)
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the child
        ran_ms = round(1000 * (time.monotonic() - begun))
        report.event = error_event(error, run.context().worker, run.context().attempt, ran_ms)
        report.rejected = is_final(error)
        report.delay_ms = asked_delay_ms(error)
    report.log = b"" if run.output is None else run.output.bytes()
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
    """Runs jobs until the worker closes the pipe."""
    # These go to the whole process group and are the worker's to handle: it lets what runs end, and closes the pipe.
    # A handler that does nothing, rather than SIG_IGN, because processes that a job starts would inherit that.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    app = load_app(sys.argv[1])
    app.autodiscover(*sys.argv[3:])
    pipe: pipes.Connection[bytes, bytes] = pipes.Connection(int(sys.argv[2]))
    with Capture():
        while True:
            try:
                order = msgspec.msgpack.decode(pipe.recv_bytes(), type=Order)
                pipe.send_bytes(msgspec.msgpack.encode(copy_context().run(_run, app, order)))
            except (EOFError, OSError):
                return


if __name__ == "__main__":
    main()
