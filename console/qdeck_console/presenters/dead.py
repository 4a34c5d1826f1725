"""Dead letters: the limits of their queues, the groups, and the jobs of one group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import NATIVE, Feature, Group, JobRecord, QueueRef
from qdeck_console import format as fmt
from qdeck_console.dead_groups import Triaged
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.job_sources import ListedJobs
from qdeck_console.presenters.charts import sparkline, thin_bar
from qdeck_console.presenters.job_detail import failure_lines, job_facts, payload_lines, title_lines
from qdeck_console.presenters.job_past import FAILING, noted, ran_ms
from qdeck_console.presenters.line_parts import MARGIN, Naming, columns, queue_path, section, unread_words
from qdeck_console.presenters.payload import Columns, payload_pieces
from qdeck_console.presenters.retrying import retry_words
from qdeck_console.presenters.table import REST, Column, Table, TableCell
from qdeck_console.text import cut_end, cut_middle, safe_text, width, wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck.admin import Headroom, HistoryEvent, JobDetail
    from qdeck_console.format import Line, Piece

_FULL: Final = 0.9  # of the limit: from there on it is an alarm
_SOON_MIN: Final = 60.0  # minutes until the first is dropped: an alarm too
_MOST_ATTEMPTS: Final = 6
_LEAST_BAR: Final = 10
MOST_ROOMS: Final = 20  # queues whose limits are read
_SHAPES: Final = {"N": "‹n›", "#": "‹id›", "'…'": "‹text›"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDead(ListedJobs):
    """What was read: groups, limits, and the jobs of a group."""

    triaged: Triaged = field(default_factory=Triaged)
    rooms: tuple[Headroom, ...] = ()


def drops_in_min(room: Headroom, dead_per_min: float | None) -> float | None:
    """Return in how many minutes the first dead letter is dropped at the present rate."""
    return None if not dead_per_min else max(0, room.most - room.count) / dead_per_min


def urgent_first(rooms: Sequence[Headroom], dead_per_min: Mapping[str, float | None]) -> list[Headroom]:
    """Return the queues in the order in which they will drop dead letters."""

    def key(room: Headroom) -> tuple[float, float]:
        minutes = drops_in_min(room, dead_per_min.get(room.queue))
        return (minutes if minutes is not None else float("inf"), -room.count / max(1, room.most))

    return sorted(rooms, key=key)


def room_line(
    room: Headroom, dead_per_min: float | None, now_ms: int, cells: int, *, naming: Naming, name: int
) -> Line:
    """Return how near one queue is to its limits."""
    minutes = drops_in_min(room, dead_per_min)
    share = room.count / max(1, room.most)
    full = share >= _FULL or (minutes is not None and minutes <= _SOON_MIN)
    role = "bad" if full else "muted"
    path = fmt.fit(
        queue_path(QueueRef(NATIVE, room.queue), name, "strong bold" if full else "text", naming=naming), name
    )
    left = room.oldest_ms + room.keep_ms - now_ms if room.oldest_ms is not None else None
    counts: list[Piece] = [
        (f"{room.count:,}".rjust(9), f"{role} bold" if full else "text"),
        (f" of {room.most:,}", "muted"),
    ]
    growth: list[Piece] = []
    if minutes is not None and minutes < 60 * 24:
        growth = [("full in ", "muted"), *fmt.span_pieces(minutes * 60_000, "bad bold" if full else "text")]
    elif dead_per_min:
        growth = [(f"grows by {dead_per_min * 60:,.0f}/h", "muted")]
    elif share >= 1:
        growth = [("full, drops the oldest", "bad")]
    elif dead_per_min is not None and cells >= 100:
        growth = [("not growing", "faint")]
    expires: list[Piece] = []
    if left is not None:
        soon = left < 86_400_000
        expires = [("oldest expires in ", "muted"), *fmt.span_pieces(left, "warn" if soon else "text")]
    dropped: list[Piece] = [
        ("dropped ", "muted"),
        *fmt.cell(f"{room.dropped:,}", "bad bold" if room.dropped else "text"),
    ]
    if cells < 100:
        tail = growth if growth and full else dropped if room.dropped else growth or expires
        bar = cells - 2 * MARGIN - name - fmt.length(counts) - 4 - max(12, fmt.length(tail))
        line: list[Piece] = [(" ", "text"), *path, (" ", "text"), *(thin_bar(share, bar, role) if bar >= 4 else ())]
        return tuple(fmt.fit([*line, *counts, ("  ", "text"), *tail], cells))
    pieces: list[tuple[Sequence[Piece], int, bool]] = [
        (counts, 20, False), (growth, 22, False), (expires, 25, False), (dropped, 13, False),
    ]  # fmt: skip
    if cells < 3 + name + sum(width + 1 for _, width, _ in pieces) + _LEAST_BAR:
        pieces.pop(2)
    bar = max(8, cells - 3 - name - sum(width + 1 for _, width, _ in pieces))
    return ((" " * 2, "text"), *path, (" ", "text"), *thin_bar(share, bar - 1, role), *columns(pieces))


def groups_title(seen: Triaged, cells: int, below: int = 0) -> Line:
    """Return how many groups and dead letters there are, whether that is exact, and how many groups are below."""
    count = seen.count or len(seen.groups)
    words = f"{fmt.counted(seen.total, 'dead letter')} in {fmt.counted(count, 'group')}"
    words = f"{words}, exact" if seen.exact else f"≥ {words}, {seen.scanned:,} of ~{seen.of:,} read"
    words += f", the largest {len(seen.groups):,} listed" if count > len(seen.groups) else ""
    words += f", {unread_words(seen.unread)}" if seen.unread else ""
    return section("groups", f"{words}, {below:,} more ↓" if below else words, "muted", cells)


class GroupView(NamedTuple):
    """What all groups have in common: how many dead letters they have together, and whether that is exact."""

    total: int
    exact: bool
    now_ms: int
    naming: Naming

    def share(self, group: Group) -> float:
        """Return the part of all dead letters that a group has."""
        return group.count / max(1, self.total)

    def is_large(self, group: Group) -> bool:
        """Return whether a group has most of the dead letters."""
        return self.share(group) >= 0.5 and group.count >= 10


def _error_class(group: Group, cell: TableCell[GroupView]) -> list[Piece]:
    name = cut_end(safe_text(group.error_class, limit=120), cell.width)
    return [(name, "strong bold" if cell.at_cursor else "text")]


def _message(group: Group, cell: TableCell[GroupView]) -> list[Piece]:
    mark = "permanent  " * group.is_permanent
    return [(mark, "warn"), *shape_pieces(group.message_shape, cell.width - width(mark))]


def _count(group: Group, cell: TableCell[GroupView]) -> list[Piece]:
    count = fmt.count(group.count)
    if not cell.view.exact:
        count = f"≥ {count}" if len(count) <= 5 else f"≥ {fmt.short_count(group.count)}"
    return [(count, "bad bold" if cell.view.is_large(group) else "strong bold")]


def _share(group: Group, cell: TableCell[GroupView]) -> Sequence[Piece]:
    return thin_bar(cell.view.share(group), max(1, cell.width), "bad" if cell.view.is_large(group) else "muted")


def _last(group: Group, cell: TableCell[GroupView]) -> list[Piece]:
    return fmt.span_pieces(cell.view.now_ms - group.last_ms) if group.last_ms else [(fmt.NONE, "ghost")]


def _trend(group: Group, cell: TableCell[GroupView]) -> Sequence[Piece]:
    if not group.trend or sum(group.trend) <= 0:
        return [("▁" * max(0, cell.width), "line")]
    large = cell.view.is_large(group)
    return sparkline(group.trend, "bad" if large else "ghost", last_role=None if large else "muted")


# Trend, queue, share and first go in that order, until the message has room.
GROUPS: Final = Table[Group, GroupView](
    Column("error", lambda room: 20 if room >= 120 else 18, _error_class),
    Column("message", REST, _message),
    Column(
        "queue", lambda room: 24 if room >= 120 else 18 if room >= 100 else 0,
        lambda group, cell: queue_path(group.ref, cell.width, "muted", naming=cell.view.naming),
    ),
    Column("count", 7, _count, right=True),
    Column("share", lambda room: 11 if room >= 130 else 0, _share, lead=2),
    Column(
        "first", lambda room: 9 if room >= 130 else 0,
        lambda group, cell: [(_moment(group.first_ms, cell.view.now_ms), "muted")], right=True,
    ),
    Column("last", 8, _last, right=True),
    Column("last hour", lambda room: 13 if room >= 100 else 0, _trend, lead=1),
    drops=(),
)  # fmt: skip


def _moment(at_ms: int, now_ms: int) -> str:
    if not at_ms:
        return fmt.NONE
    text = fmt.clock(at_ms)
    return text[:5] if ":" in text[:3] else text[:6] if now_ms - at_ms > 0 else text


def shape_pieces(shape: str, cells: int) -> list[Piece]:
    """Return the shape of a message, with faint placeholders for what varies."""
    out: list[Piece] = []
    for number, part in enumerate(safe_text(shape or "no message", limit=300).split(" ")):
        for sign, word in _SHAPES.items():
            bare = part.strip("()[]{},.;:=/-")
            if bare == sign:
                before, _, after = part.partition(sign)
                out += [(" " * bool(number) + before, "text"), (word, "faint"), (after, "text")]
                break
        else:
            out.append((" " * bool(number) + part, "text"))
    return fmt.fit(out, cells) if fmt.length(out) > cells else out


@dataclass(frozen=True, slots=True)
class Alike:
    """What all visible jobs have in common: it is shown once, above them, and not in a column. What none of them has is
    in common too (-1, empty), and is not shown.
    """

    task: str | None = None
    attempts: int | None = None
    worker: str | None = None
    permanent: bool = False

    @classmethod
    def of(cls, rows: Iterable[JobRecord | GoneJob]) -> Alike:
        """Return what these have in common: nothing where there is one at most."""
        jobs = [row for row in rows if not isinstance(row, GoneJob)]
        if len(jobs) < 2:
            return cls()
        tasks = {job.task or "" for job in jobs}
        attempts = {-1 if job.attempts is None else job.attempts for job in jobs}
        workers = {job.worker or "" for job in jobs}
        return cls(
            tasks.pop() if len(tasks) == 1 else None,
            attempts.pop() if len(attempts) == 1 else None,
            workers.pop() if len(workers) == 1 else None,
            all(job.is_permanent for job in jobs),
        )

    def and_(self, other: Alike) -> Alike:
        """Return what both have in common."""
        return Alike(
            self.task if self.task == other.task else None,
            self.attempts if self.attempts == other.attempts else None,
            self.worker if self.worker == other.worker else None,
            self.permanent and other.permanent,
        )

    def words(self) -> str:
        """Return the same in words."""
        count = "" if self.attempts is None or self.attempts < 0 else fmt.counted(self.attempts, "attempt")
        mark = "left out of a retry of all" if self.permanent else ""
        parts = (mark, self.task or "", count, self.worker or "")
        return safe_text(", ".join(part for part in parts if part), limit=200)


def order_words(rows: Sequence[JobRecord | GoneJob]) -> str:
    """Return the order of these dead letters: without their times there is none."""
    known = [row.moment_ms for row in rows if isinstance(row, JobRecord)]
    return "newest first" if any(known) or not known else "their times are not stored"


def jobs_title(
    group: Group | None,
    words: str,
    marks: Sequence[Piece],
    where: str,
    cells: int,
    alike: Alike | None = None,
    order: str = "newest first",
) -> Line:
    """Return the group whose jobs are listed, their order, what they have in common, and which are marked."""
    name = safe_text(group.error_class, limit=60) if group is not None else "jobs"
    left: list[Piece] = [(" " * MARGIN + name, "strong bold"), (f"  {order}", "muted")]
    right = f" {words} "
    room = cells - fmt.length(left) - fmt.length(marks) - width(right) - 10
    for told in (alike.words() if alike is not None else "", where.strip()):
        if told and room > 12:
            text = cut_end(safe_text(told, limit=200), room)
            left += [("  ·  ", "ghost"), (text, "muted")]
            room -= width(text) + 5
    left += marks
    rule = cells - fmt.length(left) - width(right) - 1
    if rule < 1:
        return tuple(fmt.fit(left, cells))
    return (*left, (" ", "text"), ("─" * rule, "line"), (right, "muted"))


def _id_width(room: int) -> int:
    return 20 if room >= 78 else 18


def _age(job: JobRecord, _: TableCell[Columns]) -> list[Piece]:
    return fmt.span_pieces(None if job.age_s is None else job.age_s * 1000)


def _worker(job: JobRecord, cell: TableCell[Columns]) -> list[Piece]:
    return fmt.cell(cut_middle(safe_text(job.worker or fmt.NONE, limit=80), cell.width), "muted")


def _jobs(*, attempts: bool, worker: bool) -> Table[JobRecord, Columns]:
    return Table(
        Column("id", _id_width, lambda job, cell: cell.id(job.id)),
        Column("died", 8, _age, right=True),
        Column("attempts", 8 * attempts, lambda job, _: fmt.cell(fmt.count(job.attempts), "muted"), right=True),
        Column("worker", lambda room: 15 if worker and room >= 100 else 0, _worker),
        Column("payload", REST, lambda job, cell: payload_pieces(job, cell.width, cell.view), lead=1),
        drops=(),
    )


_JOBS: Final = {
    (attempts, worker): _jobs(attempts=attempts, worker=worker)
    for attempts in (True, False)
    for worker in (True, False)
}


def jobs_table(alike: Alike | None = None) -> Table[JobRecord, Columns]:
    """Return the table of the jobs: what all have in common needs no column."""
    known = alike or Alike()
    return _JOBS[known.attempts is None, known.worker is None]


def side(job: JobDetail, cells: int, *, now_ms: int, naming: Naming) -> list[Line]:
    """Return the details of a dead letter: its error, payload and attempts, and what a retry does."""
    at_ms = job.failed_ms or job.since_ms
    about = "" if at_ms is None else f"failed {fmt.clock(at_ms)}, {fmt.span(max(0, now_ms - at_ms)).split()[0]} ago"
    lines = [*title_lines(job, cells, naming=naming, about=about), (), *failure_lines(job, cells)]
    lines += payload_lines(job, cells, most=8)
    ends = [event for event in job.history if event.kind in FAILING]
    if ends:
        lines += [noted("attempts", [(f"{len(ends):,}", "strong")], cells), *_attempts(job, ends, cells), ()]
    if job.has(Feature.ATTEMPTS):
        lines += [*retry_would(job, cells, naming=naming), ()]
    return [*lines, section("job", "", "muted", cells, indent=0), *job_facts(job, cells)]


def _attempts(job: JobDetail, ends: Sequence[HistoryEvent], cells: int) -> list[Line]:
    """Return the attempts, the newest first: when each ended, how long it ran, and its error."""
    lines: list[Line] = []
    last = job.failure.class_name if job.failure is not None else None
    number = max(2, len(str(len(ends))) + 1)
    for at, event in list(enumerate(ends, 1))[: -_MOST_ATTEMPTS - 1 : -1]:
        took = ran_ms(event)
        name = safe_text(str(event.data.get("class") or event.kind), limit=120)
        message = safe_text(str(event.data.get("message") or ""), limit=200)
        words = message if name == last and message else name
        ran: list[Piece] = [(fmt.NONE, "ghost")] if took is None else fmt.span_pieces(took, fine=True)
        clock = fmt.clock(event.at_ms)
        room = cells - number - len(clock) - 10
        lines.append((
            *fmt.fit([(str(at), "muted")], number), (clock, "text"), *fmt.fit(ran, 8, right=True), ("  ", "text"),
            (cut_end(words, room), "bad" if at == len(ends) else "muted"),
        ))  # fmt: skip
    if len(ends) > _MOST_ATTEMPTS:
        lines.append(((f"{len(ends) - _MOST_ATTEMPTS:,} earlier", "faint"),))
    return lines


def retry_would(job: JobDetail, cells: int, *, naming: Naming) -> list[Line]:
    """Return what a retry of a job does."""
    title = section("on retry", "", "muted", cells, indent=0)
    if not job.has(Feature.ATTEMPTS):
        return [title, *(((part, "muted"),) for part in wrap(retry_words(job.adapter), cells, most=4))]
    left = f"{fmt.counted(job.retries + 1, 'attempt')} left" if job.retries is not None else "all its attempts left"
    waits = fmt.counted(len(job.dependents), "dependent") if job.dependents else "no dependents"
    return [
        title,
        (("goes to the end of ", "muted"), *queue_path(job.ref, max(8, cells - 19), "text", naming=naming)),
        ((f"{left}; {waits}", "muted"),),
    ]
