"""Lists of jobs of one queue and one state: the states with their counts, and rows with what matters in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck.admin import Code, Feature, JobRecord, State, has_feature
from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import MARGIN, Naming, queue_path
from qdeck_console.presenters.payload import payload_pieces
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, cut_middle, safe_text, width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck.admin import QueueRef, QueueRow
    from qdeck_console.departed_jobs import GoneJob
    from qdeck_console.format import Line, Piece
    from qdeck_console.job_sources import ListPart
    from qdeck_console.queue_findings import ListedQueue

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
    State.READY: "waiting",
    State.DELAYED: "due in",
    State.BLOCKED: "waiting",
    State.RUNNING: "running",
    State.DEAD: "died",
    State.DONE: "done",
    State.CANCELLED: "ended",
}
_OLDEST: Final = {
    State.READY: "next first",
    State.DELAYED: "next due first",
    State.BLOCKED: "oldest first",
    State.RUNNING: "lease ends first",
}


def _id_width(room: int) -> int:
    return 22 if room >= 100 else 18


def _from(least: int, wide: int, narrow: int) -> Callable[[int], int]:
    """Return a width: none in a table narrower than `least`, and a larger one from 100 cells on."""
    return lambda room: wide if room >= 100 else narrow if room >= least else 0


def _task(job: JobRecord, cell: TableCell[int]) -> list[Piece]:
    if not job.name and not job.task and job.native_state != job.state:
        return [(cut_middle(safe_text(job.native_state, limit=200), cell.width), "muted")]
    return [(cut_middle(safe_text(job.name or job.task or fmt.NONE, limit=200), cell.width), "text")]


def _priority(job: JobRecord, _: TableCell[int]) -> list[Piece]:
    return fmt.cell(job.priority_text or fmt.NONE, "muted")


def _worker(job: JobRecord, cell: TableCell[int]) -> list[Piece]:
    if job.worker is None and not job.has_all_facts:  # who has it is not kept there
        return [(fmt.NONE, "ghost")]
    return [(cut_middle(safe_text(job.worker or "no worker", limit=120), cell.width), "text")]


def _payload(job: JobRecord, cell: TableCell[int]) -> Sequence[Piece]:
    return payload_pieces(job, cell.width)


def _is_stuck(job: JobRecord) -> bool:
    """Return whether a running job is stuck; waiting ones show their own reason."""
    return job.state == State.RUNNING and job.stuck is not None


def _sign(state: State) -> Callable[[JobRecord, int], Piece]:
    def sign(job: JobRecord, now_ms: int) -> Piece:
        if state is State.READY and (job.attempts or 0) > 0:
            return "▲", "warn"
        return ("✗", "bad") if _is_stuck(job) else _GLYPHS[state]

    return sign


def _table(state: State, when_title: str = "") -> Table[JobRecord, int]:
    """Return what all rows have in common is the server's clock."""
    waits, ended = state in (State.READY, State.DELAYED, State.BLOCKED), state in (State.DONE, State.CANCELLED)
    fails = state in (State.DEAD, State.CANCELLED)
    role = "warn" if state is State.READY else "muted"
    return Table(
        Column("id", _id_width, lambda job, cell: cell.id(job.id)),
        Column("task", _from(72, 24, 16), _task),
        Column("prio", lambda room: 8 if waits and room >= 90 else 0, _priority, right=True),
        Column(
            "attempts", lambda room: 0 if ended and room < 100 else 8,
            lambda job, cell: fmt.cell(fmt.count(job.attempts, cell.width), role), right=True,
        ),
        Column(when_title or _WHEN[state], 8, lambda job, cell: when(job, state, cell.view), right=True),
        Column("worker", _from(72, 20, 14) if state is State.RUNNING else 0, _worker, lead=1),
        Column(
            "error", lambda room: 0 if not fails else 30 if room >= 130 else REST,
            lambda job, cell: error_pieces(job, cell.width), lead=1,
        ),
        Column("payload", lambda room: REST if not fails or room >= 130 else 0, _payload, lead=1),
        sign=_sign(state),
        drops=(),
    )  # fmt: skip


TABLES: Final = {state: _table(state) for state in STATES}
_NOT_DUE: Final = _table(State.DELAYED, "waiting")


