"""Rows of a terminal and their looks, kept in golden files: one per screen, with a frame for each width.

A row has two lines: its text after `|`, and after `:` how many cells have which look, when that differs from the row
above. The head of the file says what each look is. Nothing here knows what is drawn, or by whom.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rich.segment import Segment
    from rich.style import Style

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_MOST_TOLD: Final = 8


class Run(NamedTuple):
    """Neighbouring cells that look the same."""

    look: str
    cells: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a terminal."""

    text: str
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> Row:
        """Read a row from what Textual draws."""
        parts = [(part.text, look_of(part.style)) for part in segments if not part.control]
        runs = tuple(
            Run(look, sum(cell_len(text) for text, _ in same))
            for look, same in itertools.groupby(parts, key=lambda part: part[1])
        )
        return cls("".join(text for text, _ in parts).rstrip(), tuple(run for run in runs if run.cells))


Frame = tuple[Row, ...]


def look_of(style: Style | None) -> str:
    """Return the colours and the weight of a piece of text in words."""
    if style is None:
        return "plain"
    colours = [colour.get_truecolor().hex if colour else "default" for colour in (style.color, style.bgcolor)]
    flags = [flag for flag in ("bold", "dim", "italic", "underline", "reverse", "strike") if getattr(style, flag)]
    return " ".join((f"{colours[0]} on {colours[1]}", *flags))


class GoldenRows:
    """The frames of one screen, by their size, in one file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._looks: dict[str, str] = {}  # look -> code
        self.frames: dict[str, Frame] = {}
        if file.exists():
            self._read(file.read_text("utf-8"))

    def _read(self, text: str) -> None:
        codes: dict[str, str] = {}
        size, rows = "", list[Row]()
        runs: tuple[Run, ...] = ()
        for line in text.splitlines():
            kind, rest = line[:1], line[1:]
            if kind == "#":
                code, _, look = rest.strip().partition(" ")
                codes[code], self._looks[look] = look, code
            elif kind == "@":
                if rows:
                    self.frames[size] = tuple(rows)
                size, rows = rest.strip(), list[Row]()
            elif kind == "|":
                rows.append(Row(rest, runs))
            elif kind == ":":
                runs = tuple(_run(word, codes) for word in rest.split())
                rows[-1] = Row(rows[-1].text, runs)
        if rows:
            self.frames[size] = tuple(rows)

    def write(self, frames: Mapping[str, Frame]) -> None:
        """Put frames in the place of those of the same sizes. Looks that are known keep their code."""
        self.frames |= frames
        shown = sorted(self.frames.items(), key=lambda item: [int(part) for part in item[0].split("x")])
        body: list[str] = []
        used: set[str] = set()
        for size, frame in shown:
            body.append(f"@ {size}")
            before: tuple[Run, ...] = ()
            for row in frame:
                body.append(f"|{row.text}")
                if row.runs != before:
                    body.append(f": {' '.join(f'{self._code(run.look)}{run.cells}' for run in row.runs)}")
                before = row.runs
                used |= {run.look for run in row.runs}
        heads = [f"# {code} {look}" for look, code in self._looks.items() if look in used]
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text("\n".join([*heads, *body]) + "\n", "utf-8")

    def _code(self, look: str) -> str:
        if look not in self._looks:
            self._looks[look] = next(code for code in _codes() if code not in self._looks.values())
        return self._looks[look]

    def differences(self, frames: Mapping[str, Frame]) -> str:
        """Return what differs in words: the first row of each size with before and after; nothing when all is equal."""
        told = [
            f"{self.file.stem} at {size}, {words}"
            for size, frame in frames.items()
            if (words := _first_difference(self.frames.get(size, ()), frame))
        ]
        more = f"\nand in {len(told) - _MOST_TOLD} more sizes" if len(told) > _MOST_TOLD else ""
        return "\n".join(told[:_MOST_TOLD]) + more


def _codes() -> Iterator[str]:
    for length in itertools.count(1):
        yield from map("".join, itertools.product(_LETTERS, repeat=length))


_CODED: Final = re.compile(r"([a-z]+)(\d+)")


def _run(word: str, codes: Mapping[str, str]) -> Run:
    found = _CODED.fullmatch(word)
    assert found is not None, f"not a run of cells: {word!r}"
    return Run(codes[found[1]], int(found[2]))


def _first_difference(before: Sequence[Row], after: Sequence[Row]) -> str:
    pairs = list(itertools.zip_longest(before, after, fillvalue=Row("", ())))
    different = [number for number, (was, now) in enumerate(pairs) if was != now]
    if not different:
        return ""
    was, now = pairs[different[0]]
    head = f"row {different[0] + 1} ({len(different)} of {len(pairs)} rows differ)"
    if was.text != now.text:
        return f"{head}\n  before |{was.text}\n  after  |{now.text}"
    cell, old, new = next(
        (cell, *looks) for cell, looks in enumerate(zip(_each(was), _each(now), strict=False)) if looks[0] != looks[1]
    )
    return f"{head}\n  text   |{now.text}\n  before cell {cell + 1} is {old}\n  after  cell {cell + 1} is {new}"


def _each(row: Row) -> Iterator[str]:
    for run in row.runs:
        yield from itertools.repeat(run.look, run.cells)
    yield from itertools.repeat("nothing", 1)
