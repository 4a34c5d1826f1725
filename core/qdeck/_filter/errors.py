"""How a wrong filter is reported: what, where, and how to put it right."""

from __future__ import annotations

import unicodedata

from qdeck._errors import InvalidFilter
from qdeck._hidden_characters import is_shown


def wrong(message: str, text: str, position: int, hint: str) -> InvalidFilter:
    """Return the error for `text` at `position`; the place is in the message too, for logs that show nothing else."""
    place = "at the end" if position >= len(text) else f"at character {position + 1}"
    return InvalidFilter(f"{message}, {place}", position=position, hint=hint)


def show(value: str, limit: int = 60) -> str:
    """Return a value as it stands in a message: quoted, printable and short."""
    return repr(value if len(value) <= limit else value[: limit - 1] + "…")


def explain(text: str, error: InvalidFilter, *, width: int = 80) -> str:
    """Return the error as lines for a terminal: message, the filter with a caret under the place, and the remedy."""
    start = max(0, min(error.position - width * 2 // 3, len(text) - width))
    window = text[start : start + width]
    before = "…" if start else ""
    after = "…" if start + width < len(text) else ""
    shown = "".join(_printable(character) for character in window)
    columns = len(before) + sum(_columns(character) for character in shown[: error.position - start])
    lines = [str(error), f"  {before}{shown}{after}", f"  {' ' * columns}^"]
    return "\n".join([*lines, error.hint] if error.hint else lines)


def _printable(character: str) -> str:
    # One for one, so that the caret keeps its place and no control character reaches the terminal.
    return " " if character.isspace() else character if is_shown(character) else "�"


def _columns(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
