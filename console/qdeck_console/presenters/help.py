"""All keys as columns of groups, with the reason of each that cannot act now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck_console.actions import ACTIONS, GROUPS, Action, places
from qdeck_console.format import Line, fit, length
from qdeck_console.text import cut_end, width, wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_KEYS: Final = 10
_GAP: Final = 4
_ELSEWHERE: Final = "on "  # how the reason of a key begins that works on other screens
_SIGNS: Final = "signs"
SIGNS: Final = (
    ("✗ ▲ • ║", "fail, watch, fine, pause"),
    ("▸ ◦ ◇ ✓", "runs, waits, is blocked, done"),
    ("▌ ◆", "cursor, marked"),
    ("· –", "zero, unknown"),
    ("≥ ~ …", "at least, about, not read yet"),
    ("∅", "disabled, with the reason"),
)


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys that belong together: of each its names, what it does, and why it cannot act now."""

    head: str
    rows: tuple[tuple[str, str, str], ...]

    @property
    def reason(self) -> str:
        """The reason when it is one for all of them."""
        reasons = {why for _, _, why in self.rows}
        return reasons.pop() if len(reasons) == 1 else ""


def groups(scope: str, why_not: Callable[[str], str], tabs: str) -> list[KeyGroup]:
    """Every action of the table: those of the screen first, those of other screens with where they work."""
    here = {"list", scope, "app"}
    found = []
    for group in GROUPS:
        rows = [_row(action, here, why_not) for action in ACTIONS if action.group == group]
        rows.sort(key=lambda row: row[2].startswith(_ELSEWHERE))
        if group == "everywhere":
            rows.insert(0, (tabs, "open a screen", ""))
        if rows:
            found.append(KeyGroup(group, tuple(rows)))
    return [*found, KeyGroup(_SIGNS, tuple((sign, words, "") for sign, words in SIGNS))]


def _row(action: Action, here: set[str], why_not: Callable[[str], str]) -> tuple[str, str, str]:
    if not here & set(action.scopes):
        return action.key_names, action.verb, f"{_ELSEWHERE}{places(action)}"
    return action.key_names, action.help, why_not(action.id)


def columns(found: Sequence[KeyGroup], cells: int, count: int) -> list[Line]:
    """Return the groups in `count` columns of about the same height."""
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


def _block(group: KeyGroup, wide: int) -> list[Line]:
    reason = group.reason
    shown = _short(reason, wide - width(group.head) - 4)
    head: Line = ((group.head, "muted bold"),) + (((f"  {shown}", "faint"),) if shown else ())
    lines: list[Line] = [(*head, (" ", "text"), ("─" * max(0, wide - length(head) - 1), "line"))]
    for keys, words, why in group.rows:
        lines += _row_lines(keys, words, why if why != reason else "", wide, group.head == _SIGNS, off=bool(why))
    return [*lines, ()]


def _row_lines(keys: str, words: str, why: str, wide: int, is_sign: bool, *, off: bool) -> list[Line]:
    """A key, what it does, and at the right why it cannot now; what does not fit goes on in a line below."""
    room = wide - _KEYS - 1
    role = "faint" if off else "text"
    names = wrap(keys, _KEYS, most=2)
    told = _short(why, room) if why else ""
    text = wrap(words, room, most=3)
    if told and width(text[-1]) + width(told) + 1 <= room:
        text[-1] = text[-1] + " " * (room - width(text[-1]) - width(told)) + told
    elif told:
        text.append(" " * (room - width(told)) + told)
    key_role = "faint" if off else "strong bold" if is_sign else "accent bold"
    lines: list[Line] = []
    for at in range(max(len(names), len(text))):
        name = names[at] if at < len(names) else ""
        part = text[at] if at < len(text) else ""
        lines.append((*fit([(name, key_role)], _KEYS), (" ", "text"), *fit([(part, role)], room)))
    return lines


def _short(why: str, room: int) -> str:
    """Return a reason with its sign in `cells` cells; the part behind a colon is cut first."""
    if not why:
        return ""
    told = why if why.startswith(_ELSEWHERE) else f"∅ {why}"
    return told if width(told) <= room else cut_end(told.partition(":")[0], max(0, room))
