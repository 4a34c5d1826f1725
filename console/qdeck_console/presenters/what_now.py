"""What to do about a problem: the advice, and the command that `y` copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck_console.presenters.line_parts import section
from qdeck_console.text import safe_text, wrap

if TYPE_CHECKING:
    from qdeck_console.format import Line


def block(hint: str, command: str, cells: int, *, copies: bool = True) -> list[Line]:
    """Return the lines below the head `what now`, if there is advice. `copies`: here `y` copies the command."""
    if not hint and not command:
        return []
    lines: list[Line] = [section("what now", "", "muted", cells, indent=0)]
    lines += [((part, "text"),) for part in wrap(safe_text(hint, limit=300), cells, most=3)]
    lines += [((part, "strong bold"),) for part in wrap(safe_text(command, limit=300), cells, most=3) if command]
    return [*lines, (("y", "accent bold"), (" copies it", "muted"))] if command and copies else lines
