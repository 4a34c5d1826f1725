"""The queues: troubled ones first, each with its reason, live."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck.admin import Code, QueueRef
from qdeck_console.actions import QUEUES, ActionHandler
from qdeck_console.feed import FeedState
from qdeck_console.format import counted
from qdeck_console.history import flow_of
from qdeck_console.presenters import queues as present
from qdeck_console.presenters.line_parts import PLAIN, naming_of
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import QueueView
from qdeck_console.problems import evidence_of
from qdeck_console.queue_findings import ListedQueue
from qdeck_console.queue_order import Arranger, Asked, Sort
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.lists import ListScreen, below
from qdeck_console.screens.no_queues import NoQueues
from qdeck_console.screens.queue_actions import QUEUE_HANDLERS, QueueActing
from qdeck_console.selected_queue import Insights, Looked, read_pasts
from qdeck_console.widgets.lines import Listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from qdeck.admin import AsyncReader, QueueRow, Snapshot, Totals
    from qdeck_console.format import Line
    from qdeck_console.history import Flow


_PASTS_AT_ONCE: Final = 8


def counted_s(snapshot: Snapshot) -> float:
    """Within how many seconds all queues were counted: very many are in turns."""
    return (snapshot.at_ms - snapshot.counted_ms) / 1000 if snapshot.fresh is not None else 0.0


def _has_queues(screen: FrameScreen) -> bool:
    """Return whether there is a queue: where there is none, only what works everywhere is offered."""
    snapshot = screen.feed_state.snapshot
    return snapshot is None or bool(snapshot.queues)


class QueuesScreen(QueueActing, ListScreen[ListedQueue, Looked]):
    """Every queue, grouped by how urgent it is."""

    TAB = SCOPE = QUEUES

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort.WORST
        self._arranger = Arranger()
        self._drawn = QueueView(self.feed_state, PLAIN, reasons_shown=True)
        self._totals: tuple[Totals, Flow] | None = None
        self._insights = Insights()
        self._empty = NoQueues()

    def visible_queues(self) -> list[QueueRef]:
        """Queues that are on screen, whose dear numbers are wanted now."""
        keys = self.view.visible_keys() if self._arranger.arranged.entries else []
        return [QueueRef.parse(key) for key in keys if key]

    def on_screen_suspend(self) -> None:
        """Drop the rows, too."""
        if self not in self.console.screen_stack:
            self._arranger.rest()
            self._drawn = QueueView(FeedState(), PLAIN, reasons_shown=True)

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> Looked:
        """Read what agents saw of the queues on screen, a few at a time, and the one under the cursor close up."""
        cursor = QueueRef.parse(self.view.cursor)
        refs = [ref for ref in (cursor, *self.visible_queues()) if ref.name]
        lacking = self.feed_state.history.lacking(dict.fromkeys(refs), _PASTS_AT_ONCE)
        pasts = await read_pasts(reader, lacking)
        if not snapshot.queues:
            await self._empty.read(reader)
        row = next((row for row in snapshot.queues if row.ref == cursor), None)
        if row is None or not self.has_class("-wide"):
            return Looked(pasts)
        return Looked(pasts, await self._insights.look(reader, row))

    def _asked(self) -> Asked:
        return Asked(sort=self.sort, filter=self.filter_text.casefold().strip(), is_tall=self.is_tall)

    def prepare(self, feed_state: FeedState) -> Iterator[None]:
        """Arranges the list before it is drawn."""
        return self._arranger.steps(feed_state.listed, self._asked(), time.monotonic(), self.console.last_key_at)

    def draw(self, *, fresh: bool) -> None:
        """Arrange the queues, and draw them."""
        listed, asked, snapshot = self.feed_state.listed, self._asked(), self.feed_state.snapshot
        if not self._arranger.holds(listed, asked):
            self._arranger.arrange(listed, asked, time.monotonic(), self.console.last_key_at)
        arranged = self._arranger.arranged
        known = snapshot.adapters if snapshot is not None else ()
        adapters = len({entry.row.adapter for entry in arranged.entries}) if len(known) > 1 else len(known)
        self._drawn = QueueView(
            self.feed_state, naming_of(snapshot), arranged.reasons_shown, listed.before, adapters,
            limit=self.console.thresholds.ready_queue_max,
        )  # fmt: skip
        if snapshot is not None:
            rows = [entry.row for entry in arranged.entries]
            is_all = len(rows) == len(snapshot.queues)
            totals = snapshot.totals if is_all else present.totals_of(rows)
            self._totals = totals, self.feed_state.flow if is_all else flow_of(rows)
        self.set_class(self.has_none, "-empty")
        self.draw_list()

    @property
    def is_read(self) -> bool:
        """Whether the queues are known; what else is read of them may come later."""
        return self.feed_state.snapshot is not None

    @property
    def has_none(self) -> bool:
        """Whether the server has no queue."""
        return self.feed_state.snapshot is not None and not self.feed_state.snapshot.queues

    @property
    def rows(self) -> Sequence[ListedQueue]:
        """The queues that match, in their order."""
        return self._arranger.arranged.entries

    def matching(self) -> list[ListedQueue]:
        """Return the same: the arranger has filtered them."""
        return list(self.rows)

    def listing(self, rows: Sequence[ListedQueue]) -> Listing:
        """Return the list with the place of each queue, which the arranger found in steps."""
        arranged = self._arranger.arranged
        return Listing(arranged.items, self.item_lines, arranged.tops, arranged.where)

    def lines(self, row: ListedQueue, cells: int, *, at_cursor: bool) -> Sequence[Line]:
        """Return the one or two lines of a queue."""
        return self._drawn.lines(row, cells, at_cursor=at_cursor)

    def heads(self, cells: int, *, has_rows: bool) -> Sequence[Line]:
        """Return the heads of the columns."""
        return () if self.has_none else (present.head_line(self._drawn, cells, self.sort),)

    def empty_lines(self) -> Sequence[Line]:
        """Return what stands in the place of the queues where none matches, or where there is none."""
        if self.has_none:
            return self._empty.lines(self.console, self.view, self.feed_state.snapshot)
        return (present.NO_MATCH,) if self.filter_text else ()

    def total_lines(self, rows: Sequence[ListedQueue], cells: int, height: int) -> Sequence[Line]:
        """Return the sums below their columns."""
        if self.has_none or self._totals is None:
            return ()
        words = self._total_words(rows, self._drawn.table.laid(cells)[0][1])
        return below(present.total_line(self._drawn, cells, *self._totals, words), cells, height)

    def _total_words(self, rows: Sequence[ListedQueue], cells: int) -> str:
        snapshot, more, adapters = self.feed_state.snapshot, self.view.below, self._drawn.adapters
        words = counted(len(rows), "queue")
        if snapshot is not None and self.filter_text:
            words = f"{len(rows):,} of {len(snapshot.queues):,} queues"
        if more:
            words += f", {more:,} more ↓"
        elif adapters > 1:
            words += f", {adapters} adapters"
        elif rows:
            words += f", {rows[0].row.adapter}"
        orphaned = sum(entry.row.orphaned or 0 for entry in rows)
        if orphaned:
            told = f", {orphaned:,} orphaned: t"
            words = (words if len(words + told) <= cells else counted(len(rows), "queue")) + told
        since_s = counted_s(snapshot) if snapshot is not None and not self.filter_text else 0.0
        if since_s < 2:
            return words
        told = f"{words}, counted in {since_s:.0f}s"
        return told if len(told) <= cells else f"{len(rows):,} queues, counted in {since_s:.0f}s"

    def side(self, row: ListedQueue, cells: int, height: int) -> Sequence[Line]:
        """Return the details of the queue under the cursor."""
        return detail(row, replace(self._drawn, insight=self._insights.known(row.row.ref)), cells, height)

    @property
    def queue_row(self) -> QueueRow | None:
        """The queue under the cursor, if it is still there."""
        return self.chosen.row if self.chosen is not None else None

    def exported(self) -> list[object]:
        """Return what `w` writes: the queues that are listed, as `qdeck queues` gives them."""
        return [entry.row for entry in self.rows]

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the name of the queue."""
        row = self.queue_row
        return ("name", row.ref.label(self.naming.shared)) if row is not None else ("", "")

    def sort_by_next(self) -> None:
        """Sort by the next column."""
        self.sort = Sort((self.sort + 1) % len(Sort))
        self.redraw()
        self.console.say(f"sorted {self.sort.label}" if self.sort else "worst first", "muted", "")

    def _sort_label(self) -> str:
        return self.sort.label if self.sort is not Sort.WORST else ""

    def open(self) -> None:
        """Open the stuck jobs or dead letters that are wrong; else its detail, or its jobs where that is beside."""
        key = self.view.cursor
        if not key:
            return
        worst = self.chosen.reasons[0].code if self.chosen is not None and self.chosen.reasons else None
        if worst in (Code.STUCK, Code.DEAD, Code.DEAD_GROWING, Code.NO_WORKER, Code.UNKNOWN_TASK):
            self.console.problems.show(evidence_of(worst, QueueRef.parse(key)))
        elif self.has_class("-wide"):
            self.console.show_jobs(QueueRef.parse(key), present.list_in_question(self.chosen))
        else:
            self.console.open_queue(QueueRef.parse(key))

    HANDLERS: ClassVar = {
        **ListScreen.HANDLERS,
        **{id: replace(QUEUE_HANDLERS[id], offered=_has_queues) for id in ("pause", "retry", "move")},
        **{id: QUEUE_HANDLERS[id] for id in ("redrive", "bury")},
        **{id: replace(FrameScreen.HANDLERS[id], offered=_has_queues) for id in ("filter", "undo", "copy")},
        "open": ActionHandler(run=open, offered=_has_queues),
        "sort": ActionHandler(run=sort_by_next, label=_sort_label, offered=_has_queues),
        "tasks": ActionHandler(run=lambda screen: screen.console.open_temporary_queues()),
    }
