"""Every entry of one queue of a plan, read from its file as it is scrolled through."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical

from qdeck._operations.model import PlanEntry
from qdeck_console.actions import ENTRIES, PURGE, Action, bindings
from qdeck_console.format import NONE
from qdeck_console.presenters import purge as present
from qdeck_console.presenters.parts import queue_path
from qdeck_console.screens.frame import MOST_EXPORTED, FrameScreen
from qdeck_console.widgets.lines import Item, LineList, Lines, Listing, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.widget import Widget

    from qdeck._operations.planindex import PlanIndex, Share
    from qdeck_console.format import Line
    from qdeck_console.leftovers import Leftovers

_FIRST_ROWS = 60


class EntriesScreen(FrameScreen):
    """The entries of a plan that one rule takes of one queue."""

    TAB = PURGE
    SCOPE = ENTRIES
    BINDINGS: ClassVar[list[BindingType]] = bindings(ENTRIES)

    def __init__(self, index: PlanIndex | Leftovers, share: Share, threshold: str) -> None:
        super().__init__()
        self.index, self.share, self.threshold = index, share, threshold
        self._window = Window(share.count, 0, ())

    def body(self) -> Sequence[Widget]:
        """What they are, and the list."""
        return (Vertical(Lines(id="heading"), Lines(id="head"), LineList(id="list"), Lines(id="total"), id="main"),)

    @property
    def view(self) -> LineList:
        """The list."""
        return self.query_one("#list", LineList)

    def draw(self, *, fresh: bool) -> None:
        """Reads what is in sight and draws it."""
        first, count = self.view.visible_lines()
        count = count or _FIRST_ROWS
        if self.view.lacks or not self._window.known:
            begin = max(0, first - count)
            entries = self.index.entries(self.share, begin, 3 * count)
            items = [Item(f"{begin + at}/{entry.id}", 1, entry) for at, entry in enumerate(entries)]
            self._window = Window(self.share.count, begin, items)
        share = self.share
        self.view.show(Listing(self._window, _lines), self.painter)
        path = queue_path(share.queue, 60, "strong bold", hide=self.hide)
        effect = present.effect_of(share.effect)
        over = f", over {self.threshold}" if self.threshold != NONE else ""
        self.query_one("#heading", Lines).show(
            lambda _w, _h: ((), ((" ", "text"), *path, (f"  {present.name_of(share.rule)}{over}  ", "muted"), effect)),
            self.painter,
        )
        self.query_one("#head", Lines).show(lambda w, _h: (present.entry_head(share.rule, w),), self.painter)
        last = min(share.count, first + count)
        words = f"    {first + 1:,}–{last:,} of {share.count:,}, in the order of the plan"
        self.query_one("#total", Lines).show(lambda _w, h: ((), ((words, "muted"),))[-h:], self.painter)

    def on_line_list_wanted(self) -> None:
        """Reads what came into sight."""
        self.draw(fresh=False)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def copied(self) -> tuple[str, str]:
        """What `y` takes: the id under the cursor."""
        row = self.view.row
        return ("id", row.id) if isinstance(row, PlanEntry) else ("", "")

    def exported(self) -> list[object]:
        """What `w` writes: all entries of the page."""
        return list(self.index.entries(self.share, 0, MOST_EXPORTED))

    def why_not(self, action: str) -> str:
        """Why an action cannot act now."""
        return "" if action in {"back", "write"} else super().why_not(action)

    def is_offered(self, action: Action) -> bool:
        """Nothing opens here."""
        return action.id != "open"

    def do_back(self) -> None:
        """Back to the plan."""
        self.console.back()


def _lines(item: Item, cells: int, at_cursor: bool) -> Sequence[Line]:
    return (present.entry_line(item.row, cells, at_cursor=at_cursor),) if isinstance(item.row, PlanEntry) else ()
