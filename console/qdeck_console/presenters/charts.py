"""Small charts out of block characters. Each has its last value as a number beside it, drawn by its owner."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from qdeck_console.format import Line, Piece, short_count

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCKS: Final = "▁▂▃▄▅▆▇"  # never the full block: rows would grow together
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_CALM: Final = 0.35
_REACH: Final = 2.0  # how far above the highest value a limit may be to be drawn


def sparkline(values: Sequence[float | None], role: str, *, last_role: str | None = None) -> list[Piece]:
    """One cell a sample, on its own scale from zero; a series that hardly varies is drawn in the middle."""
    known = [value for value in values if value is not None]
    top = max(known, default=0.0)
    low = min(known, default=0.0)
    is_calm = top > 0 and (top - low) / top < _CALM
    pieces: list[Piece] = []
    for at, value in enumerate(values):
        if value is None:
            pieces.append((" ", role))
            continue
        if value <= 0:
            pieces.append(("▁", "line"))
            continue
        level = (3 + round((value - (top + low) / 2) / top * 3)) if is_calm else int(value / top * 6.999)
        last = at == len(values) - 1 and last_role is not None
        pieces.append((_BLOCKS[max(0, min(6, level))], last_role or role if last else role))
    return pieces


def area(values: Sequence[float | None], height: int, *, limit: float | None = None, least: float = 10.0) -> list[Line]:
    """An area chart with its scale at the left: dim at the foot, bright at the top. A limit is a line through its empty
    cells, drawn once the values came near it: far above them it would press them flat.
    """
    top = max((value for value in values if value is not None), default=0.0)
    limit = limit if limit is not None and 0 < limit <= _REACH * top else None
    scale = _nice(max(top, limit or 0.0), least)
    at_limit = None if limit is None else min(height - 1, int(limit / scale * height))
    lines: list[Line] = []
    for row in range(height):
        floor = height - 1 - row
        label = short_count(int(scale)) if row == 0 else "0" if floor == 0 else ""
        if at_limit == floor and limit is not None:
            label = short_count(int(limit))
        role = f"accent@{100 * floor // max(1, height - 1)}"
        cells = "".join(_area_cell(value, scale, height, floor) for value in values)
        marked = at_limit == floor
        drawn = _with_limit(cells, role) if marked else [(cells, role)]
        lines.append(((label.rjust(4), "warn" if marked else "faint"), ("┤" if label else "│", "line"), *drawn))
    return lines


def _with_limit(cells: str, role: str) -> list[Piece]:
    """A row of the chart with the limit where nothing else is."""
    pieces: list[Piece] = []
    for empty, run in groupby(cells, key=lambda cell: cell == " "):
        text = "".join(run)
        pieces.append(("╌" * len(text), "warn") if empty else (text, role))
    return pieces


def _area_cell(value: float | None, scale: float, height: int, floor: int) -> str:
    if value is None:
        return " "
    filled = value / scale * height * 8 - floor * 8
    if floor == 0 and value > 0:
        filled = max(filled, 1)
    return _EIGHTHS[max(0, min(8, int(filled)))]


def _nice(top: float, least: float) -> float:
    """The next round number: 1, 2, 3 or 5 times a power of ten, and at least `least`."""
    step = 1.0
    while True:
        for factor in (1, 2, 3, 5):
            if step * factor >= max(top, least):
                return step * factor
        step *= 10


def thin_bar(share: float, cells: int, role: str) -> list[Piece]:
    """A thin bar on its track; nothing shows the empty track, half a cell is the smallest part."""
    halves = round(max(0.0, min(1.0, share)) * cells * 2)
    full, half = divmod(halves, 2)
    return [("━" * full, role), ("╸" * half, role), ("━" * (cells - full - half), "line")]
