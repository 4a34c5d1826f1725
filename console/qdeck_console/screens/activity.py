"""The screen Activity: the log of operations, with outcomes and until when each can be undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck import QdeckError, ServerUnreachable, UsageError
from qdeck.admin import Activity
from qdeck_console.actions import ACTIVITY, ActionHandler
from qdeck_console.format import clock
from qdeck_console.operator import NamedBatch
from qdeck_console.pace import Paces
from qdeck_console.presenters import activity as present
from qdeck_console.presenters import batch as present_batch
from qdeck_console.presenters.activity import Later
from qdeck_console.presenters.line_parts import in_height, section
from qdeck_console.screens.lists import NOTHING_OPENS, ListScreen, ListSpec, PageScreen, ReadingScreen, RowGroup
from qdeck_console.screens.redrive import LAST_REDRIVE
from qdeck_console.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import AsyncReader, BatchOutcomes, Snapshot
    from qdeck_console.format import Line
    from qdeck_console.presenters.table import Table

MOST: Final = 500
AGAIN_S: Final = 3.0  # a visible batch is counted again after this, or after ten times what the last count took
SETTLED_S: Final = 60.0  # the same where none of its jobs can go on
AT_ONCE: Final = 2  # batches that are counted in one refresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What was read: operations, which of them ended what another began, and the outcomes of batches, as far as they
    were counted; of one that cannot be counted why.
    """

    rows: tuple[Activity, ...] = ()
    undone: Mapping[str, Activity] = field(default_factory=dict)
    pauses: Mapping[str, Activity | None] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)  # context → when it was made read-only last
    outcomes: Mapping[str, BatchOutcomes | str] = field(default_factory=dict)

    def later(self, row: Activity, snapshot: Snapshot | None) -> Later:
        """Return what is known of an operation besides its line in the log."""
        known = self.outcomes.get(row.batch or "")
        return Later(
            undone=None if row.verb == "undo" or row.batch is None else self.undone.get(row.batch),
            outcomes=None if isinstance(known, str) else known,
            paused=self._is_paused(row, snapshot),
            resumed=self.pauses.get(present.identity(row)),
            ended=self.closed.get(row.detail, 0) > row.at_ms,
        )

    def _is_paused(self, row: Activity, snapshot: Snapshot | None) -> bool:
        """Return whether the queue that it paused is so still, by the queue itself."""
        if row.verb != "pause" or len(row.queues) != 1 or snapshot is None:
            return False
        if self.pauses.get(present.identity(row)) is not None:
            return False
        return any(one.paused and one.ref.label(snapshot.shared) == row.queues[0] for one in snapshot.queues)


class LogReader:
    """Reads the log, and counts the outcomes of batches, a few at a time."""

    def __init__(self) -> None:
        self._outcomes: dict[str, BatchOutcomes | str] = {}
        self._paces = Paces()

    async def read(self, reader: AsyncReader, in_sight: Sequence[Activity], now_ms: int) -> Log:
        """Read the newest operations, and the outcomes of the visible ones, the selected one first."""
        rows = await reader.recent_activity(MOST)
        undone = {
            row.batch: row for row in reversed(rows) if row.verb == "undo" and row.outcome == "done" and row.batch
        }
        closed: dict[str, int] = {}
        for row in rows:
            if row.verb == "read-only":
                closed.setdefault(row.detail, row.at_ms)
        wanted = [row for row in in_sight if row.batch is not None and row.batch not in undone]
        for batch in self._due(wanted, now_ms):
            await self._count(reader, batch)
        return Log(
            rows=tuple(rows), undone=undone, pauses=present.pairs_of_pauses(rows), closed=closed,
            outcomes=dict(self._outcomes),
        )  # fmt: skip

    def _due(self, wanted: Sequence[Activity], now_ms: int) -> list[str]:
        first = wanted[:1]  # its undo is told whatever it did
        rest = [row for row in wanted[1:] if row.verb in present.REACHED and (row.undo_until_ms or 0) > now_ms]
        batches = [row.batch for row in (*first, *rest) if row.batch is not None]
        due = [batch for batch in dict.fromkeys(batches) if self._paces.of(batch).is_due]
        head = [batch for batch in due if first and batch == first[0].batch]
        others = sorted((batch for batch in due if batch not in head), key=lambda b: self._paces.of(b).due_at)
        return [*head, *others][:AT_ONCE]

    async def _count(self, reader: AsyncReader, batch: str) -> None:
        settled, pace = True, self._paces.of(batch)
        try:
            with pace.spending():
                found = await reader.batch_outcomes(batch)
            self._outcomes[batch] = found
            settled = not (found.pending or found.running)
        except UsageError:
            self._outcomes[batch] = "the outcomes of its jobs are no longer kept"
        except ServerUnreachable:
            raise
        except QdeckError as error:
            self._outcomes[batch] = str(error)
        pace.rest(SETTLED_S if settled else AGAIN_S)


