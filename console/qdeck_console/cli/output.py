"""Output of the commands: JSON for programs, aligned columns for people, messages on stderr.

Control characters in data are written out visibly, in JSON as escapes.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import time
import unicodedata
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from qdeck.admin import escaped_json, mask_text
from qdeck_console.cli.columns import LOOKAHEAD, TextCell, TextColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from qdeck.admin import Skip, Status

RowT = TypeVar("RowT")
_UNREAD_LINES: Final = 20
_UNREAD_CHARS: Final = 400
_SKIP_LINES: Final = 20
_WIDEST: Final = 200  # cells of a column: a longer id moves the rest of its own row
_SKIP_NAMES: Final = 3  # of those that have one reason


def safe(value: object) -> str:
    """Return a value on one line, without control characters."""
    text = value if isinstance(value, str) else str(value)
    if text.isascii() and text.isprintable():
        return text
    from qdeck_console.visible import safe_text

    return safe_text(text)


def note(message: str) -> None:
    """Write a line to stderr."""
    # A message can hold what was typed or what a server sent, such as a URL with its password.
    shown = "\n".join(map(safe, mask_text(message).splitlines()))
    with contextlib.suppress(BrokenPipeError):
        click.echo(_encodable(shown, sys.stderr), err=True)


def note_once(message: str) -> None:
    """Write a line to stderr, once for a command."""
    noted: set[str] = click.get_current_context().meta.setdefault("qdeck.noted", set())
    if message not in noted:
        noted.add(message)
        note(message)


def note_unread(unread: Sequence[str]) -> int:
    """Write a line to stderr for each of the first queues that a list left out; return the exit code."""
    for why in unread[:_UNREAD_LINES]:
        note(f"qdeck: {' '.join(why.split())[:_UNREAD_CHARS]}")
    if len(unread) > _UNREAD_LINES:
        note(f"qdeck: {len(unread) - _UNREAD_LINES:,} more queues cannot be read; qdeck health lists them")
    return 1 if unread else 0


def note_skips(skips: Sequence[Skip], count: int, shared: Collection[str] = ()) -> None:
    """Write a line to stderr for each of the first skipped jobs, queues or keys; for many with one reason one line."""
    told = 0
    for same in list(_by_reason(skips))[:_SKIP_LINES]:
        if len(same) > _SKIP_NAMES:
            names = ", ".join(one.id for one in same[:_SKIP_NAMES])
            note(f"qdeck: skipped {len(same):,} jobs ({names}, …): {same[0].sentence}")
        else:
            note(f"qdeck: {same[0].notice(shared)}")
        told += len(same)
    if count > told:
        note(f"qdeck: {count - told:,} more are skipped")


def _by_reason(skips: Sequence[Skip]) -> Iterator[list[Skip]]:
    """Yield those with one reason together, where the reason is a sentence about any of them; the others one by one."""
    from qdeck.admin import SkipCode

    found: dict[object, list[Skip]] = {}
    for number, skip in enumerate(skips):
        one = skip.id and skip.sentence == skip.why and skip.code is not SkipCode.NOT_FOUND
        found.setdefault((skip.ref, skip.code, skip.data) if one else number, []).append(skip)
    for same in found.values():
        yield from [same] if len(same) > _SKIP_NAMES else ([skip] for skip in same)


def line(text: str = "") -> None:
    """Write a line to stdout. Its parts must be safe."""
    click.echo(_encodable(text, sys.stdout))


def _encodable(text: str, stream: Any) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def dumps(value: object) -> str:
    """Return JSON without control characters."""
    return escaped_json(json.dumps(value, ensure_ascii=False, separators=(", ", ": "), default=_default))


def _default(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)


def write_json(value: object) -> None:
    """Write one JSON document to stdout, always in UTF-8."""
    write_text(dumps(value) + "\n")


def write_text(text: str) -> None:
    """Write text to stdout as it is, always in UTF-8."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
    else:
        buffer.write(text.encode())


class JsonList:
    """A JSON array that is written entry by entry: a million jobs take no memory."""

    def __init__(self) -> None:
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            write_text("\n]\n" if self._count else "[]\n")

    def add(self, value: object) -> None:
        """Write one entry."""
        write_text((",\n" if self._count else "[\n") + dumps(value))
        self._count += 1


