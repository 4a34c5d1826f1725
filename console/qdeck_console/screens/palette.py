"""The command palette: every action by name, with its key or why it cannot act, and words that have no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck_console.commanding import PaletteCommand, found
from qdeck_console.format import Line, Piece, fit, length
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.choices import Choices
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.console import Console
    from qdeck_console.screens.frame import FrameScreen

MOST_ROWS = 16
_WIDEST = 100


class PaletteScreen(Dialog[PaletteCommand | None]):
    """Type a few letters, or a word with what it takes; enter does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close"),
        Binding("up,shift+tab", "move(-1)", "up"),
        Binding("down", "move(1)", "down"),
        Binding("pageup", "move(-10)", "page up"),
        Binding("pagedown", "move(10)", "page down"),
        Binding("tab", "complete", "complete"),
    ]

    def __init__(self, console: Console, below: FrameScreen, text: str = "") -> None:
        super().__init__(console)
        self._below, self._text = below, text
        self.commands: list[PaletteCommand] = []
        self._moved = False

    def panel(self) -> Iterable[Widget]:
        """A field, the commands that answer to it, and what the chosen one does."""
        with Vertical(id="palette"):
            yield Entry(self._text, id="words", placeholder="a command; find ID, context NAME, live")
            yield Choices(id="choices")
            yield Lines(id="about", ground="panel")

    def on_mount(self) -> None:
        """Shows all of them."""
        self.query_one("#words", Entry).focus()
        self._search(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Searches while it is typed."""
        self._search(event.value)

    def _search(self, text: str) -> None:
        self.commands = found(self._below.console, self._below, text)
        choices = self.query_one("#choices", Choices)
        room = max(3, self.size.height - 12)
        choices.styles.height = max(1, min(MOST_ROWS, room, len(self.commands)))
        wide = min(_WIDEST, max(76, self.size.width - 24))
        self.query_one("#palette").styles.width = wide + self.is_flat  # the frame has an edge at the right
        choices.offer(len(self.commands), self._line, self.console_app.painter)
        self._about()

    def _line(self, index: int, cells: int) -> Line:
        command = self.commands[index]
        keys = fit([(command.keys, "faint" if command.why_not else "accent bold")], 9, right=True)
        name: list[Piece] = [(command.title, "faint" if command.why_not else "strong")]
        if command.argument:
            name.append((f" {command.argument}", "faint"))
        head = fit(name, 20)
        words = f"∅ {command.why_not}" if command.why_not else command.help
        room = cells - length(head) - length(keys) - 2
        return (*head, (" ", "text"), *fit([(cut_end(words, room), "faint" if command.why_not else "muted")], room),
                (" ", "text"), *keys)  # fmt: skip

    def _about(self) -> None:
        empty = not self.commands
        line: Line = (
            (("no command answers to that", "muted"),)
            if empty
            else (("enter", "accent bold"), (" do it  ", "muted"), ("tab", "accent bold"), (" complete  ", "muted"),
                  ("esc", "accent bold"), (" close", "muted"))
        )  # fmt: skip
        self.query_one("#about", Lines).show(lambda _w, h: ((), line) if h > 1 else (line,), self.console_app.painter)

    def action_move(self, by: int) -> None:
        """Chooses another command."""
        self._moved = True
        self.query_one("#choices", Choices).move(by)

    def action_complete(self) -> None:
        """Writes the chosen command out, so that what it takes can be typed."""
        command = self._chosen()
        if command is not None:
            self._write(command.title + (" " if command.argument else ""))

    def _write(self, text: str) -> None:
        box = self.query_one("#words", Entry)
        box.value = safe_text(text)
        box.cursor_position = len(box.value)

    def _chosen(self) -> PaletteCommand | None:
        index = self.query_one("#choices", Choices).index
        return self.commands[index] if index < len(self.commands) else None

    def on_key(self, event: events.Key) -> None:
        """Keys that were pressed before the field was there are not lost."""
        box = self.query_one("#words", Entry)
        if not box.has_focus and event.is_printable and event.character:
            box.insert_text_at_cursor(event.character)
            event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Does the chosen command; one that takes something waits for it. Nothing was named: nothing is done."""
        if event.value.strip(": ") or self._moved:
            self._choose()

    def on_choices_chosen(self) -> None:
        """A click chooses and does."""
        self._choose()

    def _choose(self) -> None:
        command = self._chosen()
        if command is None:
            return
        if command.argument:
            self._write(f"{command.title} ")
            return
        _ = self.dismiss(command)

    def action_leave(self) -> None:
        """Closes it and does nothing."""
        _ = self.dismiss(None)
