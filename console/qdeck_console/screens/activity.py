"""Who did what, when, to how many, what became of them, and until when it can be undone."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck import QdeckError
from qdeck._operations import activity, became
from qdeck._operations.model import Activity
from qdeck_console.actions import ACTIVITY, Action, bindings
from qdeck_console.presenters import activity as present
from qdeck_console.presenters.parts import section
from qdeck_console.screens.tables import TableScreen
from qdeck_console.widgets.lines import Item, LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck._deck.model import Snapshot
    from qdeck._operations.became import Became
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line

MOST = 500
AGAIN_S = 3.0  # a batch in sight is counted again after so long, or ten times what it took
WIDEST = 84


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What was read: operations, and what became of the one under the cursor (or why that is not known)."""

    rows: tuple[Activity, ...] = ()
    undone: dict[str, Activity] = field(default_factory=dict)


class ActivityBase(TableScreen):
    """Reads the log and counts the batch that is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, Became | str] = {}
        self._next_count: dict[str, float] = {}

    @property
    def log_of(self) -> Log:
        """What was read."""
        extra = self.was_read
        return extra if isinstance(extra, Log) else Log()

    def batch_in_sight(self) -> str | None:
        """The batch that is looked at."""
        raise NotImplementedError

    def wants(self) -> Reader | None:
        """The newest operations, and now and then what became of the one in sight."""

        async def read(_snapshot: Snapshot) -> Log:
            rows = await self.console.deck.alook(activity.newest(MOST))
            undone = {row.batch: row for row in rows if row.verb == "undo" and row.batch is not None}
            batch = self.batch_in_sight()
            if batch is not None and time.monotonic() >= self._next_count.get(batch, 0.0):
                started = time.monotonic()
                try:
                    self.counted[batch] = await self.console.deck.alook(became.read(batch))
                except QdeckError as error:
                    self.counted[batch] = str(error)
                took = time.monotonic() - started
                self._next_count[batch] = time.monotonic() + max(AGAIN_S, 10 * took)
            return Log(rows=tuple(rows), undone=undone)

        return read

    def why_not_undo(self, row: Activity | None) -> str:
        """Why an operation cannot be taken back."""
        why = self.console.operator.why_not_write()
        if why or row is None:
            return why or "no operation under the cursor"
        if row.batch in self.log_of.undone:
            return "it was undone"
        return (
            "" if row.batch and row.undo_until_ms and row.undo_until_ms > self.now_ms else "nothing is kept to undo it"
        )

    def undo(self, row: Activity) -> None:
        """Takes a batch back, after naming it."""
        if row.batch is not None:
            self.console.operator.name_and_undo(row.batch, f"{row.verb} by {row.who}")


class ActivityScreen(ActivityBase):
    """The log of operations, the newest first."""

    TAB = ACTIVITY
    SCOPE = ACTIVITY
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIVITY)

    def body(self) -> Sequence[Widget]:
        """The list, and one operation beside it."""
        return (Vertical(Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"), Lines(id="side"))

    @property
    def chosen(self) -> Activity | None:
        """The operation under the cursor."""
        row = self.view.row
        return row if isinstance(row, Activity) else None

    def batch_in_sight(self) -> str | None:
        """That under the cursor."""
        return self.chosen.batch if self.chosen is not None else None

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return present.head(cells)

    def items(self) -> list[Item]:
        """The operations whose words have the text of the filter, by day."""
        wanted = self.filter_text.casefold().strip()
        rows = [
            row
            for row in self.log_of.rows
            if wanted in " ".join([row.verb, row.who, row.where, row.reason, row.batch or "", *row.queues]).casefold()
        ]
        items: list[Item] = []
        for label in ("today", "before"):
            group = [row for row in rows if present.day(row.at_ms) == label]
            if not group:
                continue
            if items and self.is_tall:
                items.append(Item("", 1, ()))
            items.append(Item("", 1, (label, len(group))))
            items += [Item(_key(row), present.height(row), row) for row in group]
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One operation, or the head of a day."""
        row = item.row
        if not isinstance(row, Activity):
            return (section(row[0], "", "muted", cells, count=row[1]),) if isinstance(row, tuple) and row else ((),)
        known = self.counted.get(row.batch or "")
        return present.lines(
            row, cells, at_cursor, undone=self._undone(row), now_ms=self.now_ms, hide=self.hide,
            became=None if isinstance(known, str) else known,
        )  # fmt: skip

    def _undone(self, row: Activity) -> Activity | None:
        return None if row.verb == "undo" or row.batch is None else self.log_of.undone.get(row.batch)

    def words(self, shown: int) -> str:
        """How many there are."""
        count = sum(1 for item in self.view.listing.items if item.key) if shown else 0
        if count:
            return f"{count:,} operation{'s' * (count != 1)}"
        return "no operation matches; esc clears the filter" if self.filter_text else "nothing was done yet"

    def draw(self, *, fresh: bool) -> None:
        """Draws the list and the one under the cursor."""
        super().draw(fresh=fresh)
        self._draw_side()

    def _draw_side(self) -> None:
        row = self.chosen

        def make(cells: int, _height: int) -> Sequence[Line]:
            return () if row is None else present.side(
                row, cells, undone=self._undone(row), now_ms=self.now_ms, hide=self.hide,
                became=self.counted.get(row.batch or ""),
            )  # fmt: skip

        self.query_one("#side", Lines).show(make, self.painter)

    def on_line_list_moved(self) -> None:
        """Side pane and footer follow the cursor; what became of the batch is read at once."""
        self._draw_side()
        self.draw_frame()
        if self.batch_in_sight() is not None and self.batch_in_sight() not in self.counted:
            self.console.feed.poke()

    def is_offered(self, action: Action) -> bool:
        """Enter opens an operation."""
        return super().is_offered(action) or action.id == "open"

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "open":
            return "" if self.chosen is not None else "no operation under the cursor"
        return self.why_not_undo(self.chosen) if action == "undo" else super().why_not(action)

    def do_undo(self) -> None:
        """Takes the batch under the cursor back, after naming it."""
        if self.chosen is not None:
            self.undo(self.chosen)

    def on_line_list_opened(self, _event: LineList.Opened) -> None:
        """Opens the operation under the cursor."""
        if self.chosen is not None:
            self.console.open(BatchScreen(self.chosen))

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the batch."""
        row = self.chosen
        return ("batch", row.batch) if row is not None and row.batch else ("", "")


class BatchScreen(ActivityBase):
    """One operation on a page of its own."""

    TAB = ACTIVITY
    SCOPE = ACTIVITY
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIVITY)

    def __init__(self, row: Activity) -> None:
        super().__init__()
        self.row = row

    def body(self) -> Sequence[Widget]:
        """The operation as a list of lines without a cursor: the movement keys scroll it."""
        return (Vertical(LineList(id="list"), id="main"),)

    def batch_in_sight(self) -> str | None:
        """Its batch."""
        return self.row.batch

    def draw(self, *, fresh: bool) -> None:
        """Draws the operation."""
        cells = max(20, min(WIDEST, self.size.width - 8))
        undone = None if self.row.verb == "undo" else self.log_of.undone.get(self.row.batch or "")
        lines = present.side(
            self.row, cells, undone=undone, now_ms=self.now_ms, hide=self.hide,
            became=self.counted.get(self.row.batch or ""),
        )  # fmt: skip
        self.show_lines(lines)

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        if action == "back":
            return ""
        if action == "filter":
            return "there is nothing to filter"
        return self.why_not_undo(self.row) if action == "undo" else super().why_not(action)

    def is_offered(self, action: Action) -> bool:
        """Nothing can be opened here."""
        return action.id not in {"open", "filter"}

    def do_undo(self) -> None:
        """Takes it back, after naming it."""
        self.undo(self.row)

    def do_back(self) -> None:
        """Back to the list."""
        self.console.back()

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the batch."""
        return ("batch", self.row.batch) if self.row.batch else ("", "")

    def lists(self) -> bool:
        """There is one operation to write."""
        return True

    def exported(self) -> list[object]:
        """What `w` writes: the operation, and what became of it."""
        return [self.row, *(one for one in [self.counted.get(self.row.batch or "")] if one)]


def _key(row: Activity) -> str:
    return f"{row.at_ms}/{row.verb}/{row.batch}/{row.where}"
