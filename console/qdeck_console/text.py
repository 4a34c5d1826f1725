"""Text in cells of a terminal: its width, cuts and lines."""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len, chop_cells

from qdeck_console.visible import safe_text

__all__ = ["cut_end", "cut_id", "cut_middle", "plain_signs", "safe_text", "width", "wrap"]

_PLAIN: Final = str.maketrans(
    "✗▲•✓║▸▾◇◦◁◆▌–∅●→■□‹›━╸─│┤╌▁▂▃▄▅▆▇█×↓↑←≥≤·…“”„«»�◌",
    'x!.+=>v?o<*|-#@>xo<>=--||-_..-=+*#xv^<><0."""""?o',
)


def plain_signs(text: str) -> str:
    """Our own signs in ASCII, cell for cell, for terminals that have no others or draw some of them two cells wide."""
    if text.isascii():
        return text
    if "…" in text and len(text) > 1:
        text = _CUT.sub("..", text)
    if "·" in text and len(text) > 1:
        text = text.replace(" · ", " - ")
    return text.replace("≥ ", ">=").replace("≤ ", "<=").translate(_PLAIN)


_CUT: Final = re.compile("[ -~]…")


def width(text: str) -> int:
    """Cells that the text takes."""
    return len(text) if text.isascii() else cell_len(text)


def cut_end(text: str, cells: int) -> str:
    """The text in at most `cells` cells; a cut end is shown by `…`."""
    if width(text) <= cells:
        return text
    return _first(text, cells - 1) + "…" if cells > 0 else ""


_END: Final = 6  # cells


def cut_middle(text: str, cells: int) -> str:
    """The text in at most `cells` cells, cut in its middle: the ends of ids and names tell them apart."""
    if width(text) <= cells:
        return text
    tail = min(_END, (cells - 1) // 2)
    if tail <= 0:
        return cut_end(text, cells)
    return _first(text, cells - 1 - tail) + "…" + _last(text, tail)


_OWN_ID: Final = re.compile(r"[0-9a-f]{13}[0-9a-z]{7}")


def cut_id(text: str, cells: int) -> str:
    """An id in at most `cells` cells. Our own begin with their time and end with their maker: the time tells them
    apart, so they are cut at the end; others are cut in the middle.
    """
    text = safe_text(text, limit=200)
    return cut_end(text, cells) if cells >= 12 and _OWN_ID.fullmatch(text) else cut_middle(text, cells)


def wrap(text: str, cells: int, *, most: int) -> list[str]:
    """The text broken at blanks into at most `most` lines; the last one is cut with `…` when there is more."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        lines += [paragraph] if width(paragraph) <= cells else _broken(paragraph, cells)
        if len(lines) > most:
            return [*lines[: most - 1], cut_end(lines[most - 1] + " …", cells)]
    return lines


def _broken(paragraph: str, cells: int) -> list[str]:
    """One long line as several; what follows the first is indented as it is, if there is room for that."""
    bare = paragraph.lstrip(" ")
    indent = " " * min(len(paragraph) - len(bare), cells // 3)
    lines, line = [], indent
    for word in bare.split(" "):
        joined = line + word if line == indent else f"{line} {word}"
        if width(joined) <= cells:
            line = joined
            continue
        if line != indent and width(indent + word) <= cells:
            lines.append(line)
            line = indent + word
            continue
        rest = joined
        while width(rest) > cells:
            head = _first(rest, cells)
            lines.append(head)
            rest = indent + rest[len(head) :]
        line = rest
    lines.append(line)
    return lines


def _first(text: str, cells: int) -> str:
    if cells <= 0:
        return ""
    return text[:cells] if text.isascii() else chop_cells(text, cells)[0]


def _last(text: str, cells: int) -> str:
    if text.isascii():
        return text[-cells:]
    at = len(text)
    while at and width(text[at - 1 :]) <= cells:
        at -= 1
    return text[at:]
