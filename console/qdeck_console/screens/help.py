"""All keys, from the table of actions, each with the reason when it cannot act; searched, one can be done at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck_console.format import Line, fit, length
from qdeck_console.palette_actions import PaletteCommand, found
from qdeck_console.presenters import help as present
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import cut_end
from qdeck_console.widgets.choices import Choices
from qdeck_console.widgets.lines import Lines
from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.console import Console
    from qdeck_console.screens.frame import FrameScreen


class HelpScreen(Dialog[PaletteCommand | None]):
    """The keys that work on the screen below, and those of the others."""

    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close"),
        Binding("q,question_mark", "close", "close"),
        Binding("slash", "search", "search"),
        Binding("up,k", "move(-1)", "up"),
        Binding("down,j", "move(1)", "down"),
        Binding("pageup", "move(-10)", "page up"),
        Binding("pagedown,space", "move(10)", "page down"),
        Binding("enter", "choose", "do"),
    ]

    def __init__(self, console: Console, below: FrameScreen) -> None:
        super().__init__(console)
        self._below = below
        self._lines: list[Line] = []
        self._first = 0
        self.commands: list[PaletteCommand] = []

    def panel(self) -> Iterable[Widget]:
        """A title, the keys in columns, and the same as a list while it is searched."""
        with Vertical(id="help"):
            yield Lines(id="title", ground="panel")
            yield TextField(id="words", placeholder="part of a key, a name or its help")
            yield Lines(id="keys", ground="panel")
            yield Choices(id="choices")

    def on_mount(self) -> None:
        """Show the keys."""
        self.set_focus(None)
        self._show_search(on=False)
        self._arrange()

    def on_resize(self) -> None:
        """Chooses how many columns fit."""
        if self.query("#keys"):
            self._arrange()

    @property
    def is_searching(self) -> bool:
        """Whether the list takes the place of the columns."""
        return bool(self.query_one("#words").display)

    def _show_search(self, *, on: bool) -> None:
        # By style, not by class: a class takes effect a moment later, and keys typed until then would be lost.
        for name, shown in (("#words", on), ("#choices", on), ("#keys", not on)):
            self.query_one(name).display = shown

    def _arrange(self) -> None:
        wide = self.size.width
        count = 3 if wide >= 140 else 2 if wide >= 100 else 1
        cells = {3: 142, 2: 94, 1: min(70, wide - 6 - self.is_flat)}[count]
        self.query_one("#help").styles.width = cells + 6 + self.is_flat  # the frame has an edge at the right
        names = [str(tab.number) for tab in self._below.all_tabs()]
        found_groups = present.groups(self._below.SCOPE, self._below.why_not, f"{names[0]} … {names[-1]}")
        self._lines = [*present.columns(found_groups, cells, count), *self._about_live(cells)]
        room = max(3, self.size.height - 8)
        height = min(room, len(self._lines))
        self.query_one("#keys", Lines).styles.height = height
        self.query_one("#choices", Choices).styles.height = height
        self._first = min(self._first, max(0, len(self._lines) - height))
        self._draw()

    def _about_live(self, cells: int) -> list[Line]:
        context = self.console_app.context
        if not (context.read_only and context.is_production):
            return []
        words: Line = (
            ("This context is production and opens read-only. ", "muted"), (":live", "accent bold"),
            (" asks for its name and a reason, and lasts 30m.", "muted"),
        )  # fmt: skip
        return [(), (("─" * cells, "line"),), tuple(fit(words, cells))]

    def _draw(self) -> None:
        painter, first = self.console_app.painter, self._first
        panel = self.query_one("#keys", Lines)
        panel.show(lambda _w, h: self._lines[first : first + h], painter)
        below = len(self._lines) - first - int(panel.styles.height.value if panel.styles.height else 0)
        more = f"{below} more ↓" if below > 0 and not self.is_searching else ""
        tab = self._below.tab.capitalize()

        def title(cells: int, _height: int) -> list[Line]:
            what = "   keys of this screen" if cells >= 70 else ""
            left: Line = ((tab, "strong bold"), (what, "muted"), (f"   {more}", "faint"))
            right: Line = (
                ("/", "accent bold"), (" search  ", "muted"), ("enter", "accent bold"), (" run  ", "muted"),
                ("esc", "accent bold"), (" close", "muted"),
            )  # fmt: skip
            return [(*fit(left, cells - length(right)), *right)]

        head = self.query_one("#title", Lines)
        head.styles.height = 2
        head.show(title, painter)

    def action_search(self) -> None:
        """Open the field."""
        self._show_search(on=True)
        self.query_one("#words", TextField).focus()
        self._search("")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches while it is typed."""
        self._search(event.value)

    def _search(self, text: str) -> None:
        self.commands = [command for command in found(self._below.console, self._below, text) if command.keys]
        self.query_one("#choices", Choices).offer(len(self.commands), self._line, self.console_app.painter)
        self._draw()

    def _line(self, index: int, cells: int) -> Line:
        command = self.commands[index]
        faint = "faint" if command.why_not else ""
        keys = fit([(command.keys, faint or "accent bold")], 10)
        name = fit([(command.title, faint or "strong")], 16)
        words = f"∅ {command.why_not}" if command.why_not else command.help
        return (*keys, (" ", "text"), *name, (" ", "text"), (cut_end(words, cells - 28), faint or "text"))

    def action_move(self, by: int) -> None:
        """Scrolls the keys, or chooses another one of those that were found."""
        if self.is_searching:
            self.query_one("#choices", Choices).move(by)
            return
        height = self.query_one("#keys", Lines).size.height
        self._first = min(max(0, self._first + by), max(0, len(self._lines) - height))
        self._draw()

    def on_input_submitted(self) -> None:
        """Run the chosen action."""
        self.action_choose()

    def on_choices_chosen(self) -> None:
        """A click does it."""
        self.action_choose()

    def action_choose(self) -> None:
        """Run the chosen action after a search."""
        index = self.query_one("#choices", Choices).index
        command = self.commands[index] if self.is_searching and index < len(self.commands) else None
        _ = self.dismiss(command)

    def action_leave(self) -> None:
        """Close the search, then the help."""
        if self.is_searching:
            self._show_search(on=False)
            self.query_one("#words", TextField).value = ""
            self.set_focus(None)
            self._draw()
        else:
            _ = self.dismiss(None)

    def action_close(self) -> None:
        """Close the help."""
        _ = self.dismiss(None)
