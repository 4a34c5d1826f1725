"""Searches for temporary queues to remove: those of a task that ended, expired ones, and orphaned ones."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._errors import LayoutMismatch
from qdeck._list_names import ListNames, why_orphaned
from qdeck._redis import reads
from qdeck._settings.purge_rules import UNUSED_S
from qdeck.messages import _registry as registry
from qdeck.messages import _task_lists as task_lists
from qdeck.messages._cleaning_batch import CleaningBatch
from qdeck.messages._names import task_of, temporary_name
from qdeck.messages._removal import CleanReport, Removal, RemovalOutcome, look, remove

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._redis.commands import Program

IDLE_S: Final = UNUSED_S
SLICE: Final = 500
MOST_SLICES: Final = 1000  # of expired queues in one cleaning


class Cleaning(ABC):
    """Temporary queues to remove, a slice for each step. A dry run reports what that would do, from plain reads.

    With `undo`, copies are kept as a batch that `undo` reverts; `automatic`: no operator requested it.
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
        """End the cleaning: its batch can be undone, and an entry is in the log."""
        report = self.report
        if self._batch is None or not self._batch.is_open:
            return
        counts = {"applied": report.removed, "skipped": report.in_use + report.kept, "undoable": report.undoable}
        removed = [one.name for one in report.samples if one.outcome is RemovalOutcome.REMOVED]
        report.undo_until_ms = yield from self._batch.close(counts, removed)
        report.batch = self._batch.id if report.removed else None

    def run(
        self, progress: Callable[[CleanReport], None] | None = None, cancelled: Callable[[], bool] | None = None
    ) -> Program[CleanReport]:
        """Take all slices; a cancelled cleaning leaves nothing half done. `progress` is called after each slice."""
        try:
            more = True
            while more and not (cancelled is not None and cancelled()):
                more = yield from self.step()
                if progress is not None:
                    progress(self.report)
        finally:
            yield from self.close()
        return self.report

    def _cause(self, name: str) -> str:
        """Return why a queue is orphaned, if that is why it is removed."""
        return ""

    def _take(self, names: Sequence[str], *, any_list: bool = False, task_set: bytes = b"") -> Program[list[Removal]]:
        """Remove queues, or report what that would do. `any_list`: they are lists of any name, of other programs."""
        if self.report.dry_run:
            found = yield from look(names, self.idle_s, any_list=any_list, registered=bool(task_set))
        elif names:
            found = yield from remove(
                names, idle_s=self.idle_s, event=self.event, batch=self._batch, any_list=any_list, task_set=task_set,
                needs_copy=self._needs_copy or (any_list and self._batch is not None),
            )  # fmt: skip
        else:
            found = []
        for one in found:
            self.report.add(replace(one, cause=self._cause(one.name)))
        return found


