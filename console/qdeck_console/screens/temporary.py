"""Temporary queues: the tasks that own them, and orphaned ones. To read one does not count as a use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

from qdeck.messages import (
    OneCleaning,
    OrphanCleaning,
    QueuePage,
    Removal,
    TaskCleaning,
    TaskPage,
    TaskRow,
    TemporaryQueue,
)
from qdeck_console.actions import HEALTH, TEMPORARY, ActionHandler
from qdeck_console.format import counted
from qdeck_console.presenters import temporary as present
from qdeck_console.presenters.empty_state import EmptyState
from qdeck_console.presenters.line_parts import section
from qdeck_console.screens.go_back import CLEAR_FILTER, CLOSE, back
from qdeck_console.screens.lists import ListScreen, ListSpec, RowGroup
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck.admin import AsyncReader, Snapshot
    from qdeck.messages import Cleaning
    from qdeck_console.console import Console
    from qdeck_console.format import Line

MOST: Final = 500
MOST_ORPHANS: Final = 1000  # by name
_ORPHANED: Final = "orphaned"
Row: TypeAlias = TaskRow | Removal


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryQueues:
    """What was read: the first tasks by name, and the orphaned queues that were found so far, the first by name."""

    page: TaskPage
    orphans: tuple[Removal, ...]
    orphan_count: int
    scanned: int
    is_done: bool


def _search(row: Row) -> str:
    return row.name if isinstance(row, Removal) else f"{row.task} {' '.join(row.services)} {row.tier}"


def _empty(data: TemporaryQueues) -> EmptyState | None:
    if not data.is_done:
        return None
    about = (
        "Tasks own temporary queues for responses and callbacks, which are removed with them. No task has one, and "
        f"none of {data.scanned:,} keys is an orphaned queue."
    )
    return EmptyState(
        "No temporary queues", about, (("esc", "back"), ("qdeck clean --orphans", "lists orphaned queues"))
    )


async def _remove(console: Console, made: Callable[..., Cleaning], named: str, then: Callable[[], None]) -> None:
    """Show what would be removed, ask, and remove it; then call `then`."""
    plan = made(dry_run=True)
    while await console.reader.search_temporary(plan):
        pass
    found, name = plan.report, safe_text(named, limit=60)
    if not found.removed:
        whys = ", ".join(dict.fromkeys(one.why for one in found.samples if one.why)) or "it has no queue"
        console.say(f"nothing to remove of {name}: {whys}", "warn", "▲")
        return
    title = f"Remove {counted(found.removed, 'queue')} of {name}?"
    if not await console.operator.confirm(title, "remove", present.plan_lines(found)):
        return
    done = await console.writer.clean(made(dry_run=False))
    if done.batch is not None:
        console.operator.remember(done.batch, f"clean of {name}")
    kept = f", {done.in_use + done.kept:,} kept" if done.in_use + done.kept else ""
    console.say(f"{counted(done.removed, 'queue')} removed{kept} · u undoes it", "ok", "✓")
    then()


def _clean(screen: ListScreen[Any, Any], row: Row | str, then: Callable[[], None] = lambda: None) -> None:
    """Remove an orphaned queue, or the idle queues of a task."""
    made: Callable[..., Cleaning]
    if isinstance(row, Removal):
        made, name = partial(OneCleaning, row.name), row.name
    else:
        task = row if isinstance(row, str) else row.task
        made, name = partial(TaskCleaning, task), f"task {task}"
    screen.console.operator.run(_remove(screen.console, made, name, then), "clean")


class TemporaryQueuesScreen(ListScreen[Row, TemporaryQueues]):
    """All tasks with temporary queues, and the orphaned queues."""

    TAB, SCOPE = HEALTH, TEMPORARY
    HAS_SIDE = False
    LIST: ClassVar[ListSpec[Row, TemporaryQueues]] = ListSpec(
        noun="temporary queue",
        table=present.TASKS,
        rows=lambda data: (*data.page.rows, *data.orphans),
        key=lambda row: f"orphan/{row.name}" if isinstance(row, Removal) else f"task/{row.task}",
        search=_search,
        empty=_empty,
    )

    def __init__(self) -> None:
        super().__init__()
        self._search = self._found = OrphanCleaning(dry_run=True, most=MOST_ORPHANS)

    @property
    def query_key(self) -> str:
        """What the feed reads for it."""
        return "tasks"

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> TemporaryQueues:
        """Read the tasks, and search a slice more of the keys for orphaned queues."""
        page = await reader.temporary_tasks(most=MOST)
        if not await reader.search_temporary(self._search):  # and begin again, because queues come and go
            self._found, self._search = self._search, OrphanCleaning(dry_run=True, most=MOST_ORPHANS)
        own = {row.task for row in page.rows}
        sets = [row for row in await reader.task_sets(self._found) if row.task not in own]
        page = replace(page, queues=page.queues + sum(row.queues for row in sets), rows=(*page.rows, *sets))
        found = self._found.report
        return TemporaryQueues(
            page=page,
            orphans=tuple(one for one in found.samples if not one.why),
            orphan_count=found.removed,
            scanned=found.scanned,
            is_done=self._found.is_done,
        )

    def groups(self, rows: Sequence[Row]) -> Sequence[RowGroup[Row]]:
        """Return the tasks, then the orphaned queues."""
        orphans: list[Row] = [row for row in rows if isinstance(row, Removal)]
        tasks: RowGroup[Row] = RowGroup([row for row in rows if not isinstance(row, Removal)])
        return (tasks, RowGroup(orphans, self._orphans_head, apart=True)) if orphans else (tasks,)

    def _orphans_head(self, cells: int) -> Line:
        data = self.data
        assert data is not None  # noqa: S101 - it has orphaned queues
        note = "" if data.is_done else f"{data.scanned:,} keys scanned so far"
        return section(_ORPHANED, note, "warn", cells, count=data.orphan_count)

    def lines(self, row: Row, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the line of a task or of an orphaned queue."""
        if isinstance(row, Removal):
            return (present.QUEUES.line(row, cells, self.now_ms, at_cursor=at_cursor),)
        return (present.TASKS.line(row, cells, self.now_ms, at_cursor=at_cursor),)

    def total(self, rows: Sequence[Row]) -> str:
        """Return how much there is."""
        data = self.data
        assert data is not None  # noqa: S101 - it was read
        count = len(data.page.rows)
        tasks = f"{count:,}+ tasks" if data.page.next else counted(count, "task")
        search = "" if data.is_done else f", searching orphaned queues: {data.scanned:,} keys"
        if not rows:
            return ("nothing matches; esc clears the filter" if self.filter_text else "no temporary queue") + search
        queues, orphans = counted(data.page.queues, "queue"), counted(data.orphan_count, "orphan")
        return f"{tasks}, {queues}, {orphans}{search}"

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the task, or the name of the orphaned queue."""
        row = self.chosen
        if isinstance(row, Removal):
            return "name", row.name
        return ("task", row.task) if row is not None else ("", "")

    def _why_not_open(self) -> str:
        row = self.chosen
        return "nothing under the cursor" if row is None else row.cause if isinstance(row, Removal) else ""

    def open(self) -> None:
        """Open the queues of a task."""
        if isinstance(self.chosen, TaskRow):
            self.console.open(TaskQueuesScreen(self.chosen.task))

    def _why_not_clean(self) -> str:
        return self.console.operator.why_not_write() or ("nothing under the cursor" if self.chosen is None else "")

    def clean(self) -> None:
        """Remove the idle queues of the task under the cursor, or the orphaned queue there."""
        if self.chosen is not None:
            _clean(self, self.chosen, self._search_again)

    def _search_again(self) -> None:
        self._search = OrphanCleaning(dry_run=True, most=MOST_ORPHANS)

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS, "back": back(CLEAR_FILTER, CLOSE), "open": ActionHandler(run=open, reason=_why_not_open),
        "clean": ActionHandler(run=clean, reason=_why_not_clean),
    }  # fmt: skip


class TaskQueuesScreen(ListScreen[TemporaryQueue, QueuePage]):
    """The temporary queues of one task."""

    TAB, SCOPE = HEALTH, TEMPORARY
    HAS_SIDE = False
    LIST: ClassVar[ListSpec[TemporaryQueue, QueuePage]] = ListSpec(
        noun="temporary queue",
        table=present.QUEUES,
        rows=lambda page: page.rows,
        key=lambda row: row.name,
        search=lambda row: row.name,
    )

    def __init__(self, task_id: str) -> None:
        super().__init__()
        self.task_id = task_id

    @property
    def query_key(self) -> str:
        """What the feed reads for it."""
        return f"task/{self.task_id}"

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> QueuePage:
        """Read its queues."""
        return await reader.temporary_queues(task=self.task_id, most=MOST)

    def total(self, rows: Sequence[TemporaryQueue]) -> str:
        """Return how many there are, and of what."""
        return f"{counted(len(rows), self.LIST.noun)} of the task {safe_text(self.task_id, limit=80)}"

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS, "back": back(CLEAR_FILTER, CLOSE),
        "clean": ActionHandler(
            run=lambda screen: _clean(screen, screen.task_id),
            reason=lambda screen: screen.console.operator.why_not_write(),
        ),
    }  # fmt: skip