class ReadingLog(ReadingScreen[Log]):
    """A screen that reads the log, and looks at one operation."""

    SCOPE = TAB = ACTIVITY

    def __init__(self) -> None:
        super().__init__()
        self._reader = LogReader()

    @property
    def operation(self) -> Activity | None:
        """The operation that the keys act on."""
        raise NotImplementedError

    def in_sight(self) -> Sequence[Activity]:
        """Return the operations that are on screen, the one that matters most first."""
        return [self.operation] if self.operation is not None else []

    async def read(self, reader: AsyncReader, _snapshot: Snapshot) -> Log:
        """Read the log, and the outcomes of the visible batches."""
        return await self._reader.read(reader, self.in_sight(), self.now_ms)

    def later(self, row: Activity) -> Later:
        """Return what is known of an operation besides its line in the log."""
        return (self.data or Log()).later(row, self.feed_state.snapshot)

    def about(self, row: Activity, cells: int) -> list[Line]:
        """Return the details of an operation."""
        known = (self.data or Log()).outcomes.get(row.batch or "")
        return present_batch.side(
            row, cells, later=self.later(row), now_ms=self.now_ms, problem=known if isinstance(known, str) else "",
            naming=self.naming,
        )  # fmt: skip

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the batch."""
        row = self.operation
        return ("batch", row.batch) if row is not None and row.batch else ("", "")


def _why_not_undo(screen: ReadingLog) -> str:
    why, row = screen.console.operator.why_not_write(), screen.operation
    if why or row is None:
        return why or "no operation under the cursor"
    undo = (screen.data or Log()).undone.get(row.batch or "")
    if undo is not None:
        return f"already undone by {safe_text(undo.who, limit=40)} at {clock(undo.at_ms)}"
    if row.outcome == "running" and row.verb != "undo":
        return f"still being applied by {row.who}"
    if not row.batch or not row.undo_until_ms or row.undo_until_ms <= screen.now_ms:
        return "the batch cannot be undone"
    known = screen.later(row).outcomes
    reached = known is not None and row.verb in present.REACHED and known.is_whole and known.jobs > 0
    return "nothing left to undo" if reached and known and not present_batch.left_to_undo(known) else ""


def _undo(screen: ReadingLog) -> None:
    """Undo a batch, after naming it."""
    row = screen.operation
    if row is not None and row.batch is not None:
        screen.console.operator.name_and_undo(NamedBatch(row.batch))


UNDO: Final = ActionHandler(run=_undo, reason=_why_not_undo)


def _search(row: Activity) -> str:
    return " ".join([row.verb, row.who, row.filter, row.detail, row.reason, row.batch or "", *row.queues])


class ActivityScreen(ReadingLog, ListScreen[Activity, Log]):
    """The log of operations, the newest first."""

    LIST: ClassVar[ListSpec[Activity, Log]] = ListSpec(
        noun="operation", table=present.table_of(), rows=lambda log: log.rows, key=present.identity, search=_search
    )

    def __init__(self) -> None:
        super().__init__()
        self._table: tuple[Sequence[Activity], Table[Activity, present.ActivityView]] = ((), present.table_of())

    @property
    def operation(self) -> Activity | None:
        """The one under the cursor."""
        return self.chosen

    def in_sight(self) -> Sequence[Activity]:
        """Return the one under the cursor, then what else is on screen."""
        keys, chosen = set(self.view.visible_keys()), self.chosen
        shown = [item.row for item in self.view.listing.items if item.key in keys and isinstance(item.row, Activity)]
        return [*([chosen] if chosen is not None else []), *(row for row in shown if row is not chosen)]

    @property
    def table(self) -> Table[Activity, present.ActivityView]:
        """The columns, as wide as these operations need them."""
        if self._table[0] is not self.rows:
            self._table = (self.rows, present.table_of(self.rows))
        return self._table[1]

    def groups(self, rows: Sequence[Activity]) -> list[RowGroup[Activity]]:
        """Return the operations by day."""
        days = {label: [row for row in rows if present.day(row.at_ms) == label] for label in ("today", "before")}
        return [RowGroup(group, partial(_day_head, label, len(group))) for label, group in days.items() if group]

    def height(self, row: Activity) -> int:
        """Return how many lines an operation has."""
        return present.height(row, self.table, self.view.size.width or self.size.width)

    def lines(self, row: Activity, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the lines of an operation."""
        view = present.ActivityView(self.later(row), self.now_ms, self.naming)
        return present.lines(row, self.table, cells, view, at_cursor=at_cursor)

    def total(self, rows: Sequence[Activity]) -> str:
        """Return how many there are."""
        return self.count_of(rows) if rows or self.filter_text else "no operations yet"

    def side(self, row: Activity, cells: int, height: int) -> Sequence[Line]:
        """Return the details of the operation under the cursor."""
        return in_height(self.about(row, cells), height, cells, "enter opens it")

    def lacks(self) -> bool:
        """Return whether the outcomes of its batch were not counted yet."""
        row = self.chosen
        return row is not None and row.batch is not None and row.batch not in (self.data or Log()).outcomes

    def _why_not_open(self) -> str:
        return "" if self.chosen is not None else "no operation under the cursor"

    def open(self) -> None:
        """Open the operation under the cursor."""
        if self.chosen is not None:
            self.console.open(BatchScreen(self.chosen))

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS, "open": ActionHandler(run=open, reason=_why_not_open), "undo": UNDO,
        "last_redrive": LAST_REDRIVE,
    }  # fmt: skip


