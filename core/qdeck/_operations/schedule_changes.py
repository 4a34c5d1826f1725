"""Schedules that an operator adds, edits or removes: a cron rule and the job that it makes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from qdeck._engine import codec
from qdeck._model import payload
from qdeck._operations.new_jobs import new_job
from qdeck._schedules import store
from qdeck._schedules.model import Definition, read_definition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._engine.transitions import NewJob
    from qdeck._redis.commands import Program


class ScheduleChange(NamedTuple):
    """A change of a schedule: `made`, `changed`, `same` or `other`, or `removed`; what differs, in words."""

    word: str
    words: str


def differences(old: Definition, new: Definition) -> str:
    """Return what differs, new before old, in words; with secrets masked."""
    before, after = _facts(old), _facts(new)
    return "; ".join(f"{name} {after[name]} in place of {was}" for name, was in before.items() if was != after[name])


def _facts(one: Definition) -> dict[str, str]:
    head = codec.read_head(b"0 " + one.template.encode())
    return {
        "queue": one.queue, "task": one.task, "cron": one.cron, "time zone": one.tz, "missed runs": one.missed,
        "priority": str(one.priority), "retries": str(head.retries), "tags": " ".join(head.tags) or "none",
        "payload": _payload(one),
    }  # fmt: skip


def _payload(one: Definition) -> str:
    return payload.text(payload.decode(one.body))


def remove(name: str) -> Program[ScheduleChange]:
    """Remove a schedule and return what it was."""
    raw = yield from store.find(name)
    yield from store.remove(name)
    try:
        one = read_definition(name, raw or b"")
    except ValueError:
        return ScheduleChange("removed", "")
    words = f"{one.cron} ({one.tz}) enqueues {one.task} to {one.queue} with {_payload(one)}"
    return ScheduleChange("removed", words)


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
) -> Program[ScheduleChange]:
    """Store a schedule: `made`, `changed`, or `same` when it existed; `other` where it would replace one unasked."""
    job = new_job(
        queue, task, args or (), kwargs, priority=100 if priority is None else priority, retries=retries, tags=tags
    )
    definition = Definition.of(name, queue, job, cron=cron, tz=tz, missed=missed)
    raw = yield from store.find(name)
    word = yield from store.register(definition, None if replaces else store.NONE)
    if word not in ("changed", "other"):
        return ScheduleChange(word, "")
    try:
        return ScheduleChange(word, differences(read_definition(name, raw or b""), definition))
    except ValueError:  # it could not be read, and so replaces nothing that can be shown
        return ScheduleChange(word, "")


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
    dry_run: bool,
) -> Program[ScheduleChange]:
    """Change a schedule of that version; options that are not given stay unchanged."""
    job = None
    if args is not None or kwargs is not None or priority is not None or retries is not None or tags:
        old = yield from store.get(name)
        job = _changed_job(old, args, kwargs, priority, retries, tags)
    old, new = yield from store.edit(name, cron=cron, tz=tz, missed=missed, job=job, version=version, dry_run=dry_run)
    words = differences(old, new)
    return ScheduleChange("changed" if words else "same", words)


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
