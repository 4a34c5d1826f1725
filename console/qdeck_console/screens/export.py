"""What leaves the console: text for the clipboard, and rows as JSON in a file that nobody else may read."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from qdeck.admin import Dropped, JobRecord, decode_payload, escaped_json
from qdeck_console.format import counted
from qdeck_console.newfile import new_file
from qdeck_console.screens.dialog import Dialog
from qdeck_console.text import safe_text
from qdeck_console.widgets.entry import Entry
from qdeck_console.widgets.lines import Lines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from typing import BinaryIO

    from textual.widget import Widget
    from textual.widgets import Input

    from qdeck_console.console import Console
    from qdeck_console.format import Line
    from qdeck_console.screens.acting import Work
    from qdeck_console.session import Session

MOST_COPIED: Final = 100_000
_AT_ONCE_S: Final = 0.008  # for which rows are written before a key is looked for


def copy(console: Console, what: str, text: str) -> None:
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
        return decode_payload(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class Sheet:
    """The file that rows are written to, a line each."""

    def __init__(self, file: BinaryIO, work: Work) -> None:
        self._file, self._work = file, work
        self._paused = time.monotonic()

    @property
    def is_dropped(self) -> bool:
        """Whether it was cancelled: then nothing is left of it."""
        return self._work.cancelled

    def put(self, rows: Iterable[object]) -> None:
        """Writes some rows at once."""
        for row in rows:
            self._put(row)

    async def put_all(self, rows: Iterable[object]) -> None:
        """Writes rows, however many, and lets keys be answered in between."""
        for row in rows:
            self._put(row)
            if time.monotonic() - self._paused > _AT_ONCE_S:
                await asyncio.sleep(0.001)  # a key is handed on through several turns of the loop
                self._paused = time.monotonic()
                if self.is_dropped:
                    return

    def _put(self, row: object) -> None:
        self._file.write(escaped_json(msgspec.json.encode(plain(row)).decode()).encode() + b"\n")
        self._work.done += 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What is written to a file: what writes the rows, and how many there are where that is known."""

    fill: Callable[[Sheet], Awaitable[None]]
    count: int | None = None

    @property
    def words(self) -> str:
        """How many rows it is about to be."""
        return "all rows that match" if self.count is None else counted(self.count, "row")


def in_memory(rows: Sequence[object]) -> Export:
    """The rows that a screen has already."""
    return Export(fill=lambda sheet: sheet.put_all(rows), count=len(rows))


def write(console: Console, name: str, export: Export) -> None:
    """Writes rows to a file that is not there yet, a line each, for this user alone."""
    work = console.operator.work
    if work is not None:
        console.say(f"{work.verb} goes on: esc cancels it", "muted", "∅")
    else:
        console.operator.run(_write(console, name, export), "write")


async def _write(console: Console, name: str, export: Export) -> None:
    work = console.operator.work
    assert work is not None  # noqa: S101 - run() made it
    work.total = export.count
    try:
        with new_file(name) as (path, file):
            sheet = Sheet(file, work)
            await export.fill(sheet)
            if sheet.is_dropped:
                raise Dropped
    except Dropped:
        console.say("cancelled: nothing was written", "muted", "")
        return
    except OSError as error:
        is_taken = isinstance(error, FileExistsError)
        told = f"{error.filename or name}{' ' if is_taken else ': '}{error.strerror or error}"
        console.say(told, *(("warn", "▲") if is_taken else ("bad", "✗")))
        return
    console.say(f"{counted(work.done, 'row')} written to {path}", "ok", "✓")


def ask(console: Console, tab: str, export: Export) -> None:
    """Asks where to write what a tab lists."""
    offered = f"qdeck-{tab}-{time.strftime('%Y%m%d-%H%M%S')}.jsonl"

    def answered(path: str | None) -> None:
        if path:
            write(console, path, export)

    console.ask(PathScreen(console, offered, export.words), answered)


class PathScreen(Dialog[str | None]):
    """Asks for the name of a file."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "cancel")]

    def __init__(self, console: Session, offered: str, rows: str) -> None:
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
