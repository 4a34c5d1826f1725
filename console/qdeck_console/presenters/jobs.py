"""Lists of jobs of one queue and one state: the states with their counts, and rows with what matters in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck.admin import Feature, JobRecord, State, has_feature
from qdeck_console import format as fmt
from qdeck_console.presenters.job_detail import is_late
from qdeck_console.presenters.parts import LEAD, MARGIN, Naming, columns, queue_path
from qdeck_console.presenters.payload import payload_pieces
from qdeck_console.text import cut_end, cut_id, cut_middle, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import QueueRef, QueueRow
    from qdeck_console.format import Line, Piece
    from qdeck_console.leaving import Left
    from qdeck_console.sources import Part

STATES: Final = (
    State.READY, State.DELAYED, State.BLOCKED, State.RUNNING, State.DEAD, State.DONE, State.CANCELLED,
)  # fmt: skip
_GLYPHS: Final = {
    State.READY: ("◦", "muted"),
    State.DELAYED: ("◦", "muted"),
    State.BLOCKED: ("◇", "muted"),
    State.RUNNING: ("▸", "accent"),
    State.DEAD: ("✗", "bad"),
    State.DONE: ("✓", "ok"),
    State.CANCELLED: ("∅", "faint"),
}
# What the time of a row is in each state.
_WHEN: Final = {
    State.READY: "waits",
    State.DELAYED: "due in",
    State.BLOCKED: "waits",
    State.RUNNING: "runs",
    State.DEAD: "died",
    State.DONE: "done",
    State.CANCELLED: "ended",
}
_SET_OFF: Final = ("worker", "error", "payload")
_OLDEST: Final = {
    State.READY: "next to run first",
    State.DELAYED: "next due first",
    State.BLOCKED: "first made first",
    State.RUNNING: "lease ends first",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the list; a width of 0 takes what the others leave."""

    key: str
    head: str
    width: int
    right: bool = False


def columns_of(state: State, cells: int, *, adapter: bool = False) -> list[Column]:
    """The columns that a state needs and a width has room for."""
    wide = cells >= 100
    found = [Column("id", "id", 22 if wide else 18)]
    if cells >= 72:
        found.append(Column("task", "task", 24 if wide else 16))
    if state in (State.READY, State.DELAYED, State.BLOCKED) and cells >= 90:
        found.append(Column("priority", "prio", 5, right=True))
    if wide or state not in (State.DONE, State.CANCELLED):
        found.append(Column("tries", "tries", 5, right=True))
    found.append(Column("when", _WHEN[state], 8, right=True))
    if state is State.RUNNING and cells >= 72:
        found.append(Column("worker", "worker", 20 if wide else 14))
    if state in (State.DEAD, State.CANCELLED):
        found.append(Column("error", "error", 30 if cells >= 130 else 0))
    if state not in (State.DEAD, State.CANCELLED) or cells >= 130:
        found.append(Column("payload", "payload", 0))
    return found


def _fitted(found: Sequence[Column], cells: int) -> list[tuple[Column, int]]:
    taken = LEAD + MARGIN + sum(column.width for column in found) + len(found) - 1
    return [(column, column.width or max(8, cells - taken)) for column in found]


def head_line(state: State, cells: int) -> Line:
    """The heads of the columns."""
    fitted = _fitted(columns_of(state, cells), cells)
    heads: list[tuple[Sequence[Piece], int, bool]] = [
        ([(" " * (column.key in _SET_OFF) + column.head, "faint")], width, column.right) for column, width in fitted
    ]
    return ((" " * (LEAD - 1), "text"), *columns(heads))


def job_line(job: JobRecord, state: State, cells: int, now_ms: int, *, at_cursor: bool) -> Line:
    """One job."""
    fitted = _fitted(columns_of(state, cells), cells)
    values: list[tuple[Sequence[Piece], int, bool]] = [
        (_value(job, column.key, width, state, now_ms, at_cursor=at_cursor), width, column.right)
        for column, width in fitted
    ]
    glyph = _GLYPHS[state]
    if state is State.READY and (job.attempts or 0) > 0:
        glyph = ("▲", "warn")
    elif is_late(job, now_ms):
        glyph = ("✗", "bad")
    return (("  ", "text"), glyph, *columns(values))


def left_line(row: Left, state: State, cells: int, now_ms: int) -> Line:
    """A job that left the list while it was looked at."""
    width = columns_of(state, cells)[0].width
    name = fmt.fit([(cut_id(row.id, width), "faint strike")], width)
    return (("  ", "text"), ("–", "ghost"), (" ", "text"), *name, (f" {row.words(now_ms)}", "faint"))


