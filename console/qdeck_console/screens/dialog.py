"""The base of dialogs: the bar at full strength, and a panel over the screen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from textual.screen import ModalScreen

from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

    from qdeck_console.format import Line, Piece
    from qdeck_console.session import Session

T = TypeVar("T")


def inside(cells: int) -> int:
    """The cells of a dialog's lines on a screen of this width."""
    return min(69, cells - 7)


def always(*lines: Line) -> Callable[[int, int], Sequence[Line]]:
    """Return lines that are the same in every size."""
    return lambda _w, _h: lines


def key_hints(*hints: tuple[str, str]) -> Line:
    """Return keys with what each does."""
    pieces: list[Piece] = []
    for number, (key, words) in enumerate(hints, 1):
        pieces += [(key, "accent bold"), (f" {words}{'  ' if number < len(hints) else ''}", "muted")]
    return tuple(pieces)


class Dialog(ModalScreen[T], Generic[T]):
    """A panel over a screen. Dimming must not dim where we are, so the bar is drawn again."""

    ESCAPE_TO_MINIMIZE = False

    def __init__(self, console: Session) -> None:
        super().__init__()
        self.console_app = console

    def compose(self) -> ComposeResult:
        """The bar, and the panel of the subclass."""
        yield Lines(id="mbar", ground="bar")
        yield from self.panel()

    @property
    def is_flat(self) -> bool:
        """Whether grounds do not tell buttons from what is around them: among sixteen colours, and without any."""
        return self.app.has_class("-sixteen")

    def panel(self) -> Iterable[Widget]:
        """The widgets of the panel."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Draw the bar, and continue to draw it: its clock must not stop.

        Textual calls the handler of each class: one of a subclass must not call this.
        """
        self._draw_bar()
        self.set_interval(1.0, self._draw_bar)
        self.call_after_refresh(self._take_keys)

    def _take_keys(self) -> None:
        self.console_app.keys_from = min(self.console_app.keys_from, time.monotonic())

    def _draw_bar(self) -> None:
        line, ground = self.console_app.bar_line()
        self.query_one("#mbar", Lines).show(lambda _w, _h: (line,), self.console_app.painter, ground)
