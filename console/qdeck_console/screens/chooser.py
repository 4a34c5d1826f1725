"""The dialog in which one of several things is chosen, by moving in a list or by typing what it is called."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck_console.screens.dialog import Dialog, key_hints
from qdeck_console.widgets.choices import Choices
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from qdeck_console.format import Line
    from qdeck_console.session import Session

OptionT = TypeVar("OptionT")
MOST_ROWS: Final = 16


class Chooser(Dialog[OptionT | None], Generic[OptionT]):
    """Give what was chosen, none where the dialog was left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close"),
        Binding("up", "move(-1)", "up"),
        Binding("down", "move(1)", "down"),
        Binding("pageup", "move(-10)", "page up"),
        Binding("pagedown", "move(10)", "page down"),
        Binding("enter", "choose", "choose"),
    ]
    HINTS: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, console: Session) -> None:
        super().__init__(console)
        self.options: Sequence[OptionT] = ()
        self.has_moved = False

    @abstractmethod
    def head(self) -> Widget:
        """Return what stands above the list."""

    @abstractmethod
    def option_line(self, option: OptionT, cells: int) -> Line:
        """Return the line of an option."""

    def panel(self) -> Iterable[Widget]:
        """Return the head, the list, and what the keys do."""
        with Vertical(id="palette"):
            yield self.head()
            yield Choices(id="choices")
            yield Lines(id="about", ground="panel")

    def offer(self, options: Sequence[OptionT], *, index: int = 0, nothing: str = "") -> None:
        """Show these, or say that there is nothing."""
        self.options = options
        choices, painter = self.query_one("#choices", Choices), self.console_app.painter
        choices.styles.height = max(1, min(MOST_ROWS, max(3, self.size.height - 12), len(options)))
        choices.offer(len(options), lambda at, cells: self.option_line(self.options[at], cells), painter, index=index)
        line: Line = key_hints(*self.HINTS) if options else ((nothing, "muted"),)
        self.query_one("#about", Lines).show(lambda _w, h: ((), line) if h > 1 else (line,), painter)

    @property
    def chosen(self) -> OptionT | None:
        """The option that is chosen."""
        index = self.query_one("#choices", Choices).index
        return self.options[index] if index < len(self.options) else None

    def action_move(self, by: int) -> None:
        """Choose another one."""
        self.has_moved = True
        self.query_one("#choices", Choices).move(by)

    def action_choose(self) -> None:
        """Give the one that is chosen."""
        _ = self.dismiss(self.chosen)

    def on_choices_chosen(self) -> None:
        """Give the one that was clicked."""
        self.has_moved = True
        self.action_choose()

    def action_leave(self) -> None:
        """Give none."""
        _ = self.dismiss(None)