def table_of(state: State, rows: Sequence[JobRecord | GoneJob]) -> Table[JobRecord, int]:
    """Return the columns of a state; delayed jobs of some systems, such as pending VMs, are not due at a time."""
    jobs = [row for row in rows if isinstance(row, JobRecord)]
    return _NOT_DUE if state is State.DELAYED and jobs and all(job.due_ms is None for job in jobs) else TABLES[state]


def when(job: JobRecord, state: State, now_ms: int) -> list[Piece]:
    """Return how long it is so, or how long until it is due."""
    if state is State.DELAYED and job.due_ms is not None:
        left = job.due_ms - now_ms
        return fmt.span_pieces(left) if left >= 0 else [("late ", "warn"), *fmt.span_pieces(-left, "warn")]
    if job.age_s is None:
        return [(fmt.NONE, "ghost")]
    return fmt.span_pieces(job.age_s * 1000, "bad" if _is_stuck(job) else "text")


def error_pieces(job: JobRecord, cells: int) -> list[Piece]:
    """Return what went wrong, class first."""
    if job.error is None and job.message is None:
        return [(fmt.NONE, "ghost")]
    name = safe_text(job.error or "", limit=120)
    mark = "permanent " if job.is_permanent else ""
    message = cut_end(safe_text(job.message or "", limit=400), max(0, cells - width(mark + name) - 2))
    return [(mark, "warn"), (name, "bad"), (f"  {message}" if message else "", "text")]


def title_line(queue: QueueRef, entry: ListedQueue | None, cells: int, *, naming: Naming) -> Line:
    """The queue, and what holds for all of it."""
    facts: list[Piece] = []
    if entry is None:
        facts = [("  this queue no longer exists", "warn")]
    else:
        row = entry.row
        facts = [(f"  {safe_text(row.adapter, limit=40)}", "faint")]
        if row.paused:
            facts.append(("  ║ paused", entry.role(Code.PAUSED, "muted bold")))
        if row.workers is not None:
            words = fmt.counted(row.workers, "worker") if row.workers else "no worker"
            facts.append((f"  ·  {words}", entry.worst(Code.NO_WORKER).role))
        if row.problem is not None:
            facts.append((f"  ·  {safe_text(row.problem.text, limit=120)}", entry.worst(Code.UNREADABLE).role))
    path = queue_path(queue, max(20, cells - fmt.length(facts) - 2), "strong bold", naming=naming)
    return tuple(fmt.fit([(" " * MARGIN, "text"), *path, *facts], cells))


def states_line(active: State, entry: ListedQueue | None, cells: int) -> Line:
    """One word a state with its count, the active one underlined; where there is little room, only those with jobs."""
    row, dead = (None, "text") if entry is None else (entry.row, entry.role(Code.DEAD))
    filled = tuple(state for state in STATES if _size(row, state) or state is active)
    for names, gap in ((STATES, "   "), (STATES, "  "), (filled, "   "), (filled, "  "), (filled, " ")):
        line: list[Piece] = [(" " * MARGIN, "text")]
        for state in names:
            size = _size(row, state)
            role = "strong bold under" if state is active else "muted" if size else "faint"
            count = fmt.short_count(size) if size and cells < 100 else fmt.count(size)
            looks = "ghost" if not size else dead if state is State.DEAD else "text"
            line += [(state.value, role), (" ", "text"), (count, looks), (gap, "text")]
        if fmt.length(line) <= cells:
            break
    return tuple(fmt.fit(line, cells))


def _size(row: QueueRow | None, state: State) -> int | None:
    return None if row is None else getattr(row, state.value)


def order_words(state: State, adapter: str, *, newest: bool) -> str:
    """In which order a list is; another system has its own, if it has one at all."""
    if not has_feature(adapter, Feature.ORDER) and not newest:
        return f"in the order of {safe_text(adapter, limit=40)}"
    return "newest first" if newest else _OLDEST.get(state, "oldest first")


def range_words(part: ListPart, first: int, shown: int, of: int | None) -> str:
    """Return which rows of how many are on screen, and whether the number is exact."""
    last = min(first + shown, part.reach, part.total)
    rows = f"{first + 1:,}–{last:,}" if last else "none"
    if part.exact:
        beyond = f", the first {part.reach:,} are listed" if part.reach < part.total else ""
        return f"{rows} of {part.total:,}{beyond}"
    scanned = f"{min(part.scanned, of):,} of ~{of:,} scanned" if of else f"{part.scanned:,} scanned"
    return f"{rows} of ≥ {part.total:,}, {scanned}"