def _day_head(label: str, count: int, cells: int) -> Line:
    return section(label, "", "muted", cells, count=count)


class BatchScreen(ReadingLog, PageScreen):
    """One operation on a page of its own."""

    def __init__(self, row: Activity) -> None:
        super().__init__()
        self.row = row

    @property
    def operation(self) -> Activity:
        """Itself."""
        return self.row

    def page(self, cells: int) -> list[Line]:
        """Return the details of it."""
        return self.about(self.row, cells)

    def lists(self) -> bool:
        """There is one operation to write."""
        return True

    def exported(self) -> list[object]:
        """Return what `w` writes: the operation, and its outcomes."""
        found = (self.data or Log()).outcomes.get(self.row.batch or "")
        return [self.row] if found is None or isinstance(found, str) else [self.row, found]

    def _why_not_resume(self) -> str:
        row, log = self.row, self.data or Log()
        if row.outcome != "interrupted" or row.verb == "undo" or row.plan is None:
            return NOTHING_OPENS.reason(self)
        if row.batch in log.undone:
            return "it was undone"
        if any(one.batch == row.batch and one.outcome == "done" and one.verb != "undo" for one in log.rows):
            return "it was continued"
        return self.console.operator.why_not_write()

    def resume(self) -> None:
        """Apply the rest of a batch that was interrupted, after asking."""
        if self.row.batch is not None:
            self.console.operator.resume(self.row.batch)

    HANDLERS: ClassVar = {
        **PageScreen.HANDLERS,
        "undo": UNDO,
        "last_redrive": LAST_REDRIVE,
        "open": ActionHandler(
            run=resume,
            reason=_why_not_resume,
            label=lambda _screen: "continue",
            offered=lambda screen: screen.row.outcome == "interrupted",
        ),
    }
