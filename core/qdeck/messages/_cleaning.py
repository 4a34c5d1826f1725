"""Removing temporary queues: those of a task that ended, those that expired, and orphaned ones.

A queue on which somebody waits is never removed, nor one that was used lately. The order makes it safe: the remover
announces itself, and from then on nobody can begin to wait; it looks at the list and removes it in one step; then it
strikes the queue off.

Services of the first generation kept no registry but sets `task_queues:<task>` of the names of a task's lists. These
lists go with their task too, but never without a copy.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidName, LayoutMismatch, NotAllowed, UsageError
from qdeck._names import QueueName
from qdeck._redis import reads
from qdeck.adapters.lists.names import Names as ListNames
from qdeck.messages import _registry as registry
from qdeck.messages._batch import MOST_ONE, CleaningBatch
from qdeck.messages._names import TaskQueueName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._redis.commands import Program

IDLE_S: Final = 86_400
SLICE: Final = 500
MOST_SLICES: Final = 1000  # of expired queues in one cleaning
_MAY_BE: Final = re.compile(rb":(?:responses|callbacks):|:(?:enterprise|professional|advance|free):")
_TASK_SET: Final = "task_queues:"
_NOT_THEIRS: Final = re.compile(rb"\{|qdeck:|task_queues:|.*[\x80-\xff]", re.DOTALL)
"""Names in the set of a task that are no lists of other programs: keys of qdeck, and what is no plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One queue: what is in it, and what becomes of it (`removed`, `would_remove`, `gone`, `in_use`, `recent`, …).

    `going`: another remover has it in hand.
    How many messages it held is known only when it was removed: to count them would count as a use. `undoable`: a copy
    is kept (or would be), so that undo puts it back.
    """

    name: str
    outcome: str
    messages: int | None = None
    bytes: int = 0
    idle_s: int | None = None
    undoable: bool = False


@dataclass(slots=True)
class CleanReport:
    """What a cleaning did, or would do. Names are kept of the first ones only: there may be a million."""

    dry_run: bool = False
    scanned: int = 0
    removed: int = 0
    messages: int = 0
    bytes: int = 0
    in_use: int = 0
    kept: int = 0
    samples: list[Removal] = field(default_factory=list)
    most_samples: int = 100
    batch: str | None = None
    undoable: int = 0
    undo_until_ms: int | None = None

    def add(self, found: Removal) -> None:
        """Count one queue."""
        if found.outcome in ("removed", "would_remove"):
            self.removed += 1
            self.messages += found.messages or 0
            self.bytes += found.bytes
            self.undoable += found.undoable
        elif found.outcome == "in_use":
            self.in_use += 1
        elif found.outcome != "gone":
            self.kept += 1
        if len(self.samples) < self.most_samples:
            self.samples.append(found)


class Cleaning(ABC):
    """Temporary queues to remove, a slice for each step. A dry run reports what that would do, from plain reads.

    With `undo` copies are kept as a batch that `undo` reverts; `automatic`: no operator asked for it.
    """

    event: str
    """Under which name removed queues are counted."""

    def __init__(
        self, where: str, *, idle_s: int = 0, dry_run: bool = False, undo: bool = True, automatic: bool = False,
        most: int = 100,
    ) -> None:  # fmt: skip
        self.idle_s = idle_s
        self.report = CleanReport(dry_run=dry_run, most_samples=most)
        self.is_done = False
        self._needs_copy = False
        self._batch = CleaningBatch(where, automatic=automatic) if undo and not dry_run else None

    @abstractmethod
    def _slice(self) -> Program[bool]:
        """Take one slice; return whether there may be more."""

    def step(self) -> Program[bool]:
        """Take one slice; return whether there is more."""
        if not self.is_done:
            self.is_done = not (yield from self._slice())
        return not self.is_done

    def close(self) -> Program[None]:
        """End the cleaning: its batch can be undone, and the log has a line of it."""
        report = self.report
        if self._batch is None or not self._batch.is_open:
            return
        counts = {"applied": report.removed, "skipped": report.in_use + report.kept, "undoable": report.undoable}
        report.undo_until_ms = yield from self._batch.close(counts)
        report.batch = self._batch.id

    def run(
        self, progress: Callable[[CleanReport], None] | None = None, cancelled: Callable[[], bool] | None = None
    ) -> Program[CleanReport]:
        """Take all of it; what is cancelled leaves nothing half done. `progress` is called after each slice."""
        try:
            more = True
            while more and not (cancelled is not None and cancelled()):
                more = yield from self.step()
                if progress is not None:
                    progress(self.report)
        finally:
            yield from self.close()
        return self.report

    def _take(self, names: Sequence[str], *, any_list: bool = False, task_set: bytes = b"") -> Program[list[Removal]]:
        """Remove queues, or tell what that would do. `any_list`: they are lists of any name, of other programs."""
        if self.report.dry_run:
            found = yield from look(names, self.idle_s, any_list=any_list, registered=bool(task_set))
        else:
            found = yield from self._remove(names, any_list, task_set)
        for one in found:
            self.report.add(one)
        return found

    def _remove(self, names: Sequence[str], any_list: bool, task_set: bytes) -> Program[list[Removal]]:
        if not names:
            return []
        now = yield from reads.clock()
        # Only what is called like a temporary queue is one, whatever is registered.
        ours = {name for name in names if any_list or temporary_name(name.encode()) is not None}
        free = yield from registry.begin(names)
        mine = [name for name, answer in zip(names, free, strict=True) if answer == "free" and name in ours]
        batch, room = self._batch, 0
        if batch is not None and mine:
            room = yield from batch.note(mine, task_set)
        # The clock was read before the announcements were made: all of them last until then.
        dropped = yield from registry.drop_many(
            mine, now + registry.ACT_MS, self.idle_s, batch=batch.id if batch is not None else "-", copy_bytes=room,
            needs_copy=self._needs_copy or (any_list and batch is not None),
        )  # fmt: skip
        keeps_empty = batch is not None and batch.keeps_empty
        ended: list[tuple[str, int, int]] = []
        left = [name for name, answer in zip(names, free, strict=True) if answer == "free" and name not in ours]
        outcome = {name: Removal(name=name, outcome="foreign") for name in left}
        for name, told in zip(mine, dropped, strict=True):
            if isinstance(told, tuple):
                messages, size, copied = told
                ended.append((name, messages, size))
                is_kept = copied == 1
                outcome[name] = Removal(name=name, outcome="removed", messages=messages, bytes=size, undoable=is_kept)
            elif told == "gone":
                ended.append((name, 0, 0))
                outcome[name] = Removal(name=name, outcome="gone", messages=0)
            else:
                left.append(name)
                outcome[name] = Removal(name=name, outcome=_OUTCOMES.get(told, told))
        if ended:
            struck = yield from registry.finish(self.event, ended, announced=True)
            for (name, *_), registered in zip(ended, struck, strict=True):
                # A registration of which no list was left was all there was of a queue; another may have ended it.
                if registered and outcome[name].outcome == "gone":
                    outcome[name] = Removal(name=name, outcome="removed", messages=0, undoable=keeps_empty)
            if task_set:
                yield (b"SREM", task_set, *(name for name, *_ in ended))
        if left:
            yield from registry.keep(left)
        if batch is not None and mine:
            back = {one.name: one.bytes for one in outcome.values() if one.undoable}
            bare = [one.name for one in outcome.values() if keeps_empty and task_set and one.outcome == "gone"]
            yield from batch.settle(back, [name for name in mine if name not in back and name not in bare])
        return [outcome.get(name) or Removal(name=name, outcome=told) for name, told in zip(names, free, strict=True)]


_OUTCOMES: Final = {"busy": "recent"}


class TaskCleaning(Cleaning):
    """The queues of a task: those that are registered, and the lists of its `task_queues:` set.

    `within` limits it to names for which it returns true. `is_end`: the task's service ends it, so what holds unread
    messages is copied, or stays.
    """

    event = "cleaned"

    def __init__(
        self, task: str, *, within: Callable[[str], bool] | None = None, is_end: bool = False, registered: bool = True,
        lists: bool = True, idle_s: int = 60, dry_run: bool = False, undo: bool = True,
    ) -> None:  # fmt: skip
        check_task(task)
        super().__init__(f"task {task}", idle_s=idle_s, dry_run=dry_run, undo=undo, automatic=is_end, most=sys.maxsize)
        self.task = task
        self._within, self._needs_copy = within, is_end
        self._registered, self._lists = registered, lists
        self._names: list[str] | None = None
        self._seen: set[str] = set()

    def _slice(self) -> Program[bool]:
        if self._names is None:
            self._names = (yield from self._listed()) if self._lists else []
        if self._names:
            names, self._names = self._names[:SLICE], self._names[SLICE:]
            yield from self._take(names, any_list=True, task_set=task_set(self.task))
        elif not self._registered:
            return False
        else:
            known = yield from registry.of_task(self.task, SLICE + len(self._seen))
            names = [name for name in known if name not in self._seen]
            if not names:
                return False
            yield from self._take([name for name in names if self._within is None or self._within(name)])
        self._seen.update(names)
        self.report.scanned = len(self.report.samples)
        return True

    def _listed(self) -> Program[list[str]]:
        """The names in the set of the task; for an operator what is no list of other programs is told and left."""
        if self._within is not None:
            return (yield from _lists_within(self.task, self._within))
        try:
            raws = yield from _read_set(self.task)
        except LayoutMismatch:
            raws = [task_set(self.task)]
        foreign = [raw for raw in raws if _NOT_THEIRS.match(raw)]
        for raw in foreign:
            self.report.add(Removal(name=raw.decode("utf-8", "backslashreplace"), outcome="foreign"))
        return [raw.decode() for raw in raws if raw not in foreign]


class ExpiredCleaning(Cleaning):
    """Registered queues whose time to live is over."""

    event = "expired"

    def __init__(self, *, dry_run: bool = False, most: int = 100) -> None:
        super().__init__(self.event, dry_run=dry_run, undo=False, most=most)
        self._slices = 0

    def _slice(self) -> Program[bool]:
        if self.report.dry_run:
            names = yield from registry.expired_from(self.report.scanned, SLICE)
        else:
            names = yield from registry.expired(SLICE)
        found = yield from self._take(names)
        self.report.scanned += len(found)
        self._slices += 1
        if not self.report.dry_run:
            # What is no list is not ours to remove; that it was registered is over all the same.
            foreign = [(one.name, 0, 0) for one in found if one.outcome == "foreign"]
            if foreign:
                yield from registry.finish(self.event, foreign)
            if not any(one.outcome == "removed" for one in found):
                return False
        return len(found) >= SLICE and self._slices < MOST_SLICES


class OrphanCleaning(Cleaning):
    """Temporary queues that nobody registered and nobody used for so long, found by a scan of the keys.

    `lists`: patterns of the adapter of that name; then lists of these names that differ by their task count too.
    """

    event = "orphaned"

    def __init__(
        self, *, idle_s: int = IDLE_S, lists: Sequence[str] | None = None, dry_run: bool = False, undo: bool = True,
        automatic: bool = False, most: int = 100,
    ) -> None:  # fmt: skip
        # At least a second: an orphan is known by being left alone, and the server counts in seconds.
        super().__init__("orphans", idle_s=max(1, idle_s), dry_run=dry_run, undo=undo, automatic=automatic, most=most)
        self._patterns = None if lists is None else ListNames(lists)
        self._cursor: Any = 0

    def _slice(self) -> Program[bool]:
        cursor, keys = yield (b"SCAN", self._cursor, b"COUNT", SLICE, b"TYPE", b"list")
        tasks: dict[str, str | None] = {}
        others: list[str] = []
        for key in keys:
            if (name := temporary_name(key)) is not None:
                tasks[name] = _first_task(name)
            elif self._patterns is not None and (task := _listed_task(self._patterns, key)) is not None:
                name = key.decode()
                tasks[name] = task
                others.append(name)
        orphans = yield from self._orphans(tasks)
        if orphans:
            yield from self._take([name for name in orphans if name not in others])
            yield from self._take([name for name in orphans if name in others], any_list=True)
        self.report.scanned += len(keys)
        # On a cluster a cursor is more than a number; at the end it is zero everywhere.
        self._cursor = 0 if cursor in (0, b"0") else cursor
        return bool(self._cursor)

    def _orphans(self, tasks: dict[str, str | None]) -> Program[list[str]]:
        """Those that nobody registered, here or in the set of a task, and nobody used for so long."""
        names = list(tasks)
        if not names:
            return []
        known = yield from registry.describe(names)
        idle = yield from reads.ask_all([(b"OBJECT", b"IDLETIME", name) for name in names])
        found = [
            name
            for name, entry, seconds in zip(names, known, idle, strict=True)
            if entry is None and isinstance(seconds, int) and seconds >= self.idle_s
        ]
        owned = yield from _of_living_tasks({name: task for name in found if (task := tasks[name]) is not None})
        return [name for name in found if name not in owned]


class PlannedCleaning(Cleaning):
    """Queues that were found before, by what they were found as: `expired` or `orphaned`."""

    def __init__(self, found: Iterable[tuple[str, Sequence[str]]], *, undo: bool = True) -> None:
        super().__init__("purge", undo=undo)
        self._slices = [
            (event, names[at : at + SLICE]) for event, names in found for at in range(0, len(names), SLICE)
        ]  # fmt: skip

    def _slice(self) -> Program[bool]:
        if self._slices:
            self.event, names = self._slices.pop(0)
            self.idle_s = IDLE_S if self.event == OrphanCleaning.event else 0
            yield from self._take(names)
            self.report.scanned += len(names)
        return bool(self._slices)


def look(
    names: Sequence[str], idle_s: int, *, any_list: bool = False, registered: bool = False
) -> Program[list[Removal]]:
    """Return what removing queues would do, from plain reads."""
    if not names:
        return []
    known = yield from registry.describe(names)
    now = yield from reads.clock()
    facts = yield from registry.look(names)
    found = []
    for name, entry, (kind, idle, size) in zip(names, known, facts, strict=True):
        outcome = "would_remove"
        if kind not in (b"list", b"none") or not (any_list or temporary_name(name.encode()) is not None):
            outcome = "foreign"
        elif entry is not None and entry.waited_until_ms > now:
            outcome = "in_use"
        elif kind == b"none" and registered and entry is None:
            outcome = "gone"
        elif kind == b"list" and idle_s and (idle is None or idle < idle_s):
            outcome = "unknown" if idle is None else "recent"
        elif any_list and (size or 0) > MOST_ONE:
            outcome = "uncopied"
        undoable = outcome == "would_remove" and (size or 0) <= MOST_ONE
        found.append(Removal(name=name, outcome=outcome, bytes=size or 0, idle_s=idle, undoable=undoable))
    return found


def check_task(task: str) -> None:
    """Raise `UsageError` for an id that no service can have given."""
    try:
        task.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"no task has the id {task!r}: it is not UTF-8", hint="give an id as services do") from error


def end_task(task: str, within: Callable[[str], bool], *, idle_s: int = 0) -> Program[CleanReport]:
    """Remove the temporary queues of a task that are `within`; unread messages are copied for undo, or stay."""
    return (yield from TaskCleaning(task, within=within, is_end=True, idle_s=idle_s).run())


def has_queues(task: str, within: Callable[[str], bool]) -> Program[bool]:
    """Return whether ending a task would remove anything."""
    check_task(task)
    if any(map(within, (yield from registry.of_task(task)))):
        return True
    return bool((yield from _lists_within(task, within)))


def task_set(task: str) -> bytes:
    """Return the set of the names of a task's lists."""
    return (_TASK_SET + task).encode()


