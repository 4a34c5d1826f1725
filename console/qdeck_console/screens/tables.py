"""What plain live tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck_console.presenters.nothing import Nothing, nothing_lines
from qdeck_console.presenters.parts import MARGIN
from qdeck_console.screens.frame import UNREAD, FrameScreen
from qdeck_console.widgets.items import page_of
from qdeck_console.widgets.lines import Item, Lines, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.actions import Action
    from qdeck_console.format import Line


def _as_it_is(item: Item, _cells: int, _at_cursor: bool) -> Sequence[Line]:
    return (item.row,) if isinstance(item.row, tuple) else ()


class TableScreen(FrameScreen):
    """A list of what the feed reads for it."""

    @property
    def rows(self) -> tuple[object, ...]:
        """What was read."""
        extra = self.was_read
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

    def nothing(self) -> Nothing | None:
        """What is said when there is nothing to list at all."""
        return None

    def draw(self, *, fresh: bool) -> None:
        """Draws list and total."""
        items = self.items()
        told = self.nothing() if not items and not self.filter_text and self.picture.extra_of == self.reads else None
        if told is None:
            self.view.show(Listing(items, self.lines_of), self.painter)
        else:
            block = nothing_lines(told, self.view.size.width, self.view.size.height)
            self.view.show(Listing([Item("", 1, line) for line in block], _as_it_is), self.painter)
        self.query_one("#head", Lines).show(lambda w, _h: (self.head(w),) if items else (), self.painter)
        read = self.picture.extra_of == self.reads
        line: Line = (("    ", "text"), (self.words(len(items)) if read else "…", "muted"))
        line = UNREAD if self.is_unread else line

        def total(cells: int, height: int) -> Sequence[Line]:
            rule: Line = ((" " * MARGIN, "text"), ("─" * (cells - 2 * MARGIN), "line"))
            return (rule, line) if height > 1 else (line,)

        self.query_one("#total", Lines).show(total, self.painter)

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Shows lines without a cursor, for a page about one thing."""
        self.view.show(page_of(lines), self.painter)

    def on_line_list_moved(self) -> None:
        """The footer follows the cursor."""
        self.draw_frame()

    def is_offered(self, action: Action) -> bool:
        """Nothing opens here."""
        return action.id != "open" and super().is_offered(action)
