"""Temporary queues as rows: the tasks that own them, the queues of one, and orphaned ones."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from qdeck.messages import NEVER_MS, Removal, TaskRow, TemporaryQueue
from qdeck_console import format as fmt
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, safe_text

if TYPE_CHECKING:
    from qdeck.messages import CleanReport
    from qdeck_console.format import Line, Piece


_SHOWN: Final = 8  # queues of a cleaning that the question lists


def _left(expires_ms: int, now_ms: int) -> list[Piece]:
    if expires_ms >= NEVER_MS:
        return [("never", "warn")]
    left = expires_ms - now_ms
    return fmt.span_pieces(left) if left > 0 else [("expired", "warn")]


def _since(made_ms: int, now_ms: int) -> int | None:
    """Return the age of a task; the sets of other programs do not say when they were made."""
    return max(0, now_ms - made_ms) if made_ms else None


def _services(row: TaskRow, cell: TableCell[int]) -> list[Piece]:
    return [(cut_end(safe_text(", ".join(row.services), limit=200), cell.width), "muted")]


TASKS: Final = Table[TaskRow, int](
    Column("task", REST, lambda row, cell: cell.name(row.task)),
    Column("queues", 7, lambda row, _: fmt.cell(fmt.count(row.queues)), right=True),
    Column("waits", 6, lambda row, cell: fmt.cell(fmt.count(row.waited_on, cell.width)), right=True),
    Column("expired", 7, lambda row, cell: fmt.cell(fmt.count(row.expired, cell.width), "warn bold"), right=True),
    Column("expires in", 8, lambda row, cell: _left(row.expires_ms, cell.view), right=True),
    Column("created", 8, lambda row, cell: fmt.span_pieces(_since(row.made_ms, cell.view)), right=True),
    Column("services", 26, _services),
    Column("tier", 12, lambda row, cell: [(cut_end(safe_text(row.tier, limit=40), cell.width), "muted")]),
    sign=lambda row, _: ("▲", "warn") if row.expired else ("▸", "accent") if row.waited_on else ("•", "muted"),
    least=20,
    most=90,
)
"""The tasks that own temporary queues; what all rows have in common is the server's clock."""


def _state(row: TemporaryQueue | Removal, cell: TableCell[int]) -> list[Piece]:
    if not isinstance(row, TemporaryQueue):
        return [("orphaned" if row.messages is None else fmt.counted(row.messages, "message"), "warn")]
    if row.is_expired(cell.view):
        return [("expired", "warn")]
    return [("reader waiting" if row.is_waited_on(cell.view) else "holds messages" if row.exists else "empty", "text")]


def _bytes(row: TemporaryQueue | Removal, _: TableCell[int]) -> list[Piece]:
    return [(fmt.ZERO, "ghost")] if isinstance(row, TemporaryQueue) and not row.exists else fmt.size(row.bytes)


def _ends(row: TemporaryQueue | Removal, cell: TableCell[int]) -> list[Piece]:
    return _left(row.expires_ms, cell.view) if isinstance(row, TemporaryQueue) else [(fmt.NONE, "ghost")]


def _sign(row: TemporaryQueue | Removal, now_ms: int) -> Piece:
    if not isinstance(row, TemporaryQueue) or row.is_expired(now_ms):
        return "▲", "warn"
    return ("▸", "accent") if row.is_waited_on(now_ms) else ("•", "muted")


QUEUES: Final = Table[TemporaryQueue | Removal, int](
    Column("queue", REST, lambda row, cell: cell.name(row.name)),
    Column("state", 14, _state),
    Column("bytes", 9, _bytes, right=True),
    Column("idle", 8, lambda row, _: fmt.span_pieces(None if row.idle_s is None else row.idle_s * 1000), right=True),
    Column("expires in", 8, _ends, right=True),
    sign=_sign,
    least=24,
    most=90,
)
"""Temporary queues, and unregistered lists with the name of one."""


def _held(one: Removal) -> str:
    return "" if one.messages is None else f"{fmt.counted(one.messages, 'message')}, "


def plan_lines(found: CleanReport) -> list[Line]:
    """The first queues that a cleaning would remove, and how many it leaves."""
    lines: list[Line] = [
        ((cut_end(safe_text(one.name, limit=200), 60), "text"), (f"  {_held(one)}", "text"), *fmt.size(one.bytes))
        for one in found.samples
        if not one.why
    ][:_SHOWN]
    if found.removed > _SHOWN:
        lines.append(((f"and {found.removed - _SHOWN:,} more", "muted"),))
    lines += [
        ((safe_text(cause, limit=200), "muted"),) for cause in dict.fromkeys(o.cause for o in found.samples) if cause
    ]
    for why, count in Counter(one.why for one in found.samples if one.why).items():
        lines.append(((f"{count:,} stay: {why}", "warn"),))
    return [*lines, (("Copies are kept for a day: undo restores them.", "muted"),)]
