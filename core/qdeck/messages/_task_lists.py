"""The lists of tasks of the first generation, which kept no registry but a set `task_queues:<task>` of their names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._errors import LayoutMismatch, NotAllowed
from qdeck._list_names import why_orphaned
from qdeck._redis import reads
from qdeck._redis.commands import glob_of
from qdeck.messages._names import task_of, temporary_name
from qdeck.messages._registry import raw_task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck._list_names import ListNames
    from qdeck._redis.commands import Program

COUNT: Final = 500
PREFIX: Final = b"task_queues:"
_NOT_THEIRS: Final = re.compile(rb"\{|qdeck:|task_queues:|.*[\x80-\xff]", re.DOTALL)


class TaskSet(NamedTuple):
    """The set of the names of a task's lists, with its time to live; -1 is none."""

    key: bytes
    task: str
    ttl_ms: int

    @property
    def why_orphaned(self) -> str:
        """Why its lists are orphaned; empty while it ends in time."""
        return why_orphaned(self.task, self.ttl_ms)


def find_sets(cursor: Any) -> Program[tuple[Any, list[TaskSet]]]:
    """Scan the next keys for sets of tasks. A cursor of 0 is the end."""
    following, keys = yield (b"SCAN", cursor, b"MATCH", PREFIX + b"*", b"COUNT", COUNT, b"TYPE", b"set")
    plain = [key for key in keys if key.isascii()]
    ttls = yield from reads.try_all([(b"PTTL", key) for key in plain])
    found = [
        TaskSet(key, key.removeprefix(PREFIX).decode(), ttl)
        for key, ttl in zip(plain, ttls, strict=True)
        if isinstance(ttl, int) and ttl != -2
    ]
    return 0 if following in (0, b"0") else following, found


def find_named(cursor: Any, task: str) -> Program[tuple[Any, list[str]]]:
    """Scan the next keys for lists that are named after a task. A cursor of 0 is the end."""
    glob = b"*:" + glob_of(raw_task(task))
    following, keys = yield (b"SCAN", cursor, b"MATCH", glob, b"COUNT", COUNT, b"TYPE", b"list")
    names = [key.decode() for key in keys if is_of_others(key)]
    return 0 if following in (0, b"0") else following, [name for name in names if task_of(name) == task]


def set_of(task: str) -> bytes:
    """Return the set of the names of a task's lists."""
    return PREFIX + raw_task(task)


def is_of_others(name: bytes) -> bool:
    """Return whether a name in a set may be a list of another program: no key of qdeck, and plain text."""
    return _NOT_THEIRS.match(name) is None


def read_names(task: str) -> Program[list[bytes]]:
    """Return the names in the set of a task, in order. `LayoutMismatch` when it is another kind of data."""
    key, cursor, found = set_of(task), None, set[bytes]()
    while cursor != b"0":
        cursor, names = yield (b"SSCAN", key, cursor or b"0", b"COUNT", COUNT)
        found.update(names)
    return sorted(found)


def names_within(task: str, within: Callable[[str], bool]) -> Program[list[str]]:
    """Return the lists of a task that a service may end: those that are `within`, and those with the task in their
    name, which have neither prefix nor environment.
    """
    try:
        raws = yield from read_names(task)
    except (LayoutMismatch, NotAllowed):
        return []  # another type of key has this name, or this service has no right to it
    names = (temporary_name(raw) for raw in raws)
    return [name for name in names if name is not None and (task_of(name) == task or within(name))]


def of_living_tasks(tasks: Mapping[str, str | None]) -> Program[set[str]]:
    """Return the names whose task has a set of its lists."""
    asked = {name: task for name, task in tasks.items() if task is not None}
    there = yield from reads.try_all([(b"EXISTS", set_of(task)) for task in asked.values()])
    return {name for name, count in zip(asked, there, strict=True) if count != 0}


def task_by_patterns(patterns: ListNames, key: bytes) -> str | None:
    """Return the task of a list whose name differs from others of its queue only at the end; None for any other key."""
    found = patterns.queue_of(key)
    if found is None or found[1] or not found[0].endswith("*") or not is_of_others(key):
        return None
    return key.decode()[len(found[0]) - 1 :]
