"""Who did what, when, to how many, what became of them, and until when it can be undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from textual.containers import Vertical

from qdeck import QdeckError, ServerUnreachable, UsageError
from qdeck.admin import Activity
from qdeck_console.actions import ACTIVITY, Action, bindings
from qdeck_console.format import counted
from qdeck_console.pace import Paces
from qdeck_console.presenters import activity as present
from qdeck_console.presenters import batch as present_batch
from qdeck_console.presenters.activity import Later
from qdeck_console.presenters.parts import in_height, section
from qdeck_console.screens.acting import Done
from qdeck_console.screens.tables import TableScreen
from qdeck_console.widgets.lines import Item, LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck.admin import BatchOutcomes, Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line
    from qdeck_console.presenters.table import Table

MOST: Final = 500
AGAIN_S: Final = 3.0  # a batch in sight is counted again after so long, or ten times what it took
SETTLED_S: Final = 60.0  # the same where none of its jobs can go on
AT_ONCE: Final = 2  # batches that are counted in one picture
WIDEST: Final = 84


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What was read: operations, and which of them ended what another began."""

    rows: tuple[Activity, ...] = ()
    undone: dict[str, Activity] = field(default_factory=dict)
    pauses: dict[str, Activity | None] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)  # context → when it was made read-only last


