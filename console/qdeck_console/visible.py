"""Text that came from elsewhere, made fit for a terminal.

Job data reaches the screen through this module only: an escape sequence in an error message could wipe the screen, set
the clipboard or spoof what an operator reads. Markup is not handled here, because nothing that draws receives any.
Piped output needs this and not the width of characters, so it is apart from what measures them.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from qdeck.admin import HIDDEN

LIMIT: Final = 4096
_MARKS_AT_MOST: Final = 2  # on one letter: enough for every living script, too few to draw over other lines
_MANY_MARKS: Final = "\ufffd"
_CARRIER: Final = "\u25cc"  # the dotted circle carries a mark that has no letter
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SELECTORS: Final = frozenset((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
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