class TaskCleaning(Cleaning):
    """The queues of a task: those that are registered, the lists of its `task_queues:` set, and those named after it.

    `within` limits it to names for which it returns true, of those that are registered or in the set. `is_end`: the
    task's service ends it, so what holds unread messages is copied, or stays.
    """

    event = "cleaned"

    def __init__(
        self, task: str, *, within: Callable[[str], bool] | None = None, is_end: bool = False, registered: bool = True,
        lists: bool = True, idle_s: int = 60, dry_run: bool = False, undo: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(f"task {task}", idle_s=idle_s, dry_run=dry_run, undo=undo, automatic=is_end, most=sys.maxsize)
        self.task = task
        self._within, self._needs_copy = within, is_end
        self._registered, self._lists = registered, lists
        self._names: list[str] | None = None
        self._cursor: Any = 0
        self._has_named = within is not None or not lists
        self._has_set = False
        self._named: set[str] = set()
        self._seen: set[str] = set()

    def _slice(self) -> Program[bool]:
        if self._names is None:
            self._names = (yield from self._listed()) if self._lists else []
            self._has_set = bool(self._names)
        if self._names:
            names, self._names = self._names[:SLICE], self._names[SLICE:]
            yield from self._take(names, any_list=True, task_set=task_lists.set_of(self.task))
        elif not self._has_named:
            self._cursor, found = yield from task_lists.find_named(self._cursor, self.task)
            names = [name for name in dict.fromkeys(found) if name not in self._seen]
            self._has_named = not self._cursor
            self._named.update(names)
            yield from self._take(names, any_list=True)
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

    def _cause(self, name: str) -> str:
        if name not in self._named:
            return ""
        return f"named after the task, not in task_queues:{self.task}" if self._has_set else why_orphaned(self.task, -2)

    def _listed(self) -> Program[list[str]]:
        """Return the names in the set of the task; for an operator, report and skip those of qdeck."""
        if self._within is not None:
            return (yield from task_lists.names_within(self.task, self._within))
        try:
            raws = yield from task_lists.read_names(self.task)
        except LayoutMismatch:
            raws = [task_lists.set_of(self.task)]
        for raw in raws:
            if not task_lists.is_of_others(raw):
                name = raw.decode("utf-8", "backslashreplace")
                self.report.add(Removal(name=name, outcome=RemovalOutcome.FOREIGN))
        return [raw.decode() for raw in raws if task_lists.is_of_others(raw)]


class ExpiredCleaning(Cleaning):
    """Registered queues whose time to live is over. What holds unread messages is copied for undo, or stays."""

    event = "expired"

    def __init__(self, *, dry_run: bool = False, most: int = 100) -> None:
        super().__init__(self.event, dry_run=dry_run, automatic=True, most=most)
        self._needs_copy = True
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
            # A key that is not a list belongs to another program; its registration expired even so.
            foreign = [(one.name, 0, 0) for one in found if one.outcome is RemovalOutcome.FOREIGN]
            if foreign:
                yield from registry.finish(self.event, foreign)
            if not any(one.outcome is RemovalOutcome.REMOVED for one in found):
                return False
        return len(found) >= SLICE and self._slices < MOST_SLICES


class OrphanCleaning(Cleaning):
    """Temporary queues that are not registered and were idle for some time, found by a scan of the keys.

    `lists`: patterns of the adapter of that name; then lists of other programs count, too: those of tasks, by their
    names, and those in a set `task_queues:<task>` without a time to live, or with more than a day. None leaves out all
    of them.
    """

    event = "orphaned"

    def __init__(
        self, *, idle_s: int = IDLE_S, lists: Sequence[str] | None = (), dry_run: bool = False, undo: bool = True,
        automatic: bool = False, most: int = 100,
    ) -> None:  # fmt: skip
        # At least a second: an orphan is recognised by its idle time, which the server counts in seconds.
        super().__init__("orphans", idle_s=max(1, idle_s), dry_run=dry_run, undo=undo, automatic=automatic, most=most)
        self._patterns = None if lists is None else ListNames(lists)
        self._cursor: Any = 0
        self._in_sets = False
        self._set: task_lists.TaskSet | None = None
        self.sets: list[task_lists.TaskSet] = []
        """The sets of tasks that were found, the first of them."""

    def _slice(self) -> Program[bool]:
        if self._in_sets:
            return (yield from self._slice_of_sets())
        step = yield from find_orphans(self._cursor, self.idle_s, self._patterns)
        if step.names:
            yield from self._take(step.names)
        if step.others:
            yield from self._take(step.others, any_list=True)
        self.report.scanned += step.scanned
        self._cursor = step.cursor
        self._in_sets = not self._cursor and self._patterns is not None
        return bool(self._cursor) or self._in_sets

    def _slice_of_sets(self) -> Program[bool]:
        """Take the lists of tasks whose set does not end in time, by the rule of the document."""
        self._cursor, found = yield from task_lists.find_sets(self._cursor)
        self.sets += found[: self.report.most_samples - len(self.sets)]
        for one in found:
            if one.why_orphaned:
                self._set = one
                names = [raw.decode() for raw in (yield from task_lists.read_names(one.task)) if self._is_queue(raw)]
                for start in range(0, len(names), SLICE):
                    yield from self._take(names[start : start + SLICE], any_list=True, task_set=one.key)
        return bool(self._cursor)

    def _is_queue(self, raw: bytes) -> bool:
        """Return whether a name in the set of a task is that of a queue; no operator confirms each of them."""
        by_patterns = self._patterns is not None and task_lists.task_by_patterns(self._patterns, raw) is not None
        return by_patterns or temporary_name(raw) is not None

    def _cause(self, name: str) -> str:
        if self._set is not None:
            return self._set.why_orphaned
        task = task_of(name)
        if self._patterns is not None and temporary_name(name.encode()) is None:
            task = task_lists.task_by_patterns(self._patterns, name.encode())
        return _why_orphaned(task)


def _why_orphaned(task: str | None) -> str:
    """Return why a list is orphaned that is not registered, of a task or of none."""
    return "it is not registered" if task is None else why_orphaned(task, -2)


class OneCleaning(Cleaning):
    """One orphaned queue that an operator chose, if it is still idle."""

    event = OrphanCleaning.event

    def __init__(self, name: str, *, idle_s: int = 60, dry_run: bool = False, undo: bool = True) -> None:
        super().__init__(f"orphan {name}", idle_s=idle_s, dry_run=dry_run, undo=undo)
        self._name = name

    def _slice(self) -> Program[bool]:
        yield from self._take([self._name], any_list=True)
        return False

    def _cause(self, name: str) -> str:
        return _why_orphaned(task_of(name))


class OrphanStep(NamedTuple):
    """What one step of a scan found: orphans by the names of temporary queues, and by the patterns of other programs.

    A `cursor` of 0 is the end.
    """

    names: list[str]
    others: list[str]
    scanned: int
    cursor: Any


def find_orphans(cursor: Any, idle_s: int, patterns: ListNames | None = None) -> Program[OrphanStep]:
    """Scan the next keys for lists that are not registered and were idle for some time; without patterns, no lists of
    other programs.
    """
    following, keys = yield (b"SCAN", cursor, b"COUNT", SLICE, b"TYPE", b"list")
    tasks: dict[str, str | None] = {}
    others: set[str] = set()
    for key in keys:
        if (name := temporary_name(key)) is not None:
            if (task := task_of(name)) is None or patterns is not None:
                tasks[name] = task
        elif patterns is not None and (task := task_lists.task_by_patterns(patterns, key)) is not None:
            name = key.decode()
            tasks[name] = task
            others.add(name)
    orphans = yield from _orphans(tasks, idle_s)
    # On a cluster a cursor is more than a number; at the end it is zero everywhere.
    after = 0 if following in (0, b"0") else following
    own = [name for name in orphans if name not in others]
    return OrphanStep(own, [name for name in orphans if name in others], len(keys), after)


def _orphans(tasks: dict[str, str | None], idle_s: int) -> Program[list[str]]:
    """Return the lists that are not registered, here or in the set of a task, and were idle for some time."""
    names = list(tasks)
    if not names:
        return []
    known = yield from registry.describe(names)
    idle = yield from reads.try_all([(b"OBJECT", b"IDLETIME", name) for name in names])
    found = [
        name
        for name, entry, seconds in zip(names, known, idle, strict=True)
        if entry is None and isinstance(seconds, int) and seconds >= idle_s
    ]
    owned = yield from task_lists.of_living_tasks({name: tasks[name] for name in found})
    return [name for name in found if name not in owned]


def end_task(task: str, within: Callable[[str], bool], *, idle_s: int = 0) -> Program[CleanReport]:
    """Remove the temporary queues of a task that are `within`; unread messages are copied for undo, or stay."""
    return (yield from TaskCleaning(task, within=within, is_end=True, idle_s=idle_s).run())


def has_queues(task: str, within: Callable[[str], bool]) -> Program[bool]:
    """Return whether ending a task would remove anything."""
    if any(map(within, (yield from registry.of_task(task)))):
        return True
    return bool((yield from task_lists.names_within(task, within)))
