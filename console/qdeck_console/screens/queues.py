"""The queues: troubled ones first, each with its reason, live."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from qdeck.admin import QueueRef
from qdeck_console.actions import QUEUES, Action, bindings
from qdeck_console.arranging import Arranger, Asked, Group, Sort
from qdeck_console.feed import Picture
from qdeck_console.format import counted
from qdeck_console.history import flow_of
from qdeck_console.insight import Insights, Looked, read_pasts
from qdeck_console.judging import Entry
from qdeck_console.presenters import queues as present
from qdeck_console.presenters.parts import MARGIN, PLAIN, naming_of
from qdeck_console.presenters.queue_detail import detail
from qdeck_console.presenters.queues import Drawer, Grid
from qdeck_console.screens.empty import EmptyDeck
from qdeck_console.screens.queueacts import QueueActs
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from textual.binding import BindingType

    from qdeck.admin import Snapshot
    from qdeck_console.feed import Reader
    from qdeck_console.format import Line


_PASTS_AT_ONCE: Final = 8
_OF_QUEUES: Final = frozenset({"open", "filter", "sort", "pause", "retry", "move", "undo", "copy", "discard", "purge"})


def counted_s(snapshot: Snapshot) -> float:
    """Within how many seconds all queues were counted: very many are in turns."""
    return (snapshot.at_ms - snapshot.counted_ms) / 1000 if snapshot.fresh is not None else 0.0


class QueuesScreen(QueueActs):
    """Every queue, grouped by how urgent it is."""

    TAB = QUEUES
    SCOPE = QUEUES
    BINDINGS: ClassVar[list[BindingType]] = bindings(QUEUES)

    def __init__(self) -> None:
        super().__init__()
        self.sort = Sort.WORST
        self._arranger = Arranger()
        self._adapters: set[str] = set()
        self._made_grid = ((0, 0, 0.0), Grid.of(0, adapters=0, span_s=0.0))
        self._drawer = Drawer(picture=self.picture, hide=PLAIN, reasons_shown=True)
        self._insights = Insights()
        self._empty = EmptyDeck()

    def visible_queues(self) -> list[QueueRef]:
        """Queues that are on screen, whose dear numbers are wanted now."""
        keys = self.view.visible_keys() if self._arranger.arranged.entries else []
        return [QueueRef.parse(key) for key in keys if key]

    def is_offered(self, action: Action) -> bool:
        """Where there is no queue, only what works everywhere."""
        snapshot = self.picture.snapshot
        is_empty = snapshot is not None and not snapshot.queues
        return super().is_offered(action) and not (is_empty and action.id in _OF_QUEUES)

    def on_screen_suspend(self) -> None:
        """Lets go of the rows, too."""
        if self not in self.console.screen_stack:
            self._arranger.rest()
            self._drawer = Drawer(picture=Picture(), hide=PLAIN, reasons_shown=True)

    def wants(self) -> Reader:
        """What agents saw of the queues on screen, a few at a time, and the one under the cursor close up."""

        async def read(snapshot: Snapshot) -> Looked:
            cursor, reader = QueueRef.parse(self.view.cursor), self.console.reader
            refs = [ref for ref in (cursor, *self.visible_queues()) if ref.name]
            lacking = self.picture.history.lacking(dict.fromkeys(refs), _PASTS_AT_ONCE)
            pasts = await read_pasts(reader, lacking)
            if not snapshot.queues:
                await self._empty.read(reader)
            row = next((row for row in snapshot.queues if row.ref == cursor), None)
            if row is None or not self.has_class("-wide"):
                return Looked(pasts)
            return Looked(pasts, await self._insights.look(reader, row))

        return read

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
            if isinstance(item.row, Entry):
                return drawer.lines(item.row, grid, at_cursor=at_cursor)
            if not isinstance(item.row, Group):
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
            return detail(entry, drawer, cells, height) if isinstance(entry, Entry) else ()

        self.query_one("#side", Lines).show(make, self.painter)

    def deck_changed(self) -> None:
        """Another deck, which may see more or less, is read anew."""
        self._insights = Insights()

    def begin_anew(self) -> None:
        """Queues of another server are others, also those of the same name."""
        super().begin_anew()
        self._arranger, self._empty = Arranger(), EmptyDeck()

    def selected(self) -> Entry | None:
        """The queue under the cursor, if it is still there."""
        row = self.view.row
        return row if isinstance(row, Entry) else None

    def exported(self) -> list[object]:
        """What `w` writes: the queues that are listed, as `qdeck queues` gives them."""
        return [item.row.row for item in self.view.listing.items if isinstance(item.row, Entry)]

    def verb(self, action: Action) -> str:
        """The verb of an action, as it would act now."""
        if action.id == "sort" and self.sort is not Sort.WORST:
            return self.sort.label
        return super().verb(action)

    def do_tasks(self) -> None:
        """Opens the temporary queues."""
        self.console.open_temporary_queues()

    def do_sort(self) -> None:
        """Sorts by the next column."""
        self.sort = Sort((self.sort + 1) % len(Sort))
        self.redraw()
        self.console.say(f"sorted {self.sort.label}" if self.sort else "worst first", "muted", "")

    def on_line_list_moved(self) -> None:
        """The side pane and the footer follow the cursor."""
        self._draw_side()
        self.draw_frame()

    def on_line_list_opened(self, event: LineList.Opened) -> None:
        """Opens a queue: its jobs where its detail is in sight already, else its detail, from which enter goes on."""
        if not event.key:
            return
        if self.has_class("-wide"):
            self.console.show_jobs(QueueRef.parse(event.key), present.list_in_question(self.selected()))
        else:
            self.console.open_queue(QueueRef.parse(event.key))
