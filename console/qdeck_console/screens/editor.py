"""Edit a text: in the editor of the user, or here when there is none, or to correct a mistake."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import TextArea

from qdeck.admin import is_shown, json_escape
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import safe_text, wrap
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.widget import Widget

    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.session import Session


_NOTE: Final = "//"


async def edit(
    console: Console, title: str, text: str, check: Callable[[str], str], *, notes: Sequence[str] = ()
) -> str | None:
    """Return the edited text; None where it was not changed. A text that fails `check` is corrected here. `notes` are
    lines of comment above it in the user's editor.
    """
    command = editor_command()
    after: str | None = text
    wrong = ""
    if command:
        try:
            after = _in_editor(console, command, text, notes)
        except (OSError, SuspendNotSupported) as error:
            told = str(error) or "this terminal cannot be suspended"
            console.say(f"{command[0]}: {told}", "warn", "▲")
        else:
            if after is None or after.strip() == text.strip():
                return None
            wrong = check(after)
            if not wrong:
                return after
    if not wrong:
        after = text
    dialog = EditorScreen(console, title, escaped(after or text), check, wrong=wrong)
    return await console.operator.answer_to(dialog)


def editor_command() -> list[str]:
    """Return the user's editor with its arguments; empty when there is none."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        command = shlex.split(wanted)
    except ValueError:
        return []
    return command if command and shutil.which(command[0]) else []


def _in_editor(console: Console, command: list[str], text: str, notes: Sequence[str]) -> str | None:
    """Return the text from the user's editor, without the notes above it; None when the editor failed."""
    handle, name = tempfile.mkstemp(prefix="qdeck-", suffix=".json")  # for this user alone
    path = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("".join(f"{_NOTE} {note}\n" for note in notes) + text)
        with console.suspend():
            code = subprocess.call([*command, name])
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        return "".join(dropwhile(lambda line: line.startswith(_NOTE), lines)) if code == 0 else None
    finally:
        path.unlink(missing_ok=True)


def escaped(text: str) -> str:
    """Return the same JSON with an escape for every character that a terminal might act on."""
    return "".join(char if is_shown(char) or char == "\n" else json_escape(char) for char in text)


class EditorScreen(Dialog[str | None]):
    """A built-in editor: it returns a text that passes the check, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "cancel", priority=True),
        Binding("f2,ctrl+o", "take", "save", priority=True),
    ]

    def __init__(
        self, console: Session, title: str, text: str, check: Callable[[str], str], *, wrong: str = ""
    ) -> None:
        super().__init__(console)
        self._asked, self._text, self._check, self._wrong = title, text, check, wrong

    def panel(self) -> Iterable[Widget]:
        """Return the title, the text, and its error."""
        with Vertical(id="editor"):
            yield Lines(id="title", ground="panel")
            yield TextArea(self._text, id="text", tab_behavior="indent", compact=True)
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Show the title and focus the text."""
        head: Line = ((safe_text(self._asked, limit=200), "strong bold"),)
        title = self.query_one("#title", Lines)
        title.styles.height = 2
        title.show(lambda _w, _h: (head,), self.console_app.painter)
        self.query_one("#answers", Lines).styles.height = 3
        box = self.query_one("#text", TextArea)
        box.cursor_blink = False
        box.focus()
        self._draw(self._wrong)

    def _draw(self, wrong: str) -> None:
        hint: Line = (
            ("f2", "accent bold"), (" save  ", "muted"), ("esc", "accent bold"), (" cancel  ", "muted")
        )  # fmt: skip

        def make(cells: int, _height: int) -> list[Line]:
            told: list[Line] = [((part, "bad"),) for part in wrap(safe_text(wrong, limit=300), cells, most=2)]
            return [*told, *[()] * (2 - len(told)), hint]

        self.query_one("#answers", Lines).show(make, self.console_app.painter)

    def on_text_area_changed(self) -> None:
        """Clear the error: the text is checked again when it is saved."""
        if self._wrong:
            self._wrong = ""
            self._draw("")

    def action_take(self) -> None:
        """Return the text, or show its error."""
        text = self.query_one("#text", TextArea).text
        if text.strip() == self._text.strip() and not self._wrong:
            _ = self.dismiss(None)
            return
        self._wrong = self._check(text)
        if self._wrong:
            self._draw(self._wrong)
        else:
            _ = self.dismiss(text)

    def action_leave(self) -> None:
        """Return nothing."""
        _ = self.dismiss(None)
