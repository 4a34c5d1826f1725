"""Cron rules as rows: when they come next, how the last run ended, and what is wrong with them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck.admin import NATIVE, QueueRef, ScheduleRow, local_time, read_payload
from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import LEAD, Naming, name_parts, pair, queue_path, section
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, cut_middle, safe_text, width, wrap

if TYPE_CHECKING:
    from qdeck_console.format import Line, Piece

_OUTCOMES: Final = {
    "done": ("✓", "ok"), "dead": ("✗", "bad"), "running": ("▸", "accent"), "cancelled": ("∅", "muted"),
    "ready": ("◦", "muted"), "delayed": ("◦", "muted"), "blocked": ("◇", "muted"),
}  # fmt: skip


def state(row: ScheduleRow, late: str = "warn") -> tuple[str, str, str]:
    """Its sign, its role, and what is wrong with it in words, if anything; `late` is the role of a late one."""
    if row.problem:
        return "✗", "bad", f"cannot be read: {row.problem}"
    if not row.enabled:
        return "║", "warn", "paused"
    if row.late_s is not None:
        return "▲", late, f"{fmt.span(row.late_s * 1000)} late: no worker or agent runs it"
    if row.last_outcome == "dead":
        return "✗", "bad", "its last job is a dead letter"
    return "•", "muted", ""


def _ref(row: ScheduleRow) -> QueueRef:
    return QueueRef(row.adapter or NATIVE, row.queue)


def _outcome(row: ScheduleRow) -> list[Piece]:
    """Return how its last run ended: the sign in its colour, and the word."""
    if not row.last_outcome:
        return [(fmt.NONE, "ghost")]
    glyph, role = _OUTCOMES.get(row.last_outcome, ("•", "muted"))
    return [(f"{glyph} {safe_text(row.last_outcome, limit=40)}", role)]


def _span(ms: int | None, role: str) -> list[Piece]:
    """Return a time until or since; a dash for none, because none is not zero."""
    return [(fmt.NONE, "ghost")] if ms is None else fmt.span_pieces(max(0, ms), role)


def _word(row: ScheduleRow) -> str:
    if row.problem:
        return "broken"
    if not row.enabled:
        return "paused"
    return "late" if row.late_s is not None else "on"


def reason(row: ScheduleRow) -> str:
    """Return the words below its row."""
    return state(row)[2]


class SchedulesView(NamedTuple):
    """What all rows have in common: the server's clock, the start of names, the role of schedules that are late."""

    now_ms: int
    naming: Naming
    late: str = "warn"


def _plain(row: ScheduleRow) -> str:
    return "text" if row.enabled else "faint"


def _name(row: ScheduleRow, cell: TableCell[SchedulesView]) -> list[Piece]:
    return cell.name(row.name, "strong bold" if state(row)[1] == "bad" else _plain(row))


def _next(row: ScheduleRow, cell: TableCell[SchedulesView]) -> list[Piece]:
    return _span(None if row.next_ms is None else row.next_ms - cell.view.now_ms, _plain(row))


def _last(row: ScheduleRow, cell: TableCell[SchedulesView]) -> list[Piece]:
    return _span(None if row.last_ms is None else cell.view.now_ms - row.last_ms, _plain(row))


def _queue(row: ScheduleRow, cell: TableCell[SchedulesView]) -> list[Piece]:
    return queue_path(_ref(row), cell.width, "muted", naming=cell.view.naming) if row.queue else [(fmt.NONE, "ghost")]


TABLE: Final = Table[ScheduleRow, SchedulesView](
    Column("schedule", REST, _name),
    Column("next in", 9, _next, right=True),
    Column("last", 9, _last, right=True),
    Column("outcome", 12, lambda row, _: _outcome(row), lead=1),
    Column(
        "missed",
        7,
        lambda row, _: fmt.cell(fmt.count(row.missed_runs), "warn" if row.missed_runs else _plain(row)),
        right=True,
    ),
    Column("cron", 17, lambda row, cell: [(cut_end(safe_text(row.cron, limit=80), cell.width), _plain(row))], lead=1),
    Column("queue", 24, _queue),
    Column("jobs", 8, lambda row, _: fmt.cell(fmt.count(row.jobs_made), _plain(row)), right=True),
    sign=lambda row, view: state(row, view.late)[:2],
    most=60,
)


def lines(row: ScheduleRow, cells: int, view: SchedulesView, *, at_cursor: bool) -> list[Line]:
    """Return the line of a schedule; one that is in trouble says why on a second line."""
    _, role, why = state(row, view.late)
    first = TABLE.line(row, cells, view, at_cursor=at_cursor)
    return [first, ((" " * LEAD, "text"), (cut_end(safe_text(why, limit=200), cells - 6), role))] if why else [first]


def side(row: ScheduleRow, cells: int, view: SchedulesView) -> list[Line]:
    """The details of one schedule."""
    now_ms, naming = view.now_ms, view.naming
    glyph, role, why = state(row, view.late)
    word = f"{glyph} {_word(row)}"
    found: list[Line] = [
        (*fmt.fit([(cut_middle(safe_text(row.name, limit=200), cells - 12), "strong bold")], cells - len(word)),
         (word, f"{role} bold")),
        tuple(queue_path(_ref(row), cells, "muted", naming=naming)) if row.queue else (),
        (),
    ]  # fmt: skip
    found += [((part, role),) for part in wrap(safe_text(why, limit=300), cells, most=4)] if why else []
    found += [(), section("runs", "", "muted", cells, indent=0)]
    facts: list[tuple[str, str]] = [
        ("cron", row.cron), ("time zone", row.tz), ("missed runs", _POLICY.get(row.policy, row.policy)),
        ("next", _at(row, row.next_ms, now_ms)), ("last run", _at(row, row.last_ms, now_ms)),
        ("outcome", row.last_outcome or fmt.NONE), ("missed", f"{row.missed_runs:,}"),
        ("jobs", f"{row.jobs_made:,}"),
    ]  # fmt: skip
    found += [
        pair(label, [(cut_end(safe_text(text, limit=120), cells - len(label) - 2), "text")], cells)
        for label, text in facts
    ]
    found += [(), section("job", "", "muted", cells, indent=0)]
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


_POLICY: Final = {"skip": "skip them", "once": "run once", "all": "run all of them"}


def _at(row: ScheduleRow, at_ms: int | None, now_ms: int) -> str:
    """Return a moment in the time zone of the schedule, with how far away it is."""
    if at_ms is None:
        return fmt.NONE
    day, clock, zone = local_time(at_ms, row.tz).split(" ", 2)
    if day != local_time(now_ms, row.tz).split(" ")[0]:
        clock = f"{time.strftime('%d %b', time.strptime(day, '%Y-%m-%d'))} {clock[:5]}"
    gap = fmt.span(abs(at_ms - now_ms))
    return f"{clock} {zone}, " + (f"in {gap}" if at_ms > now_ms else f"{gap} ago")


def _call(value: Any) -> str:
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], list) and isinstance(value[1], dict):
        told = [str(one) for one in value[0]] + [f"{name}={one}" for name, one in value[1].items()]
        return ", ".join(told) or "none"
    return str(value)


def short(row: ScheduleRow, *, naming: Naming) -> str:
    """Its queue in words."""
    return " ▸ ".join(name_parts(_ref(row), naming=naming))
