"""What leaves the console: text for the clipboard, and rows as JSON in a file that nobody else may read."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck._deck.model import JobRecord
from qdeck._deck.payload import mask_text
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import safe_text
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.app import ConsoleApp
    from qdeck_console.format import Line
    from qdeck_console.screens.frame import FrameScreen

MOST_COPIED: Final = 100_000


def copy(console: ConsoleApp, what: str, text: str) -> None:
    """Sends text to the terminal's clipboard; no terminal answers, so it is told as sent, not as done."""
    text = safe_text(text, limit=MOST_COPIED, one_line=False)
    console.copy_to_clipboard(text)
    count = text.count("\n") + 1
    words = f"{what} sent to the clipboard" if count == 1 else f"{count:,} lines sent to the clipboard"
    console.say(f"{words}: {text}" if count == 1 else words, "ok", "✓")


def plain(value: object) -> Any:
    """A value of the model as JSON; payloads with their secrets masked, and never as bytes."""
    if isinstance(value, JobRecord):
        shown = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        for raw in ("body", "seen"):  # bytes as they are on the server, secrets and all
            shown.pop(raw, None)
        return shown | {"payload": plain(value.payload())}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.repr}
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.structs.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return mask_text(value.decode("utf-8", "backslashreplace"))
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def write(console: ConsoleApp, name: str, rows: Sequence[object], of: int | None = None) -> None:
    """Writes rows to a file that is not there yet, a line each, for this user alone. `of` tells of how many."""
    path = Path(name.strip()).expanduser()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileExistsError:
        console.say(f"{path} is there already: nothing was written", "warn", "▲")
        return
    except OSError as error:
        console.say(f"{path}: {error.strerror or error}", "bad", "✗")
        return
    try:
        with os.fdopen(handle, "wb") as file:
            for row in rows:
                file.write(msgspec.json.encode(plain(row)) + b"\n")
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        console.say(f"{path}: {error.strerror or error}", "bad", "✗")
        return
    words = rows_words(len(rows), of)
    console.say(f"{words} written to {path}", "ok" if of is None else "warn", "✓" if of is None else "▲")


def rows_words(count: int, of: int | None) -> str:
    """How many rows; where there are more than can be written, of how many."""
    return f"{count:,} row{'s' * (count != 1)}" if of is None else f"{count:,} of {of:,} rows"


def ask(console: ConsoleApp, screen: FrameScreen) -> None:
    """Asks where to write what a screen lists."""
    offered = f"qdeck-{screen.tab}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"
    rows = screen.exported()
    of = screen.of_all(len(rows))

    def answered(path: str | None) -> None:
        if path:
            write(console, path, rows, of)

    console.ask(PathScreen(console, offered, rows_words(len(rows), of)), answered)


class PathScreen(Dialog[str | None]):
    """Asks for the name of a file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "cancel")]

    def __init__(self, console: ConsoleApp, offered: str, rows: str) -> None:
        super().__init__(console)
        self._offered, self._rows = offered, rows

    def panel(self) -> Iterable[Widget]:
        """What is written, and a field."""
        with Vertical(id="dialog"):
            yield Lines(id="asked", ground="panel")
            yield Entry(self._offered, id="path", classes="wide")
            yield Lines(id="answers", ground="panel")

    def on_mount(self) -> None:
        """Offers a name."""
        rows = self._rows
        lines: list[Line] = [
            ((f"Write {rows} to a file", "strong bold"),),
            (),
            (("JSON, a line each, in ", "muted"), (safe_text(str(Path.cwd()), limit=200), "text")),
            (),
        ]
        asked = self.query_one("#asked", Lines)
        asked.styles.height = len(lines)
        asked.show(lambda _w, _h: lines, self.console_app.painter)
        hint: Line = (("enter", "accent bold"), (" write  ", "muted"), ("esc", "accent bold"), (" cancel", "muted"))
        answers = self.query_one("#answers", Lines)
        answers.styles.height = 2
        answers.show(lambda _w, _h: ((), hint), self.console_app.painter)
        self.query_one("#path", Entry).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Gives the name."""
        _ = self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Writes nothing."""
        _ = self.dismiss(None)
