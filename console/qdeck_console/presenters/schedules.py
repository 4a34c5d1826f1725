"""Cron rules as rows: when they come next, how the last turn ended, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck.admin import read_payload
from qdeck_console import format as fmt
from qdeck_console.presenters.parts import LEAD, MARGIN, columns, name_parts, pair, queue_path, section
from qdeck_console.text import cut_end, cut_middle, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import ScheduleRow
    from qdeck_console.format import Line, Piece

# The last ones go first where there is no room.
_COLUMNS: Final = (
    ("next in", 9, True), ("last", 9, True), ("outcome", 12, False), ("missed", 7, True), ("cron", 17, False),
    ("queue", 24, False), ("made", 8, True),
)  # fmt: skip
_SET_OFF: Final = ("outcome", "cron")  # text behind numbers: one blank more keeps them apart
_OUTCOMES: Final = {
    "done": ("✓", "ok"), "dead": ("✗", "bad"), "running": ("▸", "accent"), "cancelled": ("∅", "muted"),
    "ready": ("◦", "muted"), "delayed": ("◦", "muted"), "blocked": ("◇", "muted"),
}  # fmt: skip


def _fitting(cells: int) -> tuple[list[tuple[str, int, bool]], int]:
    kept = list(_COLUMNS)
    while True:
        left = cells - LEAD - MARGIN - sum(width + 1 for _, width, _ in kept)
        if left >= 18 or not kept:
            return kept, max(8, min(left, 60))
        kept.pop()


def head(cells: int) -> Line:
    """The heads of the columns."""
    kept, name = _fitting(cells)
    shown: list[tuple[Sequence[Piece], int, bool]] = [
        ([(" " * (label in _SET_OFF) + label, "faint")], wide, right) for label, wide, right in kept
    ]
    return ((" " * LEAD, "text"), *fmt.fit([("schedule", "faint")], name), *columns(shown))


def state(row: ScheduleRow) -> tuple[str, str, str]:
    """Its sign, its role, and what is wrong with it in words; empty when nothing is."""
    if row.problem:
        return "✗", "bad", f"cannot be read: {row.problem}"
    if not row.enabled:
        return "║", "warn", "paused"
    if row.late_s is not None:
        return "▲", "warn", f"{fmt.span(row.late_s * 1000)} late: no worker and no agent makes its jobs"
    if row.last_outcome == "dead":
        return "✗", "bad", "its last job is a dead letter"
    return "•", "muted", ""


def _outcome(row: ScheduleRow) -> list[Piece]:
    """How its last turn ended: the sign in its colour, and the word."""
    if not row.last_outcome:
        return [(fmt.NONE, "ghost")]
    glyph, role = _OUTCOMES.get(row.last_outcome, ("•", "muted"))
    return [(f"{glyph} {safe_text(row.last_outcome, limit=40)}", role)]


def _span(ms: int | None, role: str) -> list[Piece]:
    """A time until or since; that there is none is no zero."""
    return [(fmt.NONE, "ghost")] if ms is None else fmt.span_pieces(max(0, ms), role)


def _word(row: ScheduleRow) -> str:
    if row.problem:
        return "broken"
    if not row.enabled:
        return "paused"
    return "late" if row.late_s is not None else "on"


def reason(row: ScheduleRow) -> str:
    """What is said below it."""
    return state(row)[2]


def lines(row: ScheduleRow, cells: int, at_cursor: bool, *, now_ms: int, hide: str) -> list[Line]:
    """One schedule; one that is in trouble says why on a second line."""
    glyph, role, why = state(row)
    kept, name = _fitting(cells)
    faint = not row.enabled
    plain = "faint" if faint else "text"
    values: dict[str, list[Piece]] = {
        "next in": _span(None if row.next_ms is None else row.next_ms - now_ms, plain),
        "last": _span(None if row.last_ms is None else now_ms - row.last_ms, plain),
        "outcome": [(" ", "text"), *_outcome(row)],
        "missed": fmt.cell(fmt.count(row.missed), "warn" if row.missed else plain),
        "cron": [(" ", "text"), (cut_end(safe_text(row.cron, limit=80), 16), plain)],
        "queue": queue_path(row.queue, 24, "muted", hide=hide) if row.queue else [(fmt.NONE, "ghost")],
        "made": fmt.cell(fmt.count(row.made), plain),
    }
    strong = "strong bold" if at_cursor or role == "bad" else plain
    shown: list[tuple[Sequence[Piece], int, bool]] = [(values[label], wide, right) for label, wide, right in kept]
    first: Line = (
        ("  ", "text"), (glyph, role), (" ", "text"),
        *fmt.fit([(cut_middle(safe_text(row.name, limit=200), name), strong)], name), *columns(shown),
    )  # fmt: skip
    return [first, ((" " * LEAD, "text"), (cut_end(safe_text(why, limit=200), cells - 6), role))] if why else [first]


def side(row: ScheduleRow, cells: int, *, now_ms: int, hide: str) -> list[Line]:
    """All about one schedule."""
    glyph, role, why = state(row)
    word = f"{glyph} {_word(row)}"
    found: list[Line] = [
        (*fmt.fit([(cut_middle(safe_text(row.name, limit=200), cells - 12), "strong bold")], cells - len(word)),
         (word, f"{role} bold")),
        tuple(queue_path(row.queue, cells, "muted", hide=hide)) if row.queue else (),
        (),
    ]  # fmt: skip
    found += [((part, role),) for part in wrap(safe_text(why, limit=300), cells, most=4)] if why else []
    found += [(), section("turns", "", "muted", cells, indent=0)]
    facts: list[tuple[str, str]] = [
        ("cron", row.cron), ("time zone", row.tz), ("missed turns", _POLICY.get(row.policy, row.policy)),
        ("next", _at(row.next_ms, now_ms, ahead=True)), ("last turn", _at(row.last_ms, now_ms)),
        ("its outcome", row.last_outcome or fmt.NONE), ("missed", f"{row.missed:,}"), ("made", f"{row.made:,}"),
    ]  # fmt: skip
    found += [
        pair(label, [(cut_end(safe_text(text, limit=120), cells - len(label) - 2), "text")], cells)
        for label, text in facts
    ]
    found += [(), section("its job", "", "muted", cells, indent=0)]
    found.append(pair("task", [(cut_end(safe_text(row.task, limit=120), cells - 8), "text")], cells))
    if row.priority is not None:
        found.append(pair("priority", [(str(row.priority), "text")], cells))
    shown = _call(read_payload(row.payload, is_handler=False)) if row.payload else "none"
    told = safe_text(shown, limit=2_000)
    if width(told) <= cells - len("arguments") - 2:
        found.append(pair("arguments", [(told, "text")], cells))
    else:
        found.append((("arguments", "muted"),))
        found += [(("  " + part, "text"),) for part in wrap(told, cells - 2, most=8)]
    if row.last_id:
        found.append(pair("last job", [(cut_middle(safe_text(row.last_id, limit=120), cells - 12), "text")], cells))
    return found


_POLICY: Final = {"skip": "are left out", "once": "are made up for once", "all": "are all made up for"}


def _at(at_ms: int | None, now_ms: int, *, ahead: bool = False) -> str:
    if at_ms is None:
        return fmt.NONE
    gap = fmt.span(max(0, at_ms - now_ms if ahead else now_ms - at_ms))
    return f"{fmt.clock(at_ms)}, in {gap}" if ahead else f"{fmt.clock(at_ms)}, {gap} ago"


def _call(value: Any) -> str:
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], list) and isinstance(value[1], dict):
        told = [str(one) for one in value[0]] + [f"{name}={one}" for name, one in value[1].items()]
        return ", ".join(told) or "none"
    return str(value)


def short(row: ScheduleRow, *, hide: str) -> str:
    """Its queue in words."""
    return " ▸ ".join(name_parts(row.queue, hide=hide))