def age(value: float | None) -> str:
    """Return an age in seconds for people, in two units; `-` for none."""
    from qdeck.admin import duration

    return "-" if value is None else duration(1000 * value)


def number(value: float | None) -> str:
    """Return a number for people; `-` for an unknown one."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def on_terminal() -> bool:
    """Return whether people read stdout: then tables fit its width, have colours, and begin with the worst rows."""
    return sys.stdout.isatty()


def status_role(status: Status | None) -> str:
    """Return the role of what has a status, the same as in the console; none where nothing is drawn."""
    if status is None or not on_terminal():
        return ""
    from qdeck_console.queue_findings import Severity

    return "ok" if not status.exit_code else Severity.of(status).role


def worst_first(rows: Sequence[RowT], rank: Callable[[RowT], Any]) -> Sequence[RowT]:
    """Return the rows of a terminal by their rank, the lowest first; for programs the order stays."""
    return sorted(rows, key=rank) if on_terminal() else rows


def say(*pieces: tuple[str, str], indent: int = 0, hang: int = 0) -> None:
    """Write a sentence of texts with their roles; on a terminal it is wrapped at words, `hang` cells further in."""
    shown = [(safe(text), role) for text, role in pieces]
    if not on_terminal():
        line(" " * indent + "".join(text for text, _ in shown))
        return
    from qdeck_console.cli import drawing

    drawing.draw(drawing.sentence_lines(shown, indent, hang))


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def moment(ms: int | None, zone: str = "") -> TextCell:
    """Return a time; on a terminal how long ago it was or in how long it will be, with the local time of day."""
    from qdeck.admin import duration, local_time

    text = local_time(ms, zone)
    if ms is None or text == "-" or not on_terminal():
        return TextCell(text)
    from qdeck_console.format import clock

    left = ms - 1000 * time.time()
    return TextCell(text, drawn=f"{f'in {duration(left)}' if left > 0 else f'{duration(-left)} ago'}, {clock(ms)}")


def table(columns: Sequence[TextColumn], rows: Iterable[Sequence[TextCell | str]]) -> int:
    """Write rows in columns as they come; return how many there were."""
    count = 0

    def cells() -> Iterator[list[TextCell]]:
        nonlocal count
        for row in rows:
            count += 1
            yield [_cell(column, value) for column, value in zip(columns, row, strict=True)]

    if on_terminal():
        from qdeck_console.cli import drawing

        drawing.draw(drawing.table_lines(columns, cells()))
        return count
    items = ([_cut(cell.text, column.most) for column, cell in zip(columns, row, strict=True)] for row in cells())
    first = list(islice(items, LOOKAHEAD))
    widths = [max([_width(c.title), *(min(_width(row[i]), _WIDEST) for row in first)]) for i, c in enumerate(columns)]
    if first:
        line(_aligned(columns, widths, [column.title for column in columns]))
    for row in chain(first, items):
        line(_aligned(columns, widths, row))
    return count


def _cell(column: TextColumn, value: TextCell | str) -> TextCell:
    cell = TextCell(value) if isinstance(value, str) else value
    shown = safe(cell.text)
    drawn = shown if cell.drawn is None else safe(cell.drawn)
    return cell._replace(text=shown, drawn=drawn if column.wraps else _cut(drawn, column.most))


def _cut(text: str, most: int | None) -> str:
    return text if most is None or _width(text) <= most else text[: most - 1] + "…"


def _aligned(columns: Sequence[TextColumn], widths: Sequence[int], row: Sequence[str]) -> str:
    padded = []
    for column, width, cell in zip(columns, widths, row, strict=True):
        gap = " " * max(0, width - _width(cell))
        padded.append(gap + cell if column.right else cell + gap)
    return "  ".join(padded).rstrip()


def write_with_entries(facts: dict[str, Any], entries: Iterable[Any]) -> None:
    """Write one document whose entries come last, one by one: a plan can have more entries than fit in memory."""
    write_text(dumps(facts)[:-1] + ', "entries": ')
    with JsonList() as out:
        for entry in entries:
            out.add(entry)
    write_text("}\n")
