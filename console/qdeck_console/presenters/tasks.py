"""Temporary queues as rows: the tasks that own them, the queues of one, and those that nobody owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.presenters.parts import LEAD, MARGIN, columns
from qdeck_console.text import cut_end, cut_middle, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.messages import Removal
    from qdeck.messages.looking import QueueRow, TaskRow
    from qdeck_console.format import Line, Piece

Columns = tuple[tuple[str, int, bool], ...]
# The last ones go first where there is no room.
_TASKS: Final[Columns] = (
    ("queues", 7, True), ("waits", 6, True), ("over", 6, True), ("ends in", 8, True), ("made", 8, True),
    ("services", 26, False), ("tier", 12, False),
)  # fmt: skip
_QUEUES: Final[Columns] = (("state", 14, False), ("bytes", 9, True), ("idle", 8, True), ("ends in", 8, True))


def _kept(wanted: Columns, cells: int, least: int) -> tuple[list[tuple[str, int, bool]], int]:
    kept = list(wanted)
    while True:
        left = cells - LEAD - MARGIN - sum(width + 1 for _, width, _ in kept)
        if left >= least or not kept:
            return kept, max(8, min(left, 90))
        kept.pop()


def _line(
    glyph: Piece, name: str, role: str, values: dict[str, list[Piece]], wanted: Columns, cells: int, least: int
) -> Line:
    kept, room = _kept(wanted, cells, least)
    shown: list[tuple[Sequence[Piece], int, bool]] = [(values[label], wide, right) for label, wide, right in kept]
    first = fmt.fit([(cut_middle(safe_text(name, limit=300), room), role)], room)
    return (("  ", "text"), glyph, (" ", "text"), *first, *columns(shown))


def head(cells: int, *, of_queues: bool = False) -> Line:
    """The heads of the columns."""
    wanted, least = (_QUEUES, 24) if of_queues else (_TASKS, 20)
    kept, room = _kept(wanted, cells, least)
    shown: list[tuple[Sequence[Piece], int, bool]] = [([(label, "faint")], wide, right) for label, wide, right in kept]
    first = fmt.fit([("queue" if of_queues else "task", "faint")], room)
    return ((" " * LEAD, "text"), *first, *columns(shown))


def task_line(row: TaskRow, cells: int, at_cursor: bool, *, now_ms: int) -> Line:
    """A task that owns temporary queues; one whose time is over is a leftover."""
    over = row.expired > 0
    left = row.expires_ms - now_ms
    values: dict[str, list[Piece]] = {
        "queues": fmt.cell(fmt.count(row.queues)),
        "waits": fmt.cell(fmt.count(row.waited_on, 6)),
        "over": fmt.cell(fmt.count(row.expired, 6), "warn bold"),
        "ends in": fmt.span_pieces(left) if left > 0 else [("over", "warn")],
        "made": fmt.span_pieces(max(0, now_ms - row.made_ms)),
        "services": [(cut_end(safe_text(", ".join(row.services), limit=200), 26), "muted")],
        "tier": [(cut_end(safe_text(row.tier, limit=40), 12), "muted")],
    }
    glyph = ("▲", "warn") if over else ("▸", "accent") if row.waited_on else ("•", "muted")
    return _line(glyph, row.task, "strong bold" if at_cursor else "text", values, _TASKS, cells, 20)


def queue_line(row: QueueRow, cells: int, at_cursor: bool, *, now_ms: int) -> Line:
    """One temporary queue."""
    word, glyph = ("somebody waits", ("▸", "accent")) if row.is_waited_on else ("", ("•", "muted"))
    if row.is_expired:
        word, glyph = "time is over", ("▲", "warn")
    elif not word:
        word = "holds messages" if row.exists else "empty"
    left = row.expires_ms - now_ms
    values: dict[str, list[Piece]] = {
        "state": [(word, "warn" if row.is_expired else "text")],
        "bytes": fmt.size(row.bytes) if row.exists else [(fmt.ZERO, "ghost")],
        "idle": fmt.span_pieces(None if row.idle_s is None else row.idle_s * 1000),
        "ends in": fmt.span_pieces(left) if left > 0 else [("over", "warn")],
    }
    return _line(glyph, row.name, "strong bold" if at_cursor else "text", values, _QUEUES, cells, 24)


def orphan_line(row: Removal, cells: int, at_cursor: bool) -> Line:
    """A list that looks like a temporary queue, and that nobody registered."""
    values: dict[str, list[Piece]] = {
        "state": [("nobody owns it", "warn")],
        "bytes": fmt.size(row.bytes),
        "idle": fmt.span_pieces(None if row.idle_s is None else row.idle_s * 1000),
        "ends in": [(fmt.NONE, "ghost")],
    }
    return _line(("▲", "warn"), row.name, "strong bold" if at_cursor else "text", values, _QUEUES, cells, 24)
