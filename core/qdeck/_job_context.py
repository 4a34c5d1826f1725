"""The context of a running job for its handler, and the failure that a failure handler receives."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from qdeck._engine import codec
from qdeck._errors import QdeckError


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The job that runs here: `attempt` counts from 1, `lease_lost` is set when another worker has the job."""

    id: str
    queue: str
    task: str
    attempt: int
    retries: int
    crashes: int
    worker: str
    name: str | None = None
    tags: tuple[str, ...] = ()
    enqueued_ms: int = 0
    lease_lost: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)


# Set by the worker around each run to a function that makes a JobContext.
running: ContextVar[Any] = ContextVar("qdeck_running", default=None)


def current_job() -> JobContext:
    """Return the job that the calling handler runs."""
    run = running.get()
    if run is None:
        raise QdeckError("there is no running job here", hint="Call current_job() inside a handler.")
    context: JobContext = run.context()
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A dead job, as its failure handler receives it."""

    id: str
    queue: str
    task: str
    name: str | None
    args: list[Any]
    kwargs: dict[str, Any]
    attempts: int
    crashes: int
    reason: str
    error_class: str | None
    error_message: str | None
    traceback: str | None
    failed_ms: int
    enqueued_ms: int


def read_failure(queue: str, body: bytes) -> Failure:
    """Read the body of a failure handler's job, written by the script that buried the job."""
    job_id, raw_head, raw_attempts, raw_events, call = codec.read_netstrings(body)
    head, attempts, events = codec.read_head(raw_head), codec.read_attempts(raw_attempts), codec.read_events(raw_events)
    last = events[-1] if events else codec.Event(0, "dead", {})
    try:
        args, kwargs = codec.decode_call(call)
    except ValueError:
        # The payload may be what killed the job; its handler has to run even so.
        args, kwargs = [call.decode("utf-8", "backslashreplace")], {}
    return Failure(
        id=job_id.decode(),
        queue=queue,
        task=head.task,
        name=head.name,
        args=args,
        kwargs=kwargs,
        attempts=attempts.failed,
        crashes=attempts.crashes,
        reason=last.kind,
        error_class=last.data.get("class"),
        error_message=last.data.get("message"),
        traceback=last.data.get("traceback"),
        failed_ms=last.at_ms,
        enqueued_ms=head.enqueued_ms,
    )