def _read_set(task: str) -> Program[list[bytes]]:
    """The names in the set of a task, in order. `LayoutMismatch` when it is another kind of data."""
    key, cursor, found = task_set(task), None, set[bytes]()
    while cursor != b"0":
        cursor, names = yield (b"SSCAN", key, cursor or b"0", b"COUNT", SLICE)
        found.update(names)
    return sorted(found)


def _lists_within(task: str, within: Callable[[str], bool]) -> Program[list[str]]:
    """The lists of a task that a service may end: those that are `within`, and those with the task in their name.

    The latter have neither prefix nor environment.
    """
    try:
        raws = yield from _read_set(task)
    except (LayoutMismatch, NotAllowed):
        return []  # something else is called so, or this service has no right to it
    names = (temporary_name(raw) for raw in raws)
    return [name for name in names if name is not None and (_first_task(name) == task or within(name))]


def _of_living_tasks(tasks: dict[str, str]) -> Program[set[str]]:
    """Names whose task has a set of its lists."""
    there = yield from reads.ask_all([(b"EXISTS", task_set(task)) for task in tasks.values()])
    return {name for name, count in zip(tasks, there, strict=True) if count != 0}


def _first_task(name: str) -> str | None:
    try:
        return TaskQueueName.parse(name).task_id
    except InvalidName:
        return None


def _listed_task(patterns: ListNames, key: bytes) -> str | None:
    """The task of a list that differs by its end only from others of one queue."""
    found = patterns.queue_of(key)
    if found is None or found[1] or not found[0].endswith("*"):
        return None
    try:
        return key.decode()[len(found[0]) - 1 :]
    except UnicodeDecodeError:
        return None


def temporary_name(key: bytes) -> str | None:
    """Return the name, when a key is called like a temporary queue of any generation."""
    if not _MAY_BE.search(key) or b"{" in key or b"}" in key or len(key) > 400:
        return None
    try:
        text = key.decode("ascii")
    except UnicodeDecodeError:
        return None
    try:
        return text if QueueName.parse(text).is_temporary else None
    except InvalidName:
        pass
    try:
        return str(TaskQueueName.parse(text))
    except InvalidName:
        return None
