"""The command palette: every action by name, with its key or why it cannot act, and words that have no key."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from qdeck_console.format import Line, Piece, fit, length
from qdeck_console.palette_actions import PaletteCommand, found
from qdeck_console.screens.chooser import Chooser
from qdeck_console.text import cut_end, safe_text
from qdeck_console.widgets.text_field import TextField

if TYPE_CHECKING:
    from textual import events
    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.console import Console
    from qdeck_console.screens.frame import FrameScreen

_WIDEST = 100


class PaletteScreen(Chooser[PaletteCommand]):
    """Type a few letters, or a word with what it takes; enter does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("shift+tab", "move(-1)", "up"),
        Binding("tab", "complete", "complete"),
        Binding("up", "recall(-1)", "earlier command"),
        Binding("down", "recall(1)", "later command"),
    ]
    HINTS = (("enter", "run"), ("tab", "complete"), ("esc", "close"))

    def __init__(self, console: Console, below: FrameScreen, text: str = "") -> None:
        super().__init__(console)
        self._below, self._text = below, text

    def head(self) -> Widget:
        """Return the field."""
        return TextField(self._text, id="words", placeholder="a command, such as find ID or live")

    def on_mount(self) -> None:
        """Show all commands."""
        self.query_one("#words", TextField).focus()
        self._search(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while it is typed."""
        self._search(event.value)

    def _search(self, text: str) -> None:
        wide = min(_WIDEST, max(76, self.size.width - 24))
        self.query_one("#palette").styles.width = wide + self.is_flat  # the frame has an edge at the right
        self.offer(found(self._below.console, self._below, text), nothing="no command matches")

    def option_line(self, command: PaletteCommand, cells: int) -> Line:
        """Return the line of a command: its name, what it does or why it cannot act, and its keys."""
        keys = fit([(command.keys, "faint" if command.why_not else "accent bold")], 9, right=True)
        name: list[Piece] = [(command.title, "faint" if command.why_not else "strong")]
        if command.argument:
            name.append((f" {command.argument}", "faint"))
        head = fit(name, 20)
        words = f"∅ {command.why_not}" if command.why_not else command.help
        room = cells - length(head) - length(keys) - 2
        return (*head, (" ", "text"), *fit([(cut_end(words, room), "faint" if command.why_not else "muted")], room),
                (" ", "text"), *keys)  # fmt: skip

    def action_complete(self) -> None:
        """Write the chosen command out, so that what it takes can be typed."""
        command = self.chosen
        if command is not None:
            self._write(command.completed)

    def _write(self, text: str) -> None:
        box = self.query_one("#words", TextField)
        box.value = safe_text(text)
        box.cursor_position = len(box.value)

    def on_key(self, event: events.Key) -> None:
        """Keep keys that were pressed before the field was there."""
        box = self.query_one("#words", TextField)
        if not box.has_focus and event.is_printable and event.character:
            box.insert_text_at_cursor(event.character)
            event.stop()

    def on_input_submitted(self) -> None:
        """Do the chosen command."""
        self.action_choose()

    def action_choose(self) -> None:
        """Do the chosen command; one that takes something waits for it. Where nothing was named, nothing is done."""
        command, named = self.chosen, self.query_one("#words", TextField).value.strip(": ")
        if command is None or not (named or self.has_moved):
            return
        if command.argument:
            self._write(command.completed)
        else:
            self._below.console.last_commands.add(command.completed)
            _ = self.dismiss(command)

    def action_recall(self, by: int) -> None:
        """Write the command before or after, from an empty field on; choose another line where one is typed."""
        text, history = self.query_one("#words", TextField).value, self._below.console.last_commands
        is_past = text in history or (not text and by < 0)
        if is_past and not self.has_moved:
            self._write(history.step(text, by))
        else:
            self.action_move(by)
