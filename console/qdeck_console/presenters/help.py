"""All keys as columns of groups, with the reason of each that cannot act now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck_console.actions import ACTIONS, GROUPS, Action, places
from qdeck_console.format import Line, fit, length
from qdeck_console.text import cut_end, width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_KEYS: Final = 10
_GAP: Final = 4
SIGNS: Final = (
    ("✗ ▲ • ║", "fail, watch, fine, pause"),
    ("▌ ◆", "cursor, marked"),
    ("· –", "zero, not known here"),
    ("≥ ~ …", "at least, about, not read yet"),
    ("∅", "not now, and why"),
)


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that belong together: of each its names, what it does, and why it cannot act now."""

    head: str
    rows: tuple[tuple[str, str, str], ...]

    @property
    def reason(self) -> str:
        """The reason when it is one for all of them."""
        reasons = {why for _, _, why in self.rows}
        return reasons.pop() if len(reasons) == 1 else ""


def groups(scope: str, why_not: Callable[[str], str], tabs: str) -> list[Group]:
    """Every action of the table: those of the screen first, those of other screens with where they work."""
    here = {"list", scope, "app"}
    found = []
    for group in GROUPS:
        rows = [_row(action, here, why_not) for action in ACTIONS if action.group == group and places(action)]
        rows.sort(key=lambda row: row[2].startswith("on "))
        if group == "everywhere":
            rows.insert(0, (tabs, "the screens", ""))
        if rows:
            found.append(Group(group, tuple(rows)))
    return [*found, Group("signs", tuple((sign, words, "") for sign, words in SIGNS))]


def _row(action: Action, here: set[str], why_not: Callable[[str], str]) -> tuple[str, str, str]:
    if not here & set(action.scopes):
        return action.key_names, action.verb, f"on {places(action)}"
    return action.key_names, action.help, why_not(action.id)


def columns(found: Sequence[Group], cells: int, count: int) -> list[Line]:
    """The groups in so many columns of about the same height."""
    wide = (cells - _GAP * (count - 1)) // count
    blocks = [_block(group, wide) for group in found]
    most = -(-sum(len(block) for block in blocks) // count)
    sides: list[list[Line]] = [[]]
    for block in blocks:
        if sides[-1] and len(sides) < count and len(sides[-1]) + len(block) // 2 > most:
            sides.append([])
        sides[-1] += block
    height = max(len(side) for side in sides)
    lines: list[Line] = []
    for at in range(height):
        line: Line = ()
        for number, side in enumerate(sides):
            line = (*line, (" " * _GAP * (number > 0), "text"), *fit(side[at] if at < len(side) else (), wide))
        lines.append(line)
    while lines and not any(text.strip() for text, _ in lines[-1]):
        lines.pop()
    return lines


def _block(group: Group, wide: int) -> list[Line]:
    reason = group.reason
    head: Line = ((group.head, "muted bold"),) + (((f"  ∅ {cut_end(reason, 24)}", "faint"),) if reason else ())
    rule = wide - length(head) - 1
    lines: list[Line] = [(*head, (" ", "text"), ("─" * max(0, rule), "line"))]
    for keys, words, why in group.rows:
        shown = f"∅ {why}" if why and why != reason else ""
        room = wide - _KEYS - 1
        told = cut_end(shown, max(13, room - width(words) - 1)) if shown else ""
        left = room - (width(told) + 1 if told else 0)
        names = fit([(cut_end(keys, _KEYS), "faint" if why else "accent bold")], _KEYS)
        line: Line = (*names, (" ", "text"), *fit([(cut_end(words, left), "faint" if why else "text")], left))
        lines.append((*line, (f" {told}", "faint")) if told else line)
    return [*lines, ()]
