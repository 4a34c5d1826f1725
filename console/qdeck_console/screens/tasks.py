"""Temporary queues: the tasks that own them, and orphaned ones. To read one does not count as a use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck.messages import OrphanCleaning, QueuePage, Removal, TaskPage, TaskRow, TemporaryQueue
from qdeck_console.actions import HEALTH, TASKS, Action, bindings
from qdeck_console.format import counted
from qdeck_console.presenters import tasks as present
from qdeck_console.presenters.nothing import Nothing
from qdeck_console.presenters.parts import section
from qdeck_console.screens.tables import TableScreen
from qdeck_console.text import safe_text
from qdeck_console.widgets.lines import Item, LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck.admin import Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

MOST = 500
MOST_ORPHANS = 1000  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """The orphaned queues that were found so far: how many, and the first by name."""

    scanned: int
    count: int
    rows: tuple[Removal, ...]
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksSeen:
    """What was read: the first tasks by name, and the orphans that were found so far."""

    page: TaskPage
    orphans: Orphans


class TasksBase(TableScreen):
    """A page that is opened from Health or from the queues."""

    TAB = HEALTH
    SCOPE = TASKS
    BINDINGS: ClassVar[list[BindingType]] = bindings(TASKS)

    def body(self) -> Sequence[Widget]:
        """Heads, list and total."""
        return (Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"),)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        return "" if action == "back" else super().why_not(action)

    def do_back(self) -> None:
        """Clears the filter, else goes back."""
        if self.filter_text:
            self.set_filter("")
        else:
            self.console.back()


class TasksScreen(TasksBase):
    """All tasks with temporary queues, and the orphaned queues."""

    def __init__(self) -> None:
        super().__init__()
        self._search = OrphanCleaning(dry_run=True, most=MOST_ORPHANS)

    @property
    def reads(self) -> str:
        """What the feed reads for it."""
        return "tasks"

    def wants(self) -> Reader | None:
        """The tasks, and a slice more of the keys in search of orphans."""

        async def read(_snapshot: Snapshot) -> TasksSeen:
            page = await self.console.reader.temporary_tasks(most=MOST)
            more = await self.console.reader.search_temporary(self._search)
            found = self._search.report
            orphans = Orphans(
                scanned=found.scanned, count=found.removed, rows=tuple(found.samples), is_done=not more
            )  # fmt: skip
            return TasksSeen(page=page, orphans=orphans)

        return read

    @property
    def seen(self) -> TasksSeen | None:
        """What was read."""
        extra = self.was_read
        return extra if isinstance(extra, TasksSeen) else None

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.TASKS.head(cells)

    def items(self) -> list[Item]:
        """Tasks, then orphans."""
        seen, wanted = self.seen, self.filter_text.casefold().strip()
        if seen is None:
            return []
        items = [
            Item(f"task/{row.task}", 1, row)
            for row in seen.page.rows
            if wanted in f"{row.task} {' '.join(row.services)} {row.tier}".casefold()
        ]
        orphans = [
            Item(f"orphan/{row.name}", 1, row) for row in seen.orphans.rows if wanted in row.name.casefold()
        ]  # fmt: skip
        if orphans:
            items += [*([Item("", 1, ())] if items else []), Item("", 1, ("orphaned", seen.orphans)), *orphans]
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """A task, an orphan, or a head."""
        row = item.row
        if isinstance(row, TaskRow):
            return (present.TASKS.line(row, cells, self.now_ms, at_cursor=at_cursor),)
        if isinstance(row, Removal):
            return (present.QUEUES.line(row, cells, self.now_ms, at_cursor=at_cursor),)
        if isinstance(row, tuple) and row:
            found: Orphans = row[1]
            note = "" if found.is_done else f"{found.scanned:,} keys looked at so far"
            return (section(row[0], note, "warn", cells, count=found.count),)
        return ((),)

    def nothing(self) -> Nothing | None:
        """What is said where there are no temporary queues."""
        seen = self.seen
        if seen is None or not seen.orphans.is_done:
            return None
        about = (
            "Tasks of messages own queues for answers and callbacks, which go with them. None is registered, and none "
            f"was left over without an owner among {seen.orphans.scanned:,} keys."
        )
        return Nothing(
            "No temporary queue", about, (("esc", "back"), ("qdeck clean --orphans", "looks for them again"))
        )

    def words(self, shown: int) -> str:
        """How much there is."""
        seen = self.seen
        if seen is None:
            return "…"
        count = len(seen.page.rows)
        tasks = f"{count:,}+ tasks" if seen.page.next else counted(count, "task")
        search = "" if seen.orphans.is_done else f", looking for orphans: {seen.orphans.scanned:,} keys"
        if not shown:
            return ("nothing matches; esc clears the filter" if self.filter_text else "no temporary queue") + search
        queues, orphans = counted(seen.page.queues, "queue"), counted(seen.orphans.count, "orphan")
        return f"{tasks}, {queues}, {orphans}{search}"

    def is_offered(self, action: Action) -> bool:
        """Enter opens the queues of a task."""
        return super().is_offered(action) or action.id == "open"

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "open":
            row = self.view.row
            return "" if isinstance(row, TaskRow) else "it belongs to no task" if row else "nothing under the cursor"
        return super().why_not(action)

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens a task."""
        row, why = self.view.row, self.why_not("open")
        if why or not isinstance(row, TaskRow):
            self.console.say(why, "muted", "∅")
        else:
            self.console.open(TaskScreen(row.task))

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the task, or the name of the orphan."""
        row = self.view.row
        if isinstance(row, TaskRow):
            return "task", row.task
        return ("name", row.name) if isinstance(row, Removal) else ("", "")


class TaskScreen(TasksBase):
    """The temporary queues of one task."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.task_id = task

    @property
    def reads(self) -> str:
        """What the feed reads for it."""
        return f"task/{self.task_id}"

    def wants(self) -> Reader | None:
        """Its queues."""

        async def read(_snapshot: Snapshot) -> QueuePage:
            return await self.console.reader.temporary_queues(task=self.task_id, most=MOST)

        return read

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.QUEUES.head(cells)

    def items(self) -> list[Item]:
        """Its queues."""
        extra = self.was_read
        rows = extra.rows if isinstance(extra, QueuePage) else ()
        wanted = self.filter_text.casefold().strip()
        return [Item(row.name, 1, row) for row in rows if wanted in row.name.casefold()]

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One queue."""
        row = item.row
        if not isinstance(row, TemporaryQueue):
            return ()
        return (present.QUEUES.line(row, cells, self.now_ms, at_cursor=at_cursor),)

    def words(self, shown: int) -> str:
        """How many there are, and of what."""
        return f"{counted(shown, 'temporary queue')} of the task {safe_text(self.task_id, limit=80)}"

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the name of a queue."""
        return ("name", self.view.cursor) if self.view.row is not None else ("", "")
