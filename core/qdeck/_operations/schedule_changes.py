"""Schedules that an operator adds or edits: a cron rule and the job that it makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qdeck._engine import codec
from qdeck._operations.new_jobs import new_job
from qdeck._schedules import store
from qdeck._schedules.model import Definition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._engine.transitions import NewJob
    from qdeck._redis.commands import Program


def add(
    name: str,
    queue: str,
    task: str,
    *,
    cron: str,
    tz: str,
    missed: str,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    priority: int | str | None,
    retries: int | None,
    tags: Sequence[str],
    replaces: bool,
) -> Program[str]:
    """Store a schedule: `made`, `changed`, or `same` when it existed; `other` where it would replace one unasked."""
    job = new_job(
        queue, task, args or (), kwargs, priority=100 if priority is None else priority, retries=retries, tags=tags
    )
    definition = Definition.of(name, queue, job, cron=cron, tz=tz, missed=missed)
    return store.register(definition, None if replaces else store.NONE)


def edit(
    name: str,
    *,
    cron: str | None,
    tz: str | None,
    missed: str | None,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    priority: int | str | None,
    retries: int | None,
    tags: Sequence[str],
    version: str | None,
) -> Program[Definition]:
    """Change a schedule of that version; options that are not given stay unchanged."""
    job = None
    if args is not None or kwargs is not None or priority is not None or retries is not None or tags:
        old = yield from store.get(name)
        job = _changed_job(old, args, kwargs, priority, retries, tags)
    return (yield from store.edit(name, cron=cron, tz=tz, missed=missed, job=job, version=version))


def _changed_job(
    old: Definition,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
    priority: int | str | None,
    retries: int | None,
    tags: Sequence[str],
) -> NewJob:
    """Return the job of a schedule with other arguments or options; the rest stays."""
    old_args, old_kwargs = codec.decode_call(old.body)
    kept = codec.read_head(b"0 " + old.template.encode())
    fresh = new_job(
        old.queue, old.task, args or (), kwargs, priority=100 if priority is None else priority, retries=retries,
        tags=tags,
    )  # fmt: skip
    new = codec.read_head(b"0 " + fresh.template.encode())
    head = replace(
        kept,
        expires_ms=None,
        expires_after_ms=kept.expires_ms,
        priority=kept.priority if priority is None else new.priority,
        retries=kept.retries if retries is None else new.retries,
        tags=kept.tags if not tags else new.tags,
    )
    body = codec.encode_call(
        old.task, tuple(old_args if args is None else args), old_kwargs if kwargs is None else dict(kwargs)
    )
    return fresh._replace(priority=head.priority, template=head.template(), body=body, unique=old.unique)
