"""The queues: troubled ones first, each with its reason, live."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck.admin import QueueRef
from qdeck_console.actions import QUEUES, ActionHandler
from qdeck_console.arranging import Arranger, Asked, QueueGroup, Sort
from qdeck_console.feed import Picture
from qdeck_console.format import counted
from qdeck_console.history import flow_of
from qdeck_console.insight import Insights, Looked, read_pasts
from qdeck_console.judging import JudgedQueue
from qdeck_console.presenters import queues as present
from qdeck_console.presenters.parts import MARGIN, PLAIN, naming_of
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import Drawer, Grid
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.screens.lists import ReadingScreen
from qdeck_console.screens.no_queues import NoQueues
from qdeck_console.screens.queue_actions import QUEUE_HANDLERS, QueueActing
from qdeck_console.widgets.lines import Item, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck.admin import AsyncReader, QueueRow, Snapshot
    from qdeck_console.format import Line


_PASTS_AT_ONCE: Final = 8


def counted_s(snapshot: Snapshot) -> float:
    """Within how many seconds all queues were counted: very many are in turns."""
    return (snapshot.at_ms - snapshot.counted_ms) / 1000 if snapshot.fresh is not None else 0.0


def _has_queues(screen: FrameScreen) -> bool:
    """Return whether there is a queue: where there is none, only what works everywhere is offered."""
    snapshot = screen.picture.snapshot
    return snapshot is None or bool(snapshot.queues)


class QueuesScreen(QueueActing, ReadingScreen[Looked]):
    """Every queue, grouped by how urgent it is."""

    TAB = SCOPE = QUEUES

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort.WORST
        self._arranger = Arranger()
        self._adapters: set[str] = set()
        self._made_grid = ((0, 0, 0.0), Grid.of(0, adapters=0, span_s=0.0))
        self._drawer = Drawer(picture=self.picture, hide=PLAIN, reasons_shown=True)
        self._insights = Insights()
        self._empty = NoQueues()

    def visible_queues(self) -> list[QueueRef]:
        """Queues that are on screen, whose dear numbers are wanted now."""
        keys = self.view.visible_keys() if self._arranger.arranged.entries else []
        return [QueueRef.parse(key) for key in keys if key]

    def on_screen_suspend(self) -> None:
        """Lets go of the rows, too."""
        if self not in self.console.screen_stack:
            self._arranger.rest()
            self._drawer = Drawer(picture=Picture(), hide=PLAIN, reasons_shown=True)

    async def read(self, reader: AsyncReader, snapshot: Snapshot) -> Looked:
        """Read what agents saw of the queues on screen, a few at a time, and the one under the cursor close up."""
        cursor = QueueRef.parse(self.view.cursor)
        refs = [ref for ref in (cursor, *self.visible_queues()) if ref.name]
        lacking = self.picture.history.lacking(dict.fromkeys(refs), _PASTS_AT_ONCE)
        pasts = await read_pasts(reader, lacking)
        if not snapshot.queues:
            await self._empty.read(reader)
        row = next((row for row in snapshot.queues if row.ref == cursor), None)
        if row is None or not self.has_class("-wide"):
            return Looked(pasts)
        return Looked(pasts, await self._insights.look(reader, row))

    def _asked(self) -> Asked:
        return Asked(sort=self.sort, filter=self.filter_text.casefold().strip(), is_tall=self.is_tall)

    def prepare(self, picture: Picture) -> Iterator[None]:
        """Arranges the list before it is drawn."""
        return self._arranger.steps(picture.judged, self._asked(), time.monotonic(), self.console.last_key_at)

    def draw(self, *, fresh: bool) -> None:
        """Draws list, totals and side pane."""
        judged, asked = self.picture.judged, self._asked()
        if not self._arranger.holds(judged, asked):
            self._arranger.arrange(judged, asked, time.monotonic(), self.console.last_key_at)
        arranged = self._arranger.arranged
        adapters = self.picture.snapshot.adapters if self.picture.snapshot else ()
        self._adapters = {entry.row.adapter for entry in arranged.entries} if len(adapters) > 1 else set(adapters)
        self._drawer = drawer = Drawer(
            picture=self.picture,
            hide=naming_of(self.picture.snapshot),
            before=judged.before,
            reasons_shown=arranged.reasons_shown,
        )
        snapshot = self.picture.snapshot
        is_empty = snapshot is not None and not snapshot.queues
        self.set_class(is_empty, "-empty")
        if is_empty:
            self.view.show(self._empty.listing(self.console, self.view), self.painter)
        else:
            draw = self._draw_item(drawer)
            listing = Listing(arranged.items, draw, arranged.tops, arranged.where)
            if not arranged.items and self.filter_text and snapshot is not None:
                listing = Listing([Item("", 1, present.NO_MATCH)], draw)
            self.view.show(listing, self.painter)
        self.query_one("#head", Lines).show(
            lambda w, _h: () if is_empty else (present.head_line(self._grid(w), self.sort),), self.painter
        )
        self._draw_total()
        self._draw_side()

    def _grid(self, cells: int) -> Grid:
        wanted = (cells, len(self._adapters), self.picture.history.span_s)
        if self._made_grid[0] != wanted:
            self._made_grid = (wanted, Grid.of(cells, adapters=wanted[1], span_s=wanted[2]))
        return self._made_grid[1]

    def _draw_item(self, drawer: Drawer) -> Callable[[Item, int, bool], Sequence[Line]]:
        def draw(item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
            grid = self._grid(cells)
            if isinstance(item.row, JudgedQueue):
                return drawer.lines(item.row, grid, at_cursor=at_cursor)
            if not isinstance(item.row, QueueGroup):
                return (item.row,) if isinstance(item.row, tuple) else ()
            return [()] * (item.height - 1) + [present.section_line(item.row, grid)]

        return draw

    def _draw_total(self) -> None:
        entries, picture = self._arranger.arranged.entries, self.picture
        shown = len(entries)
        everything = len(picture.snapshot.queues) if picture.snapshot else 0
        adapters = len(self._adapters)

        def make(cells: int, height: int) -> Sequence[Line]:
            if picture.snapshot is None or not everything:
                return ()
            more = self.view.below
            words = counted(shown, "queue")
            if self.filter_text:
                words = f"{shown:,} of {everything:,} queues"
            if more:
                words += f", {more:,} more ↓"
            elif adapters > 1:
                words += f", {adapters} adapters"
            elif entries:
                words += f", {entries[0].row.adapter}"
            since_s = counted_s(picture.snapshot)
            if since_s >= 2 and not self.filter_text:
                told = f"{words}, counted in {since_s:.0f} s"
                words = told if len(told) <= self._grid(cells).name else f"{shown:,} queues, counted in {since_s:.0f} s"
            if shown == everything:
                totals, flow = picture.snapshot.totals, picture.flow
            else:
                totals, flow = present.totals_of(entries), flow_of([entry.row for entry in entries])
            total = present.total_line(self._grid(cells), totals, flow, words)
            rule: Line = ((" " * MARGIN, "text"), ("─" * (cells - 2 * MARGIN), "line"))
            return (rule, total) if height > 1 else (total,)

        self.query_one("#total", Lines).show(make, self.painter)

    def _draw_side(self) -> None:
        entry = self.view.row
        drawer = replace(
            self._drawer,
            insight=self._insights.known(QueueRef.parse(self.view.cursor)),
            limit=self.console.thresholds.ready_queue_max,
        )

        def make(cells: int, height: int) -> Sequence[Line]:
            return detail(entry, drawer, cells, height) if isinstance(entry, JudgedQueue) else ()

        self.query_one("#side", Lines).show(make, self.painter)

    @property
    def entry(self) -> JudgedQueue | None:
        """The queue under the cursor, if it is still there."""
        row = self.view.row
        return row if isinstance(row, JudgedQueue) else None

    @property
    def queue_row(self) -> QueueRow | None:
        """The same, as its row."""
        return self.entry.row if self.entry is not None else None

    def exported(self) -> list[object]:
        """Return what `w` writes: the queues that are listed, as `qdeck queues` gives them."""
        return [item.row.row for item in self.view.listing.items if isinstance(item.row, JudgedQueue)]

    def copied(self) -> tuple[str, str]:
        """Return what `y` takes: the name of the queue."""
        row = self.queue_row
        return ("name", row.ref.label(self.hide.shared)) if row is not None else ("", "")

    def sort_by_next(self) -> None:
        """Sort by the next column."""
        self.sort = Sort((self.sort + 1) % len(Sort))
        self.redraw()
        self.console.say(f"sorted {self.sort.label}" if self.sort else "worst first", "muted", "")

    def _sort_label(self) -> str:
        return self.sort.label if self.sort is not Sort.WORST else ""

    def open(self) -> None:
        """Open a queue: its jobs where its detail is in sight already, else its detail, from which enter goes on."""
        key = self.view.cursor
        if not key:
            return
        if self.has_class("-wide"):
            self.console.show_jobs(QueueRef.parse(key), present.list_in_question(self.entry))
        else:
            self.console.open_queue(QueueRef.parse(key))

    def on_line_list_moved(self) -> None:
        """The side pane and the footer follow the cursor."""
        self._draw_side()
        self.draw_frame()

    def on_line_list_opened(self) -> None:
        """Open the queue under the cursor."""
        self.action_do("open")

    HANDLERS: ClassVar = {
        **FrameScreen.HANDLERS,
        **{id: replace(handler, offered=_has_queues) for id, handler in QUEUE_HANDLERS.items()},
        **{id: replace(FrameScreen.HANDLERS[id], offered=_has_queues) for id in ("filter", "undo", "copy")},
        "open": ActionHandler(run=open, offered=_has_queues),
        "sort": ActionHandler(run=sort_by_next, label=_sort_label, offered=_has_queues),
        "tasks": ActionHandler(run=lambda screen: screen.console.open_temporary_queues()),
    }
