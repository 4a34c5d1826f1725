"""Lines turned into what Textual draws: the last gate before the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.strip import Strip

from qdeck.admin import HIDDEN
from qdeck_console.format import Line, Piece, fit
from qdeck_console.text import plain_signs, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck_console.theme import Painter


class Whole(Strip):
    """A strip that is not garbage in a circle as soon as it was drawn.

    Textual divides each line that it draws, and a strip notes the outcome: of a line that fills its widget itself.
    Hundreds of lines are drawn a second, and circles are only looked for now and then (`startup.py`).
    """

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        """As any strip, but what is left whole is not noted."""
        cuts = list(cuts)
        return [self] if cuts == [self.cell_length] else super().divide(cuts)


def whole(strips: Sequence[Strip]) -> list[Strip]:
    """Return what a widget hands to Textual's compositor."""
    return [Whole(list(strip), strip.cell_length) for strip in strips]


def strip_of(line: Sequence[Piece], cells: int, painter: Painter, ground: str = "ground") -> Strip:
    """A line as Textual draws it, in exactly `cells` cells.

    The last gate before the terminal: whatever a screen forgot to clean is cleaned here.
    """
    texts: list[str] = []
    roles: list[str] = []
    for text, role in fit(line, cells):
        if not text.isprintable() or (not text.isascii() and HIDDEN.search(text) is not None):
            text = safe_text(text)
        if painter.ascii:
            text = plain_signs(text)
        if roles and roles[-1] == role:
            texts[-1] += text
        else:
            texts.append(text)
            roles.append(role)
    segments = [Segment(text, painter.style(role, ground)) for text, role in zip(texts, roles, strict=True)]
    taken = sum(map(width, texts))
    strip = Strip(segments, taken)
    return strip if taken == cells else strip.adjust_cell_length(cells, painter.style("text", ground))


def marked(line: Sequence[Piece]) -> Line:
    """A row with the sign of a mark in the place of its state's."""
    return (("  ", "text"), ("◆", "accent bold"), *without_margin(line, 3))


def without_margin(line: Sequence[Piece], left: int = 2) -> list[Piece]:
    """A row without its first cells: the margin and the place of the cursor's bar."""
    out: list[Piece] = []
    for text, role in line:
        if left and len(text) <= left:
            left -= len(text)
            continue
        out.append((text[left:], role))
        left = 0
    return out
