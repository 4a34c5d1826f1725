"""Rows of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck_console import format as fmt
from qdeck_console.presenters.parts import LEAD, MARGIN, columns
from qdeck_console.text import cut_middle, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.model import WorkerRow
    from qdeck_console.format import Line, Piece

Column = tuple[str, int, bool]
_WORKER: Final[tuple[Column, ...]] = (
    ("state", 9, False), ("running", 8, True), ("done", 8, True), ("failed", 7, True), ("memory", 8, True),
    ("seen", 8, True), ("pid", 7, True), ("host", 18, False),
)  # fmt: skip


def _fitting(wanted: Sequence[Column], cells: int, least: int) -> tuple[list[Column], int]:
    """The columns that fit beside a name of some width, which takes the rest; the last ones go first."""
    kept = list(wanted)
    while True:
        left = cells - LEAD - MARGIN - sum(width + 1 for _, width, _ in kept)
        if left >= least or not kept:
            return kept, max(8, left)
        kept.pop()


def _head(first: str, wanted: Sequence[Column], cells: int, least: int) -> Line:
    kept, name = _fitting(wanted, cells, least)
    heads: list[tuple[Sequence[Piece], int, bool]] = [([(head, "faint")], width, right) for head, width, right in kept]
    return ((" " * LEAD, "text"), *fmt.fit([(first, "faint")], name), *columns(heads))


def _row(
    glyph: Piece, name: str, role: str, values: dict[str, list[Piece]], wanted: Sequence[Column], cells: int, least: int
) -> Line:
    kept, width = _fitting(wanted, cells, least)
    cells_of: list[tuple[Sequence[Piece], int, bool]] = [(values[head], wide, right) for head, wide, right in kept]
    first = fmt.fit([(cut_middle(safe_text(name, limit=300), width), role)], width)
    return (("  ", "text"), glyph, (" ", "text"), *first, *columns(cells_of))


def worker_head(cells: int) -> Line:
    """The heads of the workers."""
    return _head("worker", _WORKER, cells, 20)


def worker_line(row: WorkerRow, cells: int, at_cursor: bool) -> Line:
    """One worker."""
    state = (row.asked and f"asked {row.asked}") or row.state or "unknown"
    seen = fmt.span_pieces(None if row.heartbeat_s is None else row.heartbeat_s * 1000, "text" if row.alive else "bad")
    busy = fmt.count(row.running)
    values: dict[str, list[Piece]] = {
        "state": [(safe_text(state if row.alive else "gone", limit=40), "text" if row.alive else "bad")],
        "running": [(f"{busy}/{row.concurrency}" if row.concurrency else busy, "text")],
        "done": fmt.cell(fmt.count(row.done)),
        "failed": fmt.cell(fmt.count(row.failed)),
        "memory": fmt.size(row.memory_bytes),
        "seen": seen,
        "pid": [(str(row.pid or fmt.NONE), "muted")],
        "host": [(safe_text(row.host or fmt.NONE, limit=80), "muted")],
    }
    glyph = ("•", "ok") if row.alive else ("✗", "bad")
    return _row(glyph, row.id, "strong bold" if at_cursor else "text", values, _WORKER, cells, 20)
