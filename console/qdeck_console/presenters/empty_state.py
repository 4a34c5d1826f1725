"""The text of an empty list: why it is empty, what was searched, and what can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import section
from qdeck_console.text import safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck_console.format import Line

WIDEST: Final = 84


class EmptyState(NamedTuple):
    """Words for an empty list; `ways` are what can be done, each with what it does."""

    title: str
    about: str
    ways: Sequence[tuple[str, str]]


def empty_state_lines(told: EmptyState, cells: int, height: int) -> list[Line]:
    """A block in the upper middle, at the left of it."""
    room = max(20, min(WIDEST, cells - 8))
    blank: list[Line] = [()] if height >= 14 else []
    label = min(room // 2, 2 + max((len(what) for what, _ in told.ways), default=0))
    lines: list[Line] = [((told.title, "strong bold"),)]
    lines += [((part, "muted"),) for part in wrap(safe_text(told.about, limit=400), room, most=4)]
    lines += [*blank, section("what now", "", "muted", room, indent=0)]
    for what, does in told.ways:
        parts = wrap(does, max(12, room - label), most=3)
        lines.append((*fmt.fit([(what, "accent bold")], label), (parts[0], "text")))
        lines += [((" " * label, "text"), (part, "text")) for part in parts[1:]]
    above = max(0, (height - len(lines)) // 3)
    lead = " " * (max(4, (cells - room) // 2) if cells > 100 else 4)
    return [*([()] * above), *(((lead, "text"), *line) if line else () for line in lines)]
