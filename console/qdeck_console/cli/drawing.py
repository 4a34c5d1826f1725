"""Tables and sentences on a terminal, drawn with rich: in its width, wrapped at words, in colour where something is
wrong. Imported only where stdout is a terminal.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections import defaultdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from qdeck_console.cli.columns import LOOKAHEAD
from qdeck_console.format import fit, length
from qdeck_console.terminal import wants_ascii, wants_no_colour
from qdeck_console.text import plain_signs, width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qdeck_console.cli.columns import TextCell, TextColumn
    from qdeck_console.format import Line, Piece

_LOOKS: Final = {"bad": "bold red", "warn": "yellow", "ok": "green", "faint": "dim"}
_STYLES: Final = defaultdict(Style, {role: Style.parse(look) for role, look in _LOOKS.items()})
_GAP: Final = 2
_BESIDE: Final = 26  # cells that a text needs beside the other columns; with fewer it has lines of its own
_LONGEST: Final = 60  # cells of a word that a text is not broken in
_NARROWEST: Final = 12  # a name that is folded
_MOST_LINES: Final = 12  # of one text
_NOTHING: Final = frozenset({"0", "-"})
_kept: list[list[Line]] = []


def room() -> int:
    """Return the width of the terminal."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def console(*, err: bool = False) -> Console:
    """Return what draws on stdout or stderr, in the colours that were asked for."""
    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    is_plain = wants_no_colour() or os.environ.get("TERM", "") in {"", "dumb", "unknown"}
    return Console(
        file=stream, force_terminal=True, color_system=None if is_plain else "standard", width=room(),
        highlight=False, markup=False, emoji=False, soft_wrap=True,
    )  # fmt: skip


def text_of(line: Line) -> Text:
    """Return a line as rich draws it. Pieces are text and never markup."""
    sign = plain_signs if wants_ascii() else str
    return Text.assemble(*((sign(text), _STYLES[role]) for text, role in line))


def draw(lines: Iterable[Line]) -> None:
    """Write lines as they come, or keep them for a frame."""
    if _kept:
        _kept[-1] += lines
        return
    out = console()
    system = None if out.color_system is None else ColorSystem.STANDARD
    sign = plain_signs if wants_ascii() else str
    for line in lines:  # styled piece by piece: printing a Text takes ten times as long, and lists can be long
        shown = (_STYLES[role].render(sign(text), color_system=system) for text, role in line)
        out.file.write(f"{''.join(shown)}\n")
    out.file.flush()


@contextlib.contextmanager
def keeping() -> Iterator[list[Line]]:
    """Keep the lines that are drawn meanwhile."""
    lines: list[Line] = []
    _kept.append(lines)
    try:
        yield lines
    finally:
        _kept.pop()


def sentence_lines(pieces: Sequence[Piece], indent: int, hang: int = 0) -> Iterator[Line]:
    """Yield a sentence, indented; a long last piece is wrapped at words, its further lines `hang` cells further in."""
    *before, (text, role) = pieces
    cells = room() - indent - max(length(before), hang)
    first, *more = wrap(text, max(_NARROWEST, cells), most=_MOST_LINES)
    yield (" " * indent, ""), *before, (first, role)
    for line in more:
        yield (" " * (indent + hang), ""), (line, role)


def table_lines(columns: Sequence[TextColumn], rows: Iterable[Sequence[TextCell]]) -> Iterator[Line]:
    """Yield the head and the rows of a table as they come."""
    items = iter(rows)
    first = list(islice(items, LOOKAHEAD))
    if not first:
        return
    is_whole = len(first) < LOOKAHEAD
    used = [at for at, _ in enumerate(columns) if not is_whole or any(_shown(row[at]) for row in first)]
    layout = _Layout([_measured(columns[at], at, [_shown(row[at]) for row in first]) for at in used])
    yield layout.head()
    for row in chain(first, items):
        yield from layout.row(row)


def _shown(cell: TextCell) -> str:
    return cell.text if cell.drawn is None else cell.drawn


