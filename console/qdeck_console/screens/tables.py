"""Plain live tables: what they share, and the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck._deck.model import Snapshot, WorkerRow
from qdeck_console.actions import WORKERS, bindings
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

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Shows lines without a cursor, for a page about one thing."""

        def draw(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
            return ((("    ", "text"), *item.row),) if isinstance(item.row, tuple) else ()

        self.view.show(Listing([Item("", 1, line) for line in lines], draw), self.painter)

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
