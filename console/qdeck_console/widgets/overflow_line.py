"""The line below a page that says how much of it is out of sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck_console.format import counted
from qdeck_console.widgets.lines import LineList, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.format import Line


class More(Lines):
    """The number of lines of a list below the visible part; nothing where there are none."""

    def __init__(self, of: LineList) -> None:
        super().__init__(id=f"more-{of.id}")
        self.of = of

    def on_mount(self) -> None:
        """Follows the list wherever it is scrolled, and whatever grows above it."""
        self.watch(self.of, "scroll_y", self._tell)
        self.watch(self.of, "virtual_size", self._tell)
        self.watch(self.of, "rows_seen", self._tell)

    def _tell(self) -> None:
        self.call_after_refresh(self.tell)

    def tell(self) -> None:
        """Count again."""
        view = self.of
        below = view.virtual_size.height - round(view.scroll_offset.y) - view.size.height
        words = f"    {counted(below, 'more line')} ↓" if below > 0 and view.size.height else ""

        def make(_cells: int, _height: int) -> Sequence[Line]:
            return (((words, "faint"),),)

        self.show(make, view.painter)

    def on_resize(self) -> None:
        """Count again for the new height."""
        self._tell()
