"""A panel that shows some lines as they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from qdeck_console.theme import INK, Painter
from qdeck_console.widgets.strips import strip_of, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.geometry import Region, Size
    from textual.strip import Strip

    from qdeck_console.format import Line


class Lines(Widget):
    """Shows lines as they are given, each cut to the width with a sign."""

    DEFAULT_CSS = "Lines { height: 1; }"

    def __init__(self, *, id: str | None = None, ground: str = "ground") -> None:
        super().__init__(id=id)
        self.ground = ground
        self.painter = Painter(INK)
        self.make: Callable[[int, int], Sequence[Line]] = lambda _w, _h: ()
        self._made: tuple[Size, Sequence[Line]] | None = None

    def show(self, make: Callable[[int, int], Sequence[Line]], painter: Painter, ground: str | None = None) -> None:
        """Show what `make(width, height)` says; it is called again when the size changes."""
        before, looks = self._made, (self.painter, self.ground)
        self.make, self.painter, self.ground, self._made = make, painter, ground or self.ground, None
        if before is not None and before[0] == self.size and looks == (self.painter, self.ground):
            self._made = (before[0], made := make(*before[0]))
            if made == before[1]:
                return  # nothing to draw: most of what a key changes is elsewhere
        self.refresh()

    def rest(self) -> None:
        """Drop its contents until it is shown again."""
        self.make, self._made = lambda _w, _h: (), None
        self.refresh()  # Textual lets go of the strips that it keeps

    def refresh_lines(self) -> None:
        """Request its lines again."""
        self._made = None
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Some lines, for Textual's compositor."""
        return whole(super().render_lines(crop))

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        size = self.size
        if self._made is None or self._made[0] != size:
            self._made = (size, self.make(size.width, size.height) if size.width > 0 else ())
        lines = self._made[1]
        return strip_of(lines[y] if y < len(lines) else (), size.width, self.painter, self.ground)

    def text(self) -> str:
        """Return what it shows, without its looks."""
        return "\n".join(self.render_line(y).text.rstrip() for y in range(self.size.height))
