"""Workers as rows below their hosts, and one with what it runs and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck.admin import NATIVE, QueueRef, WorkerRow
from qdeck_console import format as fmt
from qdeck_console.presenters.line_parts import Naming, pair, queue_path, section
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, cut_id, cut_middle, safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import JobRecord
    from qdeck_console.format import Line, Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a worker runs; of some queues only the first jobs were looked at."""

    jobs: tuple[JobRecord, ...] = ()
    partial: bool = False


@dataclass(slots=True)
class Speeds:
    """Jobs a second of each worker, from what it told in its heartbeats."""

    told: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def note(self, rows: Sequence[WorkerRow]) -> None:
        """Record heartbeats."""
        known = {row.id for row in rows}
        self.told = {name: kept for name, kept in self.told.items() if name in known}
        for row in rows:
            if row.heartbeat_ms is None or row.done is None:
                continue
            kept = self.told.setdefault(row.id, [])
            if not kept or kept[-1][0] != row.heartbeat_ms:
                kept.append((row.heartbeat_ms, row.done + (row.failed or 0)))
                del kept[:-20]

    def of(self, row: WorkerRow) -> float | None:
        """Return its rate now; before its second heartbeat, the rate since it started."""
        kept = self.told.get(row.id, [])
        if not row.alive:
            return None
        if len(kept) > 1 and kept[-1][0] > kept[0][0]:
            return max(0.0, (kept[-1][1] - kept[0][1]) * 1000 / (kept[-1][0] - kept[0][0]))
        if row.started_ms is None or row.heartbeat_ms is None or row.done is None or row.heartbeat_ms <= row.started_ms:
            return None
        return (row.done + (row.failed or 0)) * 1000 / (row.heartbeat_ms - row.started_ms)


def ended_words(rows: Sequence[WorkerRow]) -> list[str]:
    """Return how many workers are lost, and how many stopped."""
    stopped = sum(not row.alive and row.state == "stopped" for row in rows)
    lost = sum(not row.alive for row in rows) - stopped
    return [f"{count:,} {word}" for count, word in ((lost, "lost"), (stopped, "stopped")) if count]


