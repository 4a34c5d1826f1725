"""The three questions of an operator and their answers, in a line or in three."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import Status
from qdeck_console import format as fmt
from qdeck_console.text import cut_end, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import Answer
    from qdeck_console.format import Line, Piece

_LOOKS: Final[Mapping[Status | None, tuple[str, str]]] = {
    Status.UNHEALTHY: ("✗", "bad"), Status.DEGRADED: ("▲", "warn"), Status.HEALTHY: ("•", "muted"),
    None: ("∅", "muted"),
}  # fmt: skip
_NAME: Final = 11  # cells of the longest question


def pieces(found: Sequence[Answer]) -> list[Piece]:
    """Return the questions, each with the sign of its answer."""
    out: list[Piece] = []
    for answer in found:
        glyph, role = _LOOKS[answer.status]
        out += [(f"{glyph} {answer.question.value}", role), ("  ", "text")]
    return out


def lines(found: Sequence[Answer], cells: int) -> list[Line]:
    """Return a line for each question: its answer, and the next command where there is room."""
    out: list[Line] = []
    for answer in found:
        glyph, role = _LOOKS[answer.status]
        words, todo = safe_text(answer.text, limit=300), f"  {safe_text(answer.command, limit=200)}"
        room = cells - 4 - _NAME
        head: list[Piece] = [("  ", "text"), (glyph, role), (" ", "text")]
        head += [*fmt.fit([(answer.question.value, "strong bold")], _NAME), (cut_end(words, room), "text")]
        if answer.command and width(words) + width(todo) <= room:
            head.append((todo, "muted"))
        out.append(tuple(head))
    return out