class _Column(NamedTuple):
    """A column with its place in a row, its width, and the least width of a text: it has room for its longest word."""

    at: int
    column: TextColumn
    cells: int
    least: int
    folds: bool  # otherwise a longer value moves the rest of its row


def _measured(column: TextColumn, at: int, texts: Sequence[str]) -> _Column:
    cells = max(width(column.title), *map(width, texts))
    longest = max((width(word) for text in texts for word in text.split(" ")), default=0) if column.wraps else 0
    least = min(cells, max(_BESIDE, min(longest, _LONGEST))) if column.wraps else cells
    return _Column(at, column, cells, least, column.wraps)


class _Layout:
    """Which columns fit, how wide they are, and which texts have lines of their own below the row."""

    def __init__(self, found: Sequence[_Column]) -> None:
        self.beside, self.below = list(found), [one for one in found if one.column.wraps and not one.column.drop]
        if self._drop():
            self.below = []
            self._spread()
            return
        self.beside = [one for one in found if not one.column.wraps]
        if not self._drop():
            self._fold()

    def _drop(self) -> bool:
        """Leave columns out until the rest fits, the least important one first; return whether it does."""
        while self._needed() > room():
            least = max(self.beside, key=lambda one: one.column.drop)
            if not least.column.drop:
                return False
            self.beside.remove(least)
        return True

    def _needed(self) -> int:
        return sum(one.least for one in self.beside) + _GAP * (len(self.beside) - 1)

    def _spread(self) -> None:
        """Give the texts what the others leave, the shortest one first."""
        left = room() - self._needed()
        for one in sorted((one for one in self.beside if one.column.wraps), key=lambda one: one.cells):
            given = min(one.cells, one.least + left)
            left -= given - one.least
            self._set(one, given)

    def _fold(self) -> None:
        """Fold the widest names until the rest fits; ids stay whole."""
        while self._needed() > room():
            names = [one for one in self.beside if one.column.most is not None and not one.column.right]
            widest = max(names, key=lambda one: one.cells, default=None)
            if widest is None or widest.cells <= _NARROWEST:
                return
            self._set(widest, widest.cells - 1)

    def _set(self, wanted: _Column, cells: int) -> None:
        self.beside[self.beside.index(wanted)] = wanted._replace(cells=cells, least=cells, folds=True)

    def head(self) -> Line:
        """Return the titles."""
        return self._line([(one.column.title, "faint") for one in self.beside])

    def row(self, row: Sequence[TextCell]) -> Iterator[Line]:
        """Yield the lines of a row."""
        folded = [_folded(_shown(row[one.at]), one) for one in self.beside]
        for number in range(max(map(len, folded), default=0)):
            yield self._line([
                (lines[number] if number < len(lines) else "", row[one.at].role or _role(_shown(row[one.at])))
                for lines, one in zip(folded, self.beside, strict=True)
            ])  # fmt: skip
        for one in self.below:
            if shown := _shown(row[one.at]):
                yield from sentence_lines([(shown, row[one.at].role)], _GAP)

    def _line(self, cells: Sequence[Piece]) -> Line:
        pieces: list[Piece] = []
        for (text, role), one in zip(cells, self.beside, strict=True):
            pieces += [(" " * _GAP, "")] if pieces else []
            pieces += (
                [(text, role)] if width(text) > one.cells else fit([(text, role)], one.cells, right=one.column.right)
            )
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        return tuple(pieces)


def _role(text: str) -> str:
    return "faint" if text in _NOTHING else ""


def _folded(text: str, one: _Column) -> list[str]:
    if not one.folds or width(text) <= one.cells:
        return [text]
    if one.column.wraps or " " in text:
        return wrap(text, one.cells, most=_MOST_LINES)
    lines, line = [], ""
    for part in text.replace(":", ":\0").split("\0"):  # a name is folded between its parts
        if line and width(line + part) > one.cells:
            lines.append(line)
            line = ""
        line += part
    return [piece for name in (*lines, line) for piece in wrap(name, one.cells, most=_MOST_LINES)]
