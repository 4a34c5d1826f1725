"""Stuck jobs by why they are stuck: running past their lease or their time limit, with the worker and its heartbeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck.admin import State, Stuck, StuckCode, Verb, detail_of
from qdeck_console import format as fmt
from qdeck_console.presenters.job_detail import failure_lines, job_facts, payload_lines, timeline_lines, title_lines
from qdeck_console.presenters.line_parts import LEAD, MARGIN, Naming, columns, name_parts, pair, queue_path, section
from qdeck_console.presenters.retrying import verb_words
from qdeck_console.text import cut_end, cut_id, cut_middle, safe_text, wrap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import Entry, JobDetail, QueueRef, Spread, WorkerRow
    from qdeck_console.departed_jobs import GoneJob
    from qdeck_console.format import Line, Piece

MOST = 60  # stuck jobs of a queue that are shown


class Why(IntEnum):
    """Why a job is stuck, most urgent first."""

    OWNER_GONE = 0
    LEASE_OUT = 1
    OVER_LIMIT = 2
    NO_LEASE = 3
    THEIRS = 4

    @property
    def label(self) -> str:
        """The head of the group."""
        return "in other adapters" if self is Why.THEIRS else Stuck(code=_CODES[self]).text

    @property
    def note(self) -> str:
        """What that means."""
        return (
            "their worker stopped sending heartbeats",
            "their worker is alive but does not renew the lease",
            "they run longer than their task allows",
            "the lease is missing or cannot be read",
            "stuck by the rules of their queue system",
        )[self]


_CODES: Final = {
    Why.OWNER_GONE: StuckCode.OWNER_GONE, Why.LEASE_OUT: StuckCode.LEASE_EXPIRED,
    Why.OVER_LIMIT: StuckCode.OVER_LIMIT, Why.NO_LEASE: StuckCode.NO_LEASE,
}  # fmt: skip
_WHY: Final = {code: why for why, code in _CODES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckRow:
    """A stuck job."""

    job: JobDetail
    why: Why
    for_ms: int
    since_ms: int | None
    owner: WorkerRow | None
    reason: str = ""  # in the words of another adapter
    role: str = "warn"  # of the finding on stuck jobs

    @property
    def key(self) -> str:
        """Its identity."""
        return self.job.key

    @property
    def has_expired(self) -> bool:
        """Whether its lease ran out; it may be in its last grace."""
        return self.why in (Why.OWNER_GONE, Why.LEASE_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckJobs:
    """The stuck jobs that were read."""

    jobs: tuple[StuckRow, ...] = ()
    total: int = 0
    usual: Mapping[QueueRef, Spread | None] = field(default_factory=lambda: MappingProxyType({}))
    served: Mapping[QueueRef, int | None] = field(default_factory=lambda: MappingProxyType({}))
    gone: GoneJob | None = None  # what was under the cursor, and is not stuck any more
    all_read: bool = True  # whether `jobs` are all that match
    unread: int = 0  # queues that could not be read


def theirs(entry: Entry) -> StuckRow:
    """Return the row of a stuck entry of another adapter."""
    age_ms = round((entry.age_s or 0) * 1000)
    reason = "" if entry.stuck is None else entry.stuck.text
    return StuckRow(
        job=detail_of(entry), why=Why.THEIRS, for_ms=age_ms, since_ms=entry.since_ms, owner=None, reason=reason
    )


def held(job: JobDetail, owner: WorkerRow | None) -> StuckRow | None:
    """Return a running job that is stuck; None for another one, or for what is stuck without running."""
    why = None if job.stuck is None else _WHY.get(job.stuck.code)
    if job.stuck is None or why is None or job.state != State.RUNNING:
        return None
    for_ms = round(job.stuck.seconds * 1000)
    return StuckRow(job=job, why=why, for_ms=for_ms, since_ms=job.stuck.since_ms, owner=owner)


_GLYPHS = {"warn": "▲", "bad": "✗"}


def group_line(why: Why, role: str, count: int, cells: int) -> Line:
    """The head of a group."""
    return section(why.label, why.note if cells >= 80 else "", role, cells, count=count)


@dataclass(frozen=True, slots=True)
class _StuckGrid:
    """The columns that a width has room for; 0 is not shown."""

    job: int
    queue: int
    owner: int
    beat: int
    lease: int

    @classmethod
    def of(cls, cells: int) -> _StuckGrid:
        """Heartbeat and lease need room. The lease goes first: where it ran out, `for` says since when."""
        beat, lease = (15 if cells >= 100 else 0), (15 if cells >= 110 else 0)
        job = 20 if cells >= 78 else 18
        rest = cells - LEAD - MARGIN - job - 9 - 9 - sum(wide + 1 for wide in (beat, lease) if wide) - 2
        queue = min(24, max(12, rest // 2))
        return cls(job, queue, max(8, rest - queue), beat, lease)


def head_line(cells: int) -> Line:
    """The heads of the columns."""
    grid = _StuckGrid.of(cells)
    heads = [("queue", grid.queue, False), ("for", 8, True), (" worker", grid.owner, False)]
    heads += [("heartbeat", grid.beat, False), ("lease", grid.lease, False), ("attempts", 8, True)]
    return (
        (" " * LEAD, "text"),
        *fmt.fit([("job", "faint")], grid.job),
        *columns([([(head, "faint")], wide, right) for head, wide, right in heads if wide]),
    )


def entry_line(stuck: StuckRow, cells: int, *, naming: Naming, at_cursor: bool) -> Line:
    """One stuck job."""
    grid = _StuckGrid.of(cells)
    job, role = stuck.job, stuck.role
    parts: list[tuple[Sequence[Piece], int, bool]] = [
        (queue_path(job.ref, grid.queue, "text", naming=naming), grid.queue, False),
        (_span(stuck, role), 8, True),
        ([(f" {_owner(stuck, grid.owner - 1)}", "text")], grid.owner, False),
    ]
    parts += [(_heartbeat(stuck), grid.beat, False)] if grid.beat else []
    parts += [(_lease(stuck), grid.lease, False)] if grid.lease else []
    attempts = f"{job.attempts or 0} of {job.retries + 1}" if job.retries is not None else _attempts(job.attempts)
    parts.append(([(attempts, "muted")], 8, True))
    name = [(cut_id(job.id, grid.job), "strong bold" if at_cursor else "text")]
    glyph = _GLYPHS[stuck.role]
    return (("  ", "text"), (glyph, role), (" ", "text"), *fmt.fit(name, grid.job), *columns(parts))


def left_line(row: GoneJob, cells: int, now_ms: int) -> Line:
    """Return the line of a job that is no longer stuck, while the cursor is on it."""
    width = _StuckGrid.of(cells).job
    name = fmt.fit([(cut_id(row.id, width), "faint strike")], width)
    return (("  ", "text"), ("–", "ghost"), (" ", "text"), *name, (f" {row.words(now_ms)}", "faint"))


def _lease(stuck: StuckRow) -> list[Piece]:
    if stuck.why is Why.THEIRS:
        return [("–", "ghost")]
    if stuck.why is Why.NO_LEASE:
        return [("none", "text")]
    if stuck.has_expired:
        return [("expired ", "text"), *fmt.span_pieces(stuck.for_ms)]
    return [("held", "muted")]


def reason_line(stuck: StuckRow, cells: int) -> Line:
    """Why an entry of another adapter is stuck, in the words of that."""
    words = cut_end(safe_text(stuck.reason, limit=300), max(8, cells - LEAD - MARGIN))
    return ((" " * LEAD, "text"), (words, stuck.role))


def note_line(why: Why, members: Sequence[StuckRow], cells: int) -> Line:
    """Return what to know before an operation on a group."""
    owners = {stuck.job.worker for stuck in members if stuck.job.worker}
    [who] = owners if len(owners) == 1 else ["the worker"]
    name = cut_middle(safe_text(who, limit=80), 30)
    words = {
        Why.OWNER_GONE: f"after a requeue, late results of {name} are refused",
        Why.LEASE_OUT: f"{name} may still run it: after a requeue, its results are refused",
        Why.OVER_LIMIT: "the worker is alive: cancel requests it to stop",
        Why.NO_LEASE: "after its time limit, the next worker requeues it",
        Why.THEIRS: "dimmed keys do not work on this job; press one for the reason",
    }[why]
    return ((" " * LEAD, "text"), (cut_end(words, max(8, cells - LEAD - MARGIN)), "muted"))


def _span(stuck: StuckRow, role: str) -> Sequence[Piece]:
    unknown = stuck.why is Why.THEIRS and stuck.job.age_s is None
    return [("–", "ghost")] if unknown else fmt.span_pieces(stuck.for_ms, role)


def _attempts(attempts: int | None) -> str:
    """Return how often it ran, where the limit is unknown."""
    return "–" if attempts is None else str(attempts)


def _owner(stuck: StuckRow, cells: int) -> str:
    return cut_middle(safe_text(stuck.job.worker or "unknown", limit=120), cells)


def _heartbeat(stuck: StuckRow) -> list[Piece]:
    owner = stuck.owner
    if stuck.why is Why.THEIRS:
        return [("–", "ghost")]
    if owner is None:
        return [("not registered", "bad")]
    if owner.heartbeat_s is None:
        return [("no heartbeat", "muted")]
    age = fmt.span(owner.heartbeat_s * 1000)
    return [(f"alive, {age} ago", "ok")] if owner.alive else [(f"lost, {age} ago", "bad")]


def why_lines(stuck: StuckRow, served: int | None, cells: int) -> list[Line]:
    """The reasons, each with what is behind it."""
    job, owner = stuck.job, stuck.owner
    told: list[tuple[str, str, str, str]] = []
    glyph = _GLYPHS[stuck.role]
    if stuck.why is Why.THEIRS:
        told.append((glyph, stuck.role, "it makes no progress", stuck.reason))
    if stuck.why is Why.OWNER_GONE:
        seen = f"last heartbeat {fmt.span((owner.heartbeat_s or 0) * 1000)} ago" if owner else "no longer registered"
        told.append((glyph, stuck.role, "its worker is lost", f"{job.worker or 'unknown'}: {seen}"))
    if stuck.has_expired:
        granted = f"granted {fmt.clock(job.claimed_ms)}, not renewed" if job.claimed_ms else "not renewed"
        told.append((glyph, stuck.role, "its lease expired", f"{fmt.span(stuck.for_ms)} ago; {granted}"))
    if stuck.why is Why.OVER_LIMIT:
        limit = fmt.span(job.time_limit_ms or 0)
        told.append(
            (glyph, stuck.role, "it exceeds its time limit", f"limit {limit}, {fmt.span(stuck.for_ms)} over it")
        )
    if stuck.why is Why.NO_LEASE:
        told.append((glyph, stuck.role, "it has no lease", stuck.why.note))
    if served == 0:
        told.append(
            (
                "▲",
                "warn",
                "no live worker for this queue",
                "expired jobs are requeued only when a worker or an agent starts",
            )
        )
    lines: list[Line] = []
    for glyph, role, head, detail in told:
        lines.append(((f"{glyph} ", role), (head, "text")))
        lines += [(("  ", "text"), (part, "muted")) for part in wrap(safe_text(detail, limit=300), cells - 2, most=2)]
    return lines


def side(stuck: StuckRow, seen: StuckJobs, cells: int, *, now_ms: int, naming: Naming) -> list[Line]:
    """A stuck job: why, how long is usual, what happened to it, and what a requeue would do."""
    job = stuck.job
    glyph = _GLYPHS[stuck.role]
    lines = [
        *title_lines(job, cells, naming=naming, state=(f"{glyph} stuck", stuck.role)),
        (),
        section("reason", "", "muted", cells, indent=0),
        *why_lines(stuck, seen.served.get(job.ref), cells),
    ]
    if stuck.why is not Why.THEIRS:
        lines += [(), *_usual(stuck, seen, cells, now_ms)]
    lines += [(), section("timeline", "", "muted", cells, indent=0), *timeline_lines(job, cells, most=8)]
    if stuck.has_expired and stuck.since_ms is not None:
        lines.append(((fmt.clock(stuck.since_ms), "muted"), ("  ▲ ", "warn"), ("lease expired", "text")))
    if stuck.why is Why.THEIRS:
        lines += [(), section("operations", "", "muted", cells, indent=0), *_operations(job, cells)]
    else:
        lines += [(), section("requeue would", "", "muted", cells, indent=0), *_would(stuck, cells, naming)]
    lines += [(), *failure_lines(job, cells), *payload_lines(job, cells, most=6)]
    return [*lines, section("job", "", "muted", cells, indent=0), *job_facts(job, cells)]


def _usual(stuck: StuckRow, seen: StuckJobs, cells: int, now_ms: int) -> list[Line]:
    """Return how long it runs, beside the usual duration where that is kept."""
    job = stuck.job
    lines = [section("usual duration", "", "muted", cells, indent=0)]
    if job.claimed_ms is not None:
        lines.append(pair("this job", fmt.span_pieces(now_ms - job.claimed_ms, stuck.role), cells))
    spread = seen.usual.get(job.ref)
    if spread is not None:
        lines.append(pair(f"{spread.sampled:,} done jobs, p95", fmt.span_pieces(spread.p95_ms, fine=True), cells))
    elif job.ref in seen.usual:
        lines.append(pair("done jobs", [("none kept", "faint")], cells))
    limit = [("none", "faint")] if job.time_limit_ms is None else fmt.span_pieces(job.time_limit_ms)
    return [*lines, pair("limit", limit, cells)]


def _operations(job: JobDetail, cells: int) -> list[Line]:
    """Return what each key does to a job of another system, or why it is not possible."""
    lines: list[Line] = []
    keys = (("n", Verb.RUN),) if job.state == State.DELAYED else ()
    for key, verb in (*keys, ("r", Verb.REQUEUE), ("b", Verb.BURY), ("c", Verb.CANCEL)):
        parts = wrap(safe_text(verb_words(job, verb), limit=300), cells - 3, most=3)
        lines += [
            ((key if at == 0 else " ", "accent"), ("  ", "text"), (part, "muted")) for at, part in enumerate(parts)
        ]
    return lines


def _would(stuck: StuckRow, cells: int, naming: Naming) -> list[Line]:
    job = stuck.job
    where = " ▸ ".join(name_parts(job.ref, naming=naming))
    tries = f", attempt {(job.attempts or 0) + 1} of {job.retries + 1} next" if job.retries is not None else ""
    who = safe_text(job.worker or "its worker", limit=80)
    words = f"return it to its place in {where}{tries}. A late result of {who} is refused."
    lines: list[Line] = [((part, "text"),) for part in wrap(words, cells, most=5)]
    again = "It may have done part of its work already; that is not undone."
    return [*lines, *(((part, "muted"),) for part in wrap(again, cells, most=3))]
