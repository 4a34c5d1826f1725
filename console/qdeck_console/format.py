"""Numbers, times and names as the console draws them, in few cells.

A piece is a text with its role (`muted`, `bad bold`). The theme turns roles into colours.
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

# The core has these, so that commands, screens and messages write them alike.
counted: Final = admin.counted
span: Final = admin.duration
ZERO: Final = "·"
NONE: Final = "–"


def count(number: int | None, cells: int = 7) -> str:
    """Return a count in at most 7 cells: grouped, from a million on in millions, rounded down.

    In fewer cells a count that does not fit is compact, because a cut number is another number.
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
    """Return a count in at most 5 cells, rounded down: 9,960 is `9.9k`, never `10k`."""
    if number < 1000:
        return str(number)
    for unit, size in (("k", 10**3), ("M", 10**6), ("G", 10**9)):
        if number < 1000 * size or unit == "G":
            tenths = number * 10 // size
            return f"{tenths // 10}.{tenths % 10}{unit}" if tenths < 100 else f"{tenths // 10}{unit}"
    return ""


def rate(per_second: float | None, cells: int = 7) -> str:
    """Return a rate per second: `·` where it rounds to zero, compact where it does not fit."""
    if per_second is None:
        return NONE
    if abs(per_second) < 0.05:
        return ZERO
    full = f"{per_second:.1f}" if abs(per_second) < 999.95 else f"{per_second:,.0f}"
    return full if len(full) <= cells else short_count(int(per_second))


def span_s(seconds: float) -> str:
    """Return a duration given in seconds."""
    return span(1000 * seconds)


def span_pieces(ms: float | None, role: str = "text", *, fine: bool = False) -> list[Piece]:
    """Return a duration whose digits have the role of the value and whose units are muted."""
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
    """Return a local time of day, with the date where it is another day."""
    then = time.localtime(epoch_ms / 1000)
    if time.strftime("%Y%j", then) == time.strftime("%Y%j"):
        return time.strftime("%H:%M:%S", then)
    return time.strftime("%d %b %H:%M", then)


def minute(epoch_ms: float) -> str:
    """Return a local time of day to the minute, for the axis of a chart."""
    return time.strftime("%H:%M", time.localtime(epoch_ms / 1000))


def size(number: int | None) -> list[Piece]:
    """Return bytes in three digits at most, with a muted unit."""
    if number is None:
        return [(NONE, "ghost")]
    digits, _, unit = admin.byte_size(number).partition(" ")
    return [(digits, "text"), (f" {unit}", "muted")]


_ARROW: Final = " ▸ "
_SHORT: Final = 2  # cells of a last part that is too short to identify the name
_LEAST_HEAD: Final = 5  # cells of a first part that still distinguish names


def path(parts: Sequence[str], cells: int, role: str) -> list[Piece]:
    """Return a name of several parts; a long one loses its middle parts, then its first ones, then the middle of its
    last part.
    """
    shown = list(parts)

    def excess_of(some: Sequence[str]) -> int:
        return sum(map(width, some)) + len(_ARROW) * (len(some) - 1) - cells

    def excess() -> int:
        return excess_of(shown)

    if excess() > 0 and len(shown) > 2 and width(shown[-1]) <= _SHORT:
        shown = [*shown[:-2], _ARROW.join(shown[-2:])]  # a name that ends in a star differs in the part before it
        if width(shown[0]) + width(shown[-1]) + 2 * len(_ARROW) + 1 > cells:
            room = cells - width(shown[-1]) - len(_ARROW)
            head = f"{shown[0]}…" if width(shown[0]) < room else cut_end(shown[0], room)
            shown = [head if room >= _LEAST_HEAD else "…", shown[-1]]
    if excess() > 0 and len(shown) > 2:
        middle = shown[1:-1]
        while excess() > 0 and middle:
            middle.pop(0)
            shown = [shown[0], "…", *middle, shown[-1]]
    if excess() > 0 and len(parts) > 1 and width(parts[-1]) > _SHORT:
        # Without a sign that parts are missing, it would be the name of another queue.
        ends = [["…", *parts[-count:]] for count in (2, 1) if count < len(parts)]
        shown = next((end for end in ends if excess_of(end) <= 0), shown)
    if excess() > 0:
        room = width(shown[-1]) - excess()
        if room < 8:  # too little to distinguish two names: show the last part alone
            return [(cut_middle(shown[-1], cells), role)]
        shown[-1] = cut_middle(shown[-1], room)
    pieces: list[Piece] = []
    for at, part in enumerate(_ARROW.join(shown).split(_ARROW)):
        if at:
            pieces.append((_ARROW, "ghost"))
        pieces.append((part, "muted" if part == "…" else role))
    return pieces


def length(pieces: Iterable[Piece]) -> int:
    """Return how many cells the pieces take."""
    return sum(width(text) for text, _ in pieces)


def fit(pieces: Iterable[Piece], cells: int, *, right: bool = False) -> list[Piece]:
    """Return the pieces in exactly `cells` cells: padded, or cut with `…` at the end."""
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
            is_cut = cut == "…" and bool(out) and out[-1][0].endswith("…")  # the piece before shows it already
            out.append((" " if is_cut else cut, role))
            break
        out.append((text, role))
        left -= wide
    return out


def cell(text: str, role: str = "text") -> list[Piece]:
    """Return a value of one piece. The signs for nothing are ghosts, whatever the role."""
    return [(text, "ghost" if text in {ZERO, NONE} else role)]
