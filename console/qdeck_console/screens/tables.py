"""Plain live tables: the workers, and the log of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck._deck.model import Snapshot, WorkerRow
from qdeck._operations import api
from qdeck._operations.model import Activity
from qdeck_console.actions import ACTIVITY, WORKERS, bindings
from qdeck_console.presenters import tables as present
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck_console.actions import Action
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

_DAY_MS = 86_400_000


class TableScreen(FrameScreen):
    """A list of what the feed reads for it."""

    def body(self) -> Sequence[Widget]:
        """Heads, list and total."""
        return (Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"),)

    @property
    def view(self) -> LineList:
        """The list."""
        return self.query_one("#list", LineList)

    @property
    def rows(self) -> tuple[object, ...]:
        """What was read."""
        extra = self.picture.extra if self.picture.extra_of == self.reads else None
        return extra if isinstance(extra, tuple) else ()

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        raise NotImplementedError

    def items(self) -> list[Item]:
        """The rows that match the filter."""
        raise NotImplementedError

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """The line of a row."""
        raise NotImplementedError

    def words(self, shown: int) -> str:
        """How much is shown, or that there is nothing."""
        raise NotImplementedError

    def draw(self, *, fresh: bool) -> None:
        """Draws list and total."""
        items = self.items()
        self.view.show(Listing(items, self.lines_of), self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (self.head(w),) if items else (), self.painter)
        read = self.picture.extra_of == self.reads
        line: Line = (("    ", "text"), (self.words(len(items)) if read else "…", "muted"))
        self.query_one("#total", Lines).show(lambda _w, h: ((), line) if h > 1 else (line,), self.painter)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def is_offered(self, action: Action) -> bool:
        """Nothing opens here."""
        return action.id != "open" and super().is_offered(action)


class WorkersScreen(TableScreen):
    """Who works, on what, and whether they live."""

    TAB = WORKERS
    SCOPE = WORKERS
    BINDINGS: ClassVar[list[BindingType]] = bindings(WORKERS)

    def wants(self) -> Reader | None:
        """All workers."""

        async def read(_snapshot: Snapshot) -> tuple[WorkerRow, ...]:
            return tuple(await self.console.deck.aworkers())

        return read

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.worker_head(cells)

    def items(self) -> list[Item]:
        """The workers whose id, host or queues have the text of the filter."""
        wanted = self.filter_text.casefold().strip()
        rows = [row for row in self.rows if isinstance(row, WorkerRow)]
        return [
            Item(row.id, 1, row) for row in rows if wanted in " ".join([row.id, row.host or "", *row.queues]).casefold()
        ]

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One worker."""
        return (present.worker_line(item.row, cells, at_cursor),) if isinstance(item.row, WorkerRow) else ()

    def words(self, shown: int) -> str:
        """How many there are."""
        return f"{shown:,} worker{'s' * (shown != 1)}" if shown else "no worker has told of itself"

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action not in {"quiet", "stop"}:
            return super().why_not(action)
        row = self.view.row
        why = self.console.operator.why_not_write()
        if why or not isinstance(row, WorkerRow):
            return why or "no worker under the cursor"
        return "" if row.alive else "it is gone"

    def do_quiet(self) -> None:
        """Asks the worker to take nothing new."""
        self._order("quiet", "was asked to take nothing new")

    def do_stop(self) -> None:
        """Asks the worker to end."""
        self._order("stop", "was asked to finish and end")

    def _order(self, what: str, told: str) -> None:
        worker = self.view.cursor

        async def act() -> None:
            await self.console.deck.aorder_worker(worker, what)
            self.console.say(f"{worker} {told}", "ok", "✓")

        self.console.operator.run(act(), what)


class ActivityScreen(TableScreen):
    """Who did what, when, to how many, and until when it can be undone."""

    TAB = ACTIVITY
    SCOPE = ACTIVITY
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIVITY)

    def wants(self) -> Reader | None:
        """The operations of the last day, newest first."""

        async def read(snapshot: Snapshot) -> tuple[Activity, ...]:
            return tuple(reversed(await api.aread_activity(self.console.deck, snapshot.at_ms - _DAY_MS)))

        return read

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.activity_head(cells)

    def items(self) -> list[Item]:
        """The operations whose words have the text of the filter."""
        wanted = self.filter_text.casefold().strip()
        rows = [row for row in self.rows if isinstance(row, Activity)]
        undone = {row.batch for row in rows if row.verb == "undo"}
        return [
            Item(f"{row.at_ms}/{row.verb}/{row.batch}", 1, (row, row.batch in undone))
            for row in rows
            if wanted in " ".join([row.verb, row.who, row.where, row.reason, *row.queues]).casefold()
        ]

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One operation."""
        if not isinstance(item.row, tuple):
            return ()
        row, undone = item.row
        now_ms = self.picture.snapshot.at_ms if self.picture.snapshot else row.at_ms
        return (present.activity_line(row, cells, at_cursor, undone=undone, now_ms=now_ms),)

    def words(self, shown: int) -> str:
        """How many there are."""
        return f"{shown:,} operation{'s' * (shown != 1)} within a day" if shown else "nothing was done within a day"

    def _chosen(self) -> tuple[Activity, bool] | None:
        row = self.view.row
        return row if isinstance(row, tuple) else None

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action != "undo":
            return super().why_not(action)
        why, chosen = self.console.operator.why_not_write(), self._chosen()
        if why or chosen is None:
            return why or "no operation under the cursor"
        row, undone = chosen
        if undone:
            return "it was undone"
        now_ms = self.picture.snapshot.at_ms if self.picture.snapshot else 0
        return "" if row.batch and row.undo_until_ms and row.undo_until_ms > now_ms else "nothing is kept to undo it"

    def do_undo(self) -> None:
        """Takes the batch under the cursor back, after naming it."""
        chosen = self._chosen()
        if chosen is not None and chosen[0].batch is not None:
            self.console.operator.name_and_undo(chosen[0].batch, f"{chosen[0].verb} by {chosen[0].who}")