class ActivityBase(TableScreen):
    """Reads the log and counts the batch that is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, BatchOutcomes | str] = {}
        self._paces = Paces()
        self._made_table: tuple[Log, Table[Activity, present.View]] | None = None

    @property
    def log_of(self) -> Log:
        """What was read."""
        extra = self.was_read
        return extra if isinstance(extra, Log) else Log()

    def in_sight(self) -> Sequence[Activity]:
        """The operations that are looked at, the one that matters most first."""
        raise NotImplementedError

    def wants(self) -> Reader | None:
        """The newest operations, and what became of those in sight, a few at a time."""

        async def read(_snapshot: Snapshot) -> Log:
            rows = await self.console.reader.recent_activity(MOST)
            undone = {row.batch: row for row in rows if row.verb == "undo" and row.batch is not None}
            closed: dict[str, int] = {}
            for row in rows:
                if row.verb == "read-only":
                    closed.setdefault(row.detail, row.at_ms)
            for batch in self._due(undone):
                await self._count(batch)
            return Log(rows=tuple(rows), undone=undone, pauses=present.pairs_of_pauses(rows), closed=closed)

        return read

    def _due(self, undone: Mapping[str, Activity]) -> list[str]:
        wanted = [row for row in self.in_sight() if row.batch is not None and row.batch not in undone]
        first = wanted[:1]  # its undo is told whatever it did
        rest = [row for row in wanted[1:] if row.verb in present.REACHED and (row.undo_until_ms or 0) > self.now_ms]
        batches = [row.batch for row in (*first, *rest) if row.batch is not None]
        due = [batch for batch in dict.fromkeys(batches) if self._paces.of(batch).is_due]
        head = [batch for batch in due if first and batch == first[0].batch]
        others = sorted((batch for batch in due if batch not in head), key=lambda b: self._paces.of(b).due_at)
        return [*head, *others][:AT_ONCE]

    async def _count(self, batch: str) -> None:
        settled, pace = True, self._paces.of(batch)
        try:
            with pace.spending():
                found = await self.console.reader.batch_outcomes(batch)
            self.counted[batch] = found
            settled = not (found.pending or found.running)
        except UsageError:
            self.counted[batch] = "of its jobs nothing is kept any more"
        except ServerUnreachable:
            raise
        except QdeckError as error:
            self.counted[batch] = str(error)
        pace.rest(SETTLED_S if settled else AGAIN_S)

    def later(self, row: Activity) -> Later:
        """What is known of an operation besides its line in the log."""
        log, known = self.log_of, self.counted.get(row.batch or "")
        return Later(
            undone=None if row.verb == "undo" or row.batch is None else log.undone.get(row.batch),
            outcomes=None if isinstance(known, str) else known,
            paused=self._is_paused(row),
            resumed=log.pauses.get(present.identity(row)),
            ended=log.closed.get(row.detail, 0) > row.at_ms,
        )

    def _is_paused(self, row: Activity) -> bool:
        """Whether the queue that it paused is so still, by the queue itself."""
        snapshot = self.picture.snapshot
        if row.verb != "pause" or len(row.queues) != 1 or snapshot is None:
            return False
        if self.log_of.pauses.get(present.identity(row)) is not None:
            return False
        return any(one.paused and one.ref.label(snapshot.shared) == row.queues[0] for one in snapshot.queues)

    def side_of(self, row: Activity, cells: int) -> list[Line]:
        """All about an operation."""
        known = self.counted.get(row.batch or "")
        problem = known if isinstance(known, str) else ""
        return present_batch.side(
            row, cells, later=self.later(row), now_ms=self.now_ms, problem=problem, hide=self.hide
        )

    def why_not_undo(self, row: Activity | None) -> str:
        """Why an operation cannot be taken back."""
        why = self.console.operator.why_not_write()
        if why or row is None:
            return why or "no operation under the cursor"
        if row.batch in self.log_of.undone:
            return "it was undone"
        if not row.batch or not row.undo_until_ms or row.undo_until_ms <= self.now_ms:
            return "nothing is kept to undo it"
        known = self.later(row).outcomes
        reached = known is not None and row.verb in present.REACHED and known.is_whole and known.jobs > 0
        return "nothing is left to undo" if reached and known and not present_batch.left_to_undo(known) else ""

    def undo(self, row: Activity) -> None:
        """Takes a batch back, after naming it."""
        if row.batch is not None:
            self.console.operator.name_and_undo([Done(row.batch, f"{row.verb} by {row.who}")])


class ActivityScreen(ActivityBase):
    """The log of operations, the newest first."""

    TAB = ACTIVITY
    SCOPE = ACTIVITY
    BINDINGS: ClassVar[list[BindingType]] = bindings(ACTIVITY)

    @property
    def chosen(self) -> Activity | None:
        """The operation under the cursor."""
        row = self.view.row
        return row if isinstance(row, Activity) else None

    def in_sight(self) -> Sequence[Activity]:
        """The one under the cursor, then what else is on screen."""
        keys = set(self.view.visible_keys())
        shown = [item.row for item in self.view.listing.items if item.key in keys and isinstance(item.row, Activity)]
        chosen = [self.chosen] if self.chosen is not None else []
        return [*chosen, *(row for row in shown if row is not self.chosen)]

    @property
    def _table(self) -> Table[Activity, present.View]:
        log = self.log_of
        if self._made_table is None or self._made_table[0] is not log:
            self._made_table = (log, present.table_of(log.rows))
        return self._made_table[1]

    def head(self, cells: int) -> Line:
        """The heads of the columns."""
        return self._table.head(cells)

    def items(self) -> list[Item]:
        """The operations whose words have the text of the filter, by day."""
        wanted = self.filter_text.casefold().strip()
        rows = [
            row
            for row in self.log_of.rows
            if wanted
            in " ".join(
                [row.verb, row.who, row.filter, row.detail, row.reason, row.batch or "", *row.queues]
            ).casefold()
        ]
        items: list[Item] = []
        table, cells = self._table, self.view.size.width or self.size.width
        for label in ("today", "before"):
            group = [row for row in rows if present.day(row.at_ms) == label]
            if not group:
                continue
            if items and self.is_tall:
                items.append(Item("", 1, ()))
            items.append(Item("", 1, (label, len(group))))
            items += [Item(present.identity(row), present.height(row, table, cells), row) for row in group]
        return items

    def lines_of(self, item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
        """One operation, or the head of a day."""
        row = item.row
        if not isinstance(row, Activity):
            return (section(row[0], "", "muted", cells, count=row[1]),) if isinstance(row, tuple) and row else ((),)
        view = present.View(self.later(row), self.now_ms, self.hide)
        return present.lines(row, self._table, cells, view, at_cursor=at_cursor)

    def words(self, shown: int) -> str:
        """How many there are."""
        count = sum(1 for item in self.view.listing.items if item.key) if shown else 0
        if count:
            return counted(count, "operation")
        return "no operation matches; esc clears the filter" if self.filter_text else "nothing was done yet"

    def draw(self, *, fresh: bool) -> None:
        """Draws the list and the one under the cursor."""
        super().draw(fresh=fresh)
        self._draw_side()

    def _draw_side(self) -> None:
        row = self.chosen

        def make(cells: int, height: int) -> Sequence[Line]:
            return () if row is None else in_height(self.side_of(row, cells), height, cells, "enter opens it")

        self.query_one("#side", Lines).show(make, self.painter)

    def on_line_list_moved(self) -> None:
        """Side pane and footer follow the cursor; what became of the batch is read at once."""
        self._draw_side()
        self.draw_frame()
        if self.chosen is not None and self.chosen.batch is not None and self.chosen.batch not in self.counted:
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

    def in_sight(self) -> Sequence[Activity]:
        """Itself."""
        return [self.row]

    def draw(self, *, fresh: bool) -> None:
        """Draws the operation."""
        cells = max(20, min(WIDEST, self.size.width - 8))
        lines = self.side_of(self.row, cells)
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
