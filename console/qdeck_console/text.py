"""Text that came from elsewhere, made fit for a terminal.

Job data reaches the screen through this module only: an escape sequence in an error message could wipe the screen, set
the clipboard or spoof what an operator reads. Markup is not handled here, because no widget receives any.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from rich.cells import cell_len, chop_cells

from qdeck.admin import HIDDEN

LIMIT: Final = 4096
_MARKS_AT_MOST: Final = 2  # on one letter: enough for every living script, too few to draw over other lines
_MANY_MARKS: Final = "\ufffd"
_CARRIER: Final = "\u25cc"  # the dotted circle carries a mark that has no letter
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SELECTORS: Final = (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
"""They change a glyph's width, and terminals disagree to which: one of a character is left out, more hide a text."""


def safe_text(value: str | bytes, *, limit: int = LIMIT, one_line: bool = True) -> str:
    """The text with everything that a terminal could obey, or that could hide text, written out visibly.

    Longer than `limit` characters, it is cut with `…`. Without `one_line`, line ends stay and tabs become blanks.
    """
    if isinstance(value, bytes):
        value = value[: limit * 4 + 4].decode("utf-8", "backslashreplace")
    cut = len(value) > limit
    if cut:
        value = value[:limit]
    if not (value.isascii() and value.isprintable()):
        value = _spelled(value, one_line=one_line)
        cut = cut or len(value) > limit
    return value[: limit - 1] + "…" if cut else value


def _spelled(value: str, *, one_line: bool) -> str:
    if not one_line:
        value = value.replace("\r\n", "\n").expandtabs(4)
    out: list[str] = []
    marks = _MARKS_AT_MOST
    carried = selected = False
    for char in value:
        kind = unicodedata.category(char)
        if carried and not selected and ord(char) in _SELECTORS:
            selected = True
            continue
        if kind in {"Mn", "Me"} and HIDDEN.match(char) is None:
            if not carried:
                out.append(_CARRIER)
                carried, marks = True, 0
            marks += 1
            if marks <= _MARKS_AT_MOST:
                out.append(char)
            elif marks == _MARKS_AT_MOST + 1:
                out.append(_MANY_MARKS)
            continue
        if char == "\n" and not one_line:
            out.append(char)
            carried = selected = False
            continue
        out.append(_visible(char, kind))
        marks, carried, selected = 0, True, ord(char) in _SELECTORS
    return "".join(out)


def _visible(char: str, kind: str) -> str:
    if kind in {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"} or HIDDEN.match(char) is not None:
        short = _SHORT.get(char)
        if short:
            return short
        code = ord(char)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return " " if kind == "Zs" else char


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
