"""Jobs that an operator enqueues by the name of a task, without an app that declares it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._engine import codec, programs
from qdeck._engine.job_ids import check_id, new_id
from qdeck._engine.transitions import EnqueueResult, NewJob
from qdeck._errors import DependencyCycle, InvalidOption, UnknownDependency
from qdeck._queue_names import QueueName
from qdeck._task_options import (
    Options,
    Priority,
    read_due,
    read_duration,
    read_job_name,
    read_options,
    read_priority,
    read_tags,
    read_task_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from qdeck._redis.commands import Program


def new_job(
    queue: str,
    task: str,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    id: str | None = None,
    name: str | None = None,
    unique: bool = False,
    priority: int | str = Priority.NORMAL,
    retries: int | None = None,
    delay: float | timedelta | None = None,
    at: datetime | float | None = None,
    after: Iterable[str] = (),
    tags: Iterable[str] = (),
) -> NewJob:
    """Return a job as the engine takes it; raise before anything is sent for invalid values."""
    if delay is not None and at is not None:
        raise InvalidOption("both a delay and a time are given", hint="Give one of them.")
    if unique and name is None:
        raise InvalidOption("a unique job needs a name", hint="Name it: the name is what is unique.")
    own = read_task_name(task)
    options = read_options({} if retries is None else {"retries": retries}, Options(queue=queue))
    job_id = new_id() if id is None else check_id(id)
    refs = _refs(after, queue)
    if job_id in refs:
        raise DependencyCycle(f"job {job_id!r} would wait for itself", hint="Name another job to wait for.")
    head = codec.JobHead(
        enqueued_ms=0,
        priority=read_priority("priority", priority),
        retries=options.retries,
        task=own,
        name=None if name is None else read_job_name(name),
        unique=unique,
        tags=read_tags(list(tags)),
    )
    return NewJob(
        id=job_id,
        priority=head.priority,
        template=head.template(),
        body=codec.encode_call(own, tuple(args), dict(kwargs or {})),
        delay_ms=None if delay is None else read_duration("delay", delay),
        due_ms=None if at is None else read_due(at),
        unique=head.name or "" if unique else "",
        after=refs,
    )


def _refs(after: Iterable[str], queue: str) -> tuple[str, ...]:
    refs = []
    for item in after:
        job_id, _, other = item.partition("@")
        check_id(job_id)
        refs.append(job_id if other in ("", queue) else f"{job_id}@{QueueName.parse(other)}")
    return tuple(dict.fromkeys(refs))


def enqueue(queue: str, job: NewJob) -> Program[EnqueueResult]:
    """Make the job, after a check that its parents in other queues exist."""
    for ref in job.after:
        other_id, _, other = ref.partition("@")
        if other:
            [there] = yield from programs.exists(other, [other_id])
            if not there:
                raise UnknownDependency(
                    f"no job {other_id!r} in queue {other!r} to wait for",
                    hint="Enqueue it first; a job that ended long ago is no longer known.",
                )
    [made] = yield from programs.enqueue(queue, [job])
    return made