def host_line(host: str, rows: Sequence[WorkerRow], cells: int) -> Line:
    """The head of a host: how many workers, what runs there, and the memory they take."""
    alive = [row for row in rows if row.alive]
    running, room = sum(row.running or 0 for row in alive), sum(row.concurrency or 0 for row in alive)
    memory = sum(row.memory_bytes or 0 for row in alive)
    words = [f"{running:,} of {room:,} slots busy"]
    if memory:
        words.append("".join(text for text, _ in fmt.size(memory)))
    words += ended_words(rows)
    role = "bad" if not alive else "warn" if len(alive) < len(rows) else "muted"
    label = cut_end(safe_text(host or "unknown host", limit=200), max(12, cells // 2))
    return section(label, "  ·  ".join(words), role, cells, count=len(alive))


def state_of(row: WorkerRow) -> tuple[str, str, str]:
    """Its sign, its role and its state in a word."""
    if not row.alive:
        return ("✗", "bad", "lost") if row.condition == "lost" else ("∅", "muted", "stopped")
    if row.condition != row.state:
        return "▲", "warn", row.condition or "unknown"
    if row.requested and (row.requested, row.state) not in (("quiet", "quiet"), ("stop", "stopping")):
        return "▲", "warn", f"requested: {row.requested}"
    if row.state in ("quiet", "stopping"):
        return "▲", "warn", row.state
    return "•", "ok", row.state or "unknown"


def _runs(row: WorkerRow) -> str:
    """Return how many jobs it runs; a dash for a worker that is gone."""
    return fmt.NONE if not row.alive else "0" if row.running == 0 else fmt.count(row.running)


def _of_room(count: str, row: WorkerRow, cells: int) -> str:
    """Return how many it runs of how many it could; where that does not fit both are compact."""
    full = f"{count}/{row.concurrency}" if row.concurrency else count
    if len(full) <= cells:
        return full
    return f"{fmt.short_count(row.running or 0)}/{fmt.short_count(row.concurrency or 0)}"


def _plain(row: WorkerRow) -> str:
    return "text" if row.alive else "faint"


def _running(row: WorkerRow, cell: TableCell[Speeds]) -> list[Piece]:
    busy = row.alive and row.concurrency is not None and (row.running or 0) >= row.concurrency
    return [(_of_room(_runs(row), row, cell.width), "warn bold" if busy else _plain(row))]


def _state(row: WorkerRow, cell: TableCell[Speeds]) -> list[Piece]:
    _, role, word = state_of(row)
    return [(cut_end(safe_text(word, limit=40), cell.width), "muted" if role == "ok" else role)]


def _heartbeat(row: WorkerRow, _: TableCell[Speeds]) -> list[Piece]:
    heartbeat_ms = None if row.heartbeat_s is None else row.heartbeat_s * 1000
    return fmt.span_pieces(heartbeat_ms, _plain(row) if row.alive else "bad")


TABLE: Final = Table[WorkerRow, Speeds](
    Column("worker", REST, lambda row, cell: cell.name(row.id, _plain(row))),
    Column("state", 13, _state),
    Column("running", 9, _running, right=True),
    Column("jobs/s", 7, lambda row, cell: fmt.cell(fmt.rate(cell.view.of(row)), _plain(row)), right=True),
    Column("memory", 9, lambda row, _: fmt.size(row.memory_bytes), right=True),
    Column("heartbeat", 9, _heartbeat, right=True),
    Column("failed", 8, lambda row, _: fmt.cell(fmt.count(row.failed), _plain(row)), right=True),
    Column("done", 9, lambda row, _: fmt.cell(fmt.count(row.done), _plain(row)), right=True),
    Column("pid", 8, lambda row, _: [(str(row.pid or fmt.NONE), "muted")], right=True),
    sign=lambda row, _: state_of(row)[:2],
)


def facts(row: WorkerRow, cells: int, *, now_ms: int, speed: float | None, naming: Naming) -> list[Line]:
    """Return the lines about a worker, from its own report."""
    glyph, role, word = state_of(row)
    state = f"{glyph} {safe_text(word, limit=30)}"
    found: list[Line] = [
        (*fmt.fit([(cut_middle(safe_text(row.id, limit=200), cells - len(state) - 1), "strong bold")],
                  cells - len(state)), (state, f"{role} bold")),
        ((cut_end(safe_text(f"{row.host or 'unknown host'}, pid {row.pid or '?'}", limit=200), cells), "muted"),),
        (),
    ]  # fmt: skip
    count = _runs(row)
    until = now_ms if row.alive else row.heartbeat_ms
    up = None if row.started_ms is None or until is None else max(0, until - row.started_ms)
    rows: list[tuple[str, list[Piece]]] = [
        ("running", [(f"{count} of {row.concurrency}" if row.concurrency else count, "strong bold")]),
        ("jobs/s", fmt.cell(fmt.rate(speed))),
        ("done", fmt.cell(fmt.count(row.done))),
        ("failed", fmt.cell(fmt.count(row.failed))),
        ("memory", fmt.size(row.memory_bytes)),
        ("up" if row.alive else "was up", fmt.span_pieces(up)),
        ("last heartbeat", fmt.span_pieces(None if row.heartbeat_s is None else row.heartbeat_s * 1000)),
        ("version", [(safe_text(row.version or fmt.NONE, limit=40), "text")]),
    ]
    found += [pair(label, value, cells) for label, value in rows]
    found += [(), section("queues", "", "muted", cells, indent=0, count=len(row.queues))]
    for queue, weight in list(row.queues.items())[:12]:
        value = [(f"×{weight}", "muted")] if weight != 1 else []
        found.append((*fmt.fit(queue_path(QueueRef(NATIVE, queue), cells - 6, "text", naming=naming), cells - 5),
                      *fmt.fit(value, 5, right=True)))  # fmt: skip
    if len(row.queues) > 12:
        found.append(((f"{len(row.queues) - 12} more", "faint"),))
    return found


def running_head(row: WorkerRow, running: Running | None, cells: int) -> Line:
    """The head of what it runs at this moment; what one holds that is gone is stuck, or will be."""
    count = None if running is None else len(running.jobs)
    note = "at least: not all jobs of its queues were read" if running is not None and running.partial else ""
    return section("running jobs" if row.alive else "jobs still held", note, "muted", cells, indent=0, count=count)


def running_line(job: JobRecord, cells: int, *, now_ms: int, naming: Naming) -> Line:
    """One running job: its id, its task and queue, and for how long."""
    since = None if job.since_ms is None else max(0, now_ms - job.since_ms)
    wide = cells >= 70
    name, task = (20, 22) if wide else (14, max(6, cells - 26))
    line: list[Piece] = [
        ("✗ ", "bad") if job.stuck is not None else ("▸ ", "accent"),
        *fmt.fit([(cut_id(safe_text(job.id, limit=200), name), "text")], name),
        (" ", "text"),
        *fmt.fit([(cut_end(safe_text(job.name or job.task or "unknown task", limit=120), task), "muted")], task),
    ]
    if wide:
        room = cells - fmt.length(line) - 12
        line += [(" ", "text"), *fmt.fit(queue_path(job.ref, room, "muted", naming=naming), room)]
    return (*line, *fmt.fit(fmt.span_pieces(since), max(8, cells - fmt.length(line)), right=True))
