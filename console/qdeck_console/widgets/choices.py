"""A short list in a dialog, of which one entry is chosen while the keys go to a field above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from qdeck_console.format import Line, fit
from qdeck_console.widgets.lines import Lines
from qdeck_console.widgets.strips import strip_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.strip import Strip

    from qdeck_console.theme import Painter


class Choices(Lines):
    """Entries of one line each; the chosen one stays visible."""

    DEFAULT_CSS = "Choices { height: 1fr; }"

    class Chosen(Message):
        """An entry was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, *, id: str | None = None, ground: str = "panel") -> None:
        super().__init__(id=id, ground=ground)
        self.count = 0
        self.index = 0
        self._first = 0
        self._draw: Callable[[int, int], Line] = lambda _index, _cells: ()

    def offer(self, count: int, draw: Callable[[int, int], Line], painter: Painter, *, index: int = 0) -> None:
        """Show `count` entries; `draw(index, cells)` makes the line of one."""
        self.count, self._draw, self.painter = count, draw, painter
        self.index = min(index, max(0, count - 1))
        self._reveal()

    def move(self, by: int) -> None:
        """Chooses another entry."""
        self.index = min(max(0, self.index + by), max(0, self.count - 1))
        self._reveal()

    def _reveal(self) -> None:
        height = max(1, self.size.height)
        self._first = min(self._first, self.index, max(0, self.count - height))
        if self.index >= self._first + height:
            self._first = self.index - height + 1
        self.refresh()

    def on_resize(self) -> None:
        """Keep the chosen entry visible."""
        self._reveal()

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        index, cells = self._first + y, self.size.width
        if index >= self.count:
            return strip_of((), cells, self.painter, self.ground)
        line: Line = tuple(fit(self._draw(index, max(1, cells - 2)), max(1, cells - 2)))
        chosen = index == self.index
        more = y == self.size.height - 1 and index < self.count - 1
        bar = ("▌ ", "accent") if chosen else ("  ", "text")
        if more and not chosen:
            left = self.count - index
            line = ((f"{left:,} more ↓", "faint"),)
        return strip_of((bar, *line), cells, self.painter, "cursor" if chosen else self.ground)

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        index = self._first + event.y
        if index < self.count:
            self.index = index
            self.refresh()
            self.post_message(self.Chosen(index))