def _value(job: JobRecord, key: str, cells: int, state: State, now_ms: int, *, at_cursor: bool) -> list[Piece]:
    if key == "id":
        return [(cut_id(job.id, cells), "strong bold" if at_cursor else "text")]
    if key == "task":
        return [(cut_middle(safe_text(job.name or job.task or fmt.NONE, limit=200), cells), "text")]
    if key == "priority":
        return fmt.cell(fmt.NONE if job.priority is None else str(job.priority), "muted")
    if key == "tries":
        return fmt.cell(fmt.count(job.attempts, cells), "muted" if state is not State.READY else "warn")
    if key == "when":
        return when(job, state, now_ms)
    if key == "worker":
        if job.worker is None and not job.has_all_facts:  # who has it is not kept there
            return [(" ", "text"), (fmt.NONE, "ghost")]
        return [(" ", "text"), (cut_middle(safe_text(job.worker or "nobody", limit=120), cells - 1), "text")]
    if key == "error":
        return [(" ", "text"), *error_pieces(job, cells - 1)]
    return [(" ", "text"), *payload_pieces(job, cells - 1)]  # text behind numbers: one blank more keeps them apart


def when(job: JobRecord, state: State, now_ms: int) -> list[Piece]:
    """How long it is so, or how long until it is due."""
    if state is State.DELAYED and job.due_ms is not None:
        left = job.due_ms - now_ms
        return fmt.span_pieces(left) if left >= 0 else [("late ", "warn"), *fmt.span_pieces(-left, "warn")]
    if job.age_s is None:
        return [(fmt.NONE, "ghost")]
    return fmt.span_pieces(job.age_s * 1000, "bad" if is_late(job, now_ms) else "text")


def error_pieces(job: JobRecord, cells: int) -> list[Piece]:
    """What went wrong, class first."""
    if job.error is None and job.message is None:
        return [(fmt.NONE, "ghost")]
    name = safe_text(job.error or "", limit=120)
    message = cut_end(safe_text(job.message or "", limit=400), max(0, cells - width(name) - 2))
    return [(name, "bad"), (f"  {message}" if message else "", "text")]


def title_line(queue: QueueRef, row: QueueRow | None, cells: int, *, hide: Naming) -> Line:
    """The queue, and what holds for all of it."""
    facts: list[Piece] = []
    if row is None:
        facts = [("  there is no such queue any more", "warn")]
    else:
        facts = [(f"  {safe_text(row.adapter, limit=40)}", "faint")]
        if row.paused:
            facts.append(("  ║ paused", "warn bold"))
        if row.workers is not None:
            words = fmt.counted(row.workers, "worker") if row.workers else "no worker serves it"
            facts.append((f"  ·  {words}", "muted" if row.workers else "warn"))
        if row.problem is not None:
            facts.append((f"  ·  {safe_text(row.problem.text, limit=120)}", "bad"))
    path = queue_path(queue, max(20, cells - fmt.length(facts) - 2), "strong bold", hide=hide)
    return tuple(fmt.fit([(" " * MARGIN, "text"), *path, *facts], cells))


def states_line(active: State, row: QueueRow | None, cells: int) -> Line:
    """One word a state with its count, the active one underlined; where there is little room, only those with jobs."""
    filled = tuple(state for state in STATES if _size(row, state) or state is active)
    for names, gap in ((STATES, "   "), (STATES, "  "), (filled, "   "), (filled, "  "), (filled, " ")):
        line: list[Piece] = [(" " * MARGIN, "text")]
        for state in names:
            size = _size(row, state)
            role = "strong bold under" if state is active else "muted" if size else "faint"
            count = fmt.short_count(size) if size and cells < 100 else fmt.count(size)
            line += [(state.value, role), (" ", "text"), (count, _count_role(state, size)), (gap, "text")]
        if fmt.length(line) <= cells:
            break
    return tuple(fmt.fit(line, cells))


def _size(row: QueueRow | None, state: State) -> int | None:
    return None if row is None else getattr(row, state.value)


def _count_role(state: State, size: int | None) -> str:
    if not size:
        return "ghost"
    return "bad bold" if state is State.DEAD else "text"


def order_words(state: State, adapter: str, *, newest: bool) -> str:
    """In which order a list is; another system has its own, if it has one at all."""
    if not has_feature(adapter, Feature.ORDER):
        return f"as {safe_text(adapter, limit=40)} keeps them"
    return "newest first" if newest else _OLDEST.get(state, "oldest first")


def range_words(part: Part, first: int, shown: int, of: int | None) -> str:
    """Which rows of how many are on screen, and whether the number is exact."""
    last = min(first + shown, part.reach, part.total)
    rows = f"{first + 1:,}–{last:,}" if last else "none"
    if part.exact:
        beyond = f", the first {part.reach:,} are listed" if part.reach < part.total else ""
        return f"{rows} of {part.total:,}{beyond}"
    scanned = f"{part.scanned:,} of ~{of:,} looked at" if of else f"{part.scanned:,} looked at"
    return f"{rows} of ≥ {part.total:,}, {scanned}"
