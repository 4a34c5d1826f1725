"""Numbers, times and names as the console writes them: always the same way, in as few cells as it takes.

A piece is a text with the role it plays (`muted`, `bad bold`); a theme turns roles into colours much later.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from qdeck import admin
from qdeck_console.text import cut_end, cut_middle, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Piece = tuple[str, str]
Line = tuple[Piece, ...]

counted: Final = admin.counted
"""A number of things in words, as the core has it."""
ZERO: Final = "·"
NONE: Final = "–"
_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def count(number: int | None, cells: int = 7) -> str:
    """A count in at most 7 cells: grouped, from a million on in millions, rounded down. Where there are fewer, what
    does not fit is compact: half a number would be read as another one.
    """
    if number is None:
        return NONE
    if number == 0:
        return ZERO
    full = _grouped(number)
    return full if len(full) <= cells else short_count(number)


def _grouped(number: int) -> str:
    if number < 1_000_000:
        return f"{number:,}"
    for unit, size in (("M", 10**6), ("G", 10**9)):
        if number < 1000 * size or unit == "G":
            hundredths = number * 100 // size
            whole, rest = divmod(hundredths, 100)
            return f"{whole}.{rest:02d}{unit}" if whole < 100 else f"{whole:,}{unit}"
    return ""


def short_count(number: int) -> str:
    """A count in at most 5 cells, rounded down: 9,960 is `9.9k`, never `10k`."""
    if number < 1000:
        return str(number)
    for unit, size in (("k", 10**3), ("M", 10**6), ("G", 10**9)):
        if number < 1000 * size or unit == "G":
            tenths = number * 10 // size
            return f"{tenths // 10}.{tenths % 10}{unit}" if tenths < 100 else f"{tenths // 10}{unit}"
    return ""


def rate(per_second: float | None, cells: int = 7) -> str:
    """A rate per second; what rounds to nothing is shown as nothing, what does not fit is compact."""
    if per_second is None:
        return NONE
    if abs(per_second) < 0.05:
        return ZERO
    full = f"{per_second:.1f}" if abs(per_second) < 999.95 else f"{per_second:,.0f}"
    return full if len(full) <= cells else short_count(int(per_second))


def span(ms: float, *, fine: bool = False) -> str:
    """A duration in two units: `38m 12s`, `2h 05m`, `3d 4h`, `16s`; with `fine`, `0.8s` under ten seconds. Of a hundred
    days and more their hours say nothing.
    """
    ms = max(0, int(ms))
    if fine and ms < 10 * _SECOND:
        return f"{ms / _SECOND:.1f}s"
    if ms < _MINUTE:
        return f"{ms // _SECOND}s"
    if ms < _HOUR:
        return f"{ms // _MINUTE}m {ms % _MINUTE // _SECOND:02d}s"
    if ms < _DAY:
        return f"{ms // _HOUR}h {ms % _HOUR // _MINUTE:02d}m"
    days = ms // _DAY
    return f"{days}d {ms % _DAY // _HOUR}h" if days < 100 else f"{days:,}d"


def span_s(seconds: float) -> str:
    """A duration that is given in seconds."""
    return span(_SECOND * seconds)


def span_pieces(ms: float | None, role: str = "text", *, fine: bool = False) -> list[Piece]:
    """A duration whose digits have the role of the value and whose units stay quiet."""
    if ms is None:
        return [(ZERO, "ghost")]
    pieces: list[Piece] = []
    run = ""
    for char in span(ms, fine=fine):
        if char.isalpha():
            pieces += [(run, role), (char, "muted")]
            run = ""
        else:
            run += char
    return [piece for piece in (*pieces, (run, role)) if piece[0]]


def clock(epoch_ms: float) -> str:
    """A time of day; of another day also the date."""
    then = time.localtime(epoch_ms / 1000)
    if time.strftime("%Y%j", then) == time.strftime("%Y%j"):
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%d %b %H:%M", then)


def minute(epoch_ms: float) -> str:
    """A time of day to the minute, for the axis of a chart."""
    return time.strftime("%H:%M", time.localtime(epoch_ms / 1000))


def size(number: int | None) -> list[Piece]:
    """Bytes in three digits at most, with a quiet unit."""
    if number is None:
        return [(NONE, "ghost")]
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 999.5:
            break
        value, unit = value / 1000, larger
    digits = f"{value:.0f}" if unit == "B" or value >= 99.5 else f"{value:.1f}"
    return [(digits, "text"), (f" {unit}", "muted")]


_ARROW: Final = " ▸ "
_SHORT: Final = 2  # cells of a last part that says little by itself


def path(parts: Sequence[str], cells: int, role: str) -> list[Piece]:
    """A name of several parts. Too long, it loses its middle parts first, then the middle of its last part."""
    shown = list(parts)

    def excess() -> int:
        return sum(map(width, shown)) + len(_ARROW) * (len(shown) - 1) - cells

    if excess() > 0 and len(shown) > 2 and width(shown[-1]) <= _SHORT:
        shown = [*shown[:-2], _ARROW.join(shown[-2:])]  # what ends in a star is told apart by the part before it
        if width(shown[0]) + width(shown[-1]) + 2 * len(_ARROW) + 1 > cells:
            shown = ["…", shown[-1]]
    if excess() > 0 and len(shown) > 2:
        middle = shown[1:-1]
        while excess() > 0 and middle:
            middle.pop(0)
            shown = [shown[0], "…", *middle, shown[-1]]
    if excess() > 0:
        room = width(shown[-1]) - excess()
        if room < 8:  # too little to tell two names apart: the last part alone says more
            return [(cut_middle(shown[-1], cells), role)]
        shown[-1] = cut_middle(shown[-1], room)
    pieces: list[Piece] = []
    for at, part in enumerate(_ARROW.join(shown).split(_ARROW)):
        if at:
            pieces.append((_ARROW, "ghost"))
        pieces.append((part, "muted" if part == "…" else role))
    return pieces


def length(pieces: Iterable[Piece]) -> int:
    """Cells that the pieces take."""
    return sum(width(text) for text, _ in pieces)


def fit(pieces: Iterable[Piece], cells: int, *, right: bool = False) -> list[Piece]:
    """The pieces in exactly `cells` cells: padded, or cut with a sign at the end."""
    items = list(pieces)
    left = cells - length(items)
    if left == 0:
        return items
    if left > 0:
        items.insert(0 if right else len(items), (" " * left, "text"))
        return items
    out: list[Piece] = []
    left = cells
    for text, role in items:
        wide = width(text)
        if wide >= left:
            cut = cut_end(text if wide > left else text + "…", left)
            is_told = cut == "…" and bool(out) and out[-1][0].endswith("…")  # that it goes on, by what stands before
            out.append((" " if is_told else cut, role))
            break
        out.append((text, role))
        left -= wide
    return out


def cell(text: str, role: str = "text") -> list[Piece]:
    """A value of one piece; signs for nothing are ghosts, whatever the role."""
    return [(text, "ghost" if text in {ZERO, NONE} else role)]
