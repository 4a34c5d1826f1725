"""Tasks and the temporary queues that they own, page by page, from plain reads: none of them counts as a use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from qdeck._errors import LayoutMismatch
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck._redis.errors import is_error
from qdeck.messages import _registry as registry
from qdeck.messages import _task_lists as task_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.messages._registry import TemporaryQueue
    from qdeck.messages._task_lists import TaskSet

PAGE: Final = 500
NEVER_MS: Final = 1 << 52
"""When a queue expires whose set of its task has no time to live."""
_NAMES: Final = 10  # of a set, from which the services of a task are read


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Some of the queues; `total` is how many there are, `next` where the rest begins, None at the end."""

    now_ms: int
    total: int
    rows: tuple[TemporaryQueue, ...] = ()
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task that owns temporary queues. Its queues live until the last of them ends; `services` made them."""

    task: str
    queues: int
    waited_on: int
    expired: int
    services: tuple[str, ...]
    tier: str
    made_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Some of the tasks; `next` is what to give as `after` for the rest, None at the end.

    `queues` is how many temporary queues there are of all tasks and of none, `unowned` those that belong to no task.
    """

    now_ms: int
    queues: int
    unowned: int
    rows: tuple[TaskRow, ...] = ()
    next: str | None = None


def read_queues(*, task: str | None = None, start: int = 0, most: int = PAGE) -> Program[QueuePage]:
    """Return registered temporary queues: of a task, or of all, those first that expire first."""
    now = yield from reads.clock()
    if task is not None:
        names = yield from registry.of_task(task, start + most + 1)
        total, names = len(names), names[start:]
        if not total:
            return (yield from _read_listed(task, start, most, now))
    else:
        total, raw = yield [(b"ZCARD", registry.QUEUES), (b"ZRANGE", registry.QUEUES, start, start + most)]
        names = [name.decode("utf-8", "replace") for name in raw]
    shown = names[:most]
    rows = yield from _rows(shown)
    return QueuePage(now_ms=now, total=total, rows=rows, next=start + most if len(names) > most else None)


def read_tasks(*, after: str = "", most: int = PAGE) -> Program[TaskPage]:
    """Return tasks that own temporary queues, by name, with about `most` queues."""
    now = yield from reads.clock()
    first = f"({after}\0\xff" if after else "-"
    queues, owned, raw = yield [
        (b"ZCARD", registry.QUEUES),
        (b"ZCARD", registry.TASKS),
        (b"ZRANGEBYLEX", registry.TASKS, first, b"+", b"LIMIT", 0, most + 1),
    ]
    pairs = [_pair(member) for member in raw]
    cut = len(pairs) > most
    if cut:
        # The last task may continue beyond the page: then it is on the next page, unless it fills this one.
        last = pairs[-1][0]
        whole = [pair for pair in pairs if pair[0] != last]
        pairs = whole or [(last, name) for name in (yield from registry.of_task(last, 10 * most))]
    known = yield from registry.describe([name for _, name in pairs])
    found = zip((task for task, _ in pairs), known, strict=True)
    rows = [
        _task(task, [one for _, one in group if one is not None], now)
        for task, group in groupby(found, key=lambda row: row[0])
    ]
    after = pairs[-1][0] if cut and pairs else ""
    kept = tuple(row for row in rows if row.queues)
    return TaskPage(now_ms=now, queues=queues, unowned=max(0, queues - owned), rows=kept, next=after or None)


def read_sets(sets: Sequence[TaskSet]) -> Program[tuple[TaskRow, ...]]:
    """Return tasks whose lists are in sets `task_queues:<task>`, as these are now."""
    now = yield from reads.clock()
    replies = yield from reads.try_each(
        [[(b"SCARD", one.key), (b"PTTL", one.key), (b"SRANDMEMBER", one.key, _NAMES)] for one in sets]
    )
    rows = []
    for one, (count, ttl, names) in zip(sets, replies, strict=True):
        if not is_error(count) and count:
            queues = [_of_name(text_of(name), one.task, 0) for name in names]
            row = _task(one.task, queues, now)
            rows.append(replace(row, queues=count, waited_on=0, expired=0, made_ms=0, expires_ms=_ends(ttl, now)))
    return tuple(rows)


def _read_listed(task: str, start: int, most: int, now: int) -> Program[QueuePage]:
    """Return the lists in the set of a task."""
    try:
        names = [text_of(raw) for raw in (yield from task_lists.read_names(task))]
    except LayoutMismatch:
        names = []
    ttl = yield (b"PTTL", task_lists.set_of(task))
    shown = names[start : start + most]
    rows = [_of_name(name, task, _ends(ttl, now)) for name in shown]
    facts = yield from registry.look(shown)
    rows = [replace(row, exists=kind == b"list", bytes=size, idle_s=idle)
            for row, (kind, idle, size) in zip(rows, facts, strict=True)]  # fmt: skip
    following = start + most if len(names) > start + most else None
    return QueuePage(now_ms=now, total=len(names), rows=tuple(rows), next=following)


def _ends(ttl_ms: int, now: int) -> int:
    return now + ttl_ms if ttl_ms >= 0 else NEVER_MS


def _of_name(name: str, task: str, expires_ms: int) -> TemporaryQueue:
    """Return a list of a task by what its name has: domain, type of the actions and tier."""
    parts = name.split(":")
    service, kind, tier = parts[:3] if len(parts) > 3 else (parts[0], "", "")
    return registry.TemporaryQueue(
        name=name, service=service, type=kind, tier=tier, task=task, made_ms=0, ttl_ms=0, expires_ms=expires_ms,
        waited_until_ms=0,
    )  # fmt: skip


def _pair(member: bytes) -> tuple[str, str]:
    """Return task and queue of a member of the registry; a member without a mark counts as a task without queues."""
    text = member.decode("utf-8", "replace")
    task, mark, name = text.rpartition("\0")
    return (task, name) if mark else (text, "")


def _rows(names: Sequence[str]) -> Program[tuple[TemporaryQueue, ...]]:
    known = yield from registry.describe(names)
    there = [one for one in known if one is not None]
    facts = yield from registry.look([one.name for one in there])
    return tuple(
        replace(one, exists=kind == b"list", bytes=size, idle_s=idle)
        for one, (kind, idle, size) in zip(there, facts, strict=True)
    )


def _task(task: str, queues: Sequence[TemporaryQueue], now: int) -> TaskRow:
    tiers = {one.tier for one in queues if one.tier}
    return TaskRow(
        task=task,
        queues=len(queues),
        waited_on=sum(one.is_waited_on(now) for one in queues),
        expired=sum(one.is_expired(now) for one in queues),
        services=tuple(sorted({one.service for one in queues})),
        tier=tiers.pop() if len(tiers) == 1 else "",
        made_ms=min((one.made_ms for one in queues), default=0),
        expires_ms=max((one.expires_ms for one in queues), default=0),
    )
