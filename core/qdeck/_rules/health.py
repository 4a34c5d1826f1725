"""The health of a deck: sizes and ages per queue and state, errors, and the verdict with its findings.

The verdict is that of `status`: the rules are in one place. What this user may not read, or what would take too long
to count, is None and told, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qdeck._deck import since, verdict, workers
from qdeck._deck.model import NATIVE, Check, Code, Finding, QueueRef, QueueRow, Snapshot, State, Status
from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck._rules import ages, foreign_health, unreadable
from qdeck._settings.thresholds import Thresholds
from qdeck._words import counted
from qdeck.adapters.native import orphans as orphan_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck._rules.foreign_health import Theirs
    from qdeck._settings.limits import Limits
    from qdeck.adapters.all import Adapters


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """One state of one queue. With many jobs the ages come from a sample, and `exact` is false."""

    size: int | None
    oldest_age: float | None = None
    avg_age: float | None = None
    stuck_count: int | None = 0
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHealth:
    """Jobs of one task that run, and that wait to run, as another system counts them itself."""

    active: int | None
    pending: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Jobs a minute, by the difference of two looks."""

    enqueued: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """What is wrong, in numbers; None where it could not be counted."""

    dead: int | None
    stuck: int | None
    late: int | None
    orphaned: int | None
    stuck_vms: int | None = None
    """Stuck and late, as the document on queue reliability counts them: of VMPooler only machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The health of a deck at one moment. `queues` is state → queue → numbers."""

    at_ms: int
    status: Status
    findings: tuple[Finding, ...]
    queues: Mapping[str, Mapping[QueueRef, QueueHealth]]
    tasks: Mapping[str, TaskHealth]
    rates: Rates | None
    errors: Errors
    checks: tuple[Check, ...]
    notices: tuple[str, ...]
    snapshot: Snapshot = field(repr=False)
    thresholds: Thresholds = field(default_factory=Thresholds, repr=False)
    adapters: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))


def report(adapters: Adapters, limits: Limits, *, orphans: bool = True) -> Program[HealthReport]:
    """The report as a program of plain reads."""
    thresholds = adapters.native.thresholds
    seen = yield from adapters.look()
    notices = list(seen.notices)
    queues = yield from _queues(seen, thresholds.stuck_age_ms)
    rows = [row for row in seen.queues if row.problem is None]
    orphaned = None
    if orphans:
        own = [row for row in rows if row.adapter == NATIVE]
        orphaned = yield from orphan_count.count(own, limits, seen.at_ms, notices)
    theirs = yield from foreign_health.measure(adapters, seen.at_ms)
    queues = _with_theirs(queues, theirs)
    notices += [notice for notice in theirs.notices if notice not in notices]
    orphaned = None if orphaned is None or theirs.orphaned is None else orphaned + theirs.orphaned
    known = bool(rows) or not seen.queues
    checks = [
        *seen.checks,
        (yield from unreadable.check(seen, notices)),
        (yield from _quarantined_check(rows, seen.shared)),
        (yield from _handlers_check(seen.at_ms)),
        _orphan_check(orphaned, limits),
        _clock_check(seen),
    ]
    judged = verdict.sum_up(checks)
    return HealthReport(
        at_ms=seen.at_ms,
        status=judged.status,
        findings=(yield from since.dated(judged.findings, thresholds, seen.at_ms)),
        queues=queues,
        tasks=MappingProxyType({name: TaskHealth(active=a, pending=p) for name, (a, p) in theirs.tasks.items()}),
        rates=_rates(rows),
        errors=Errors(
            dead=seen.totals.dead if known else None,
            stuck=seen.totals.stuck if known else None,
            late=seen.totals.late if known else None,
            orphaned=orphaned,
            stuck_vms=sum((row.stuck or 0) + (row.late or 0) for row in rows if not row.serves_others)
            if known
            else None,
        ),
        checks=tuple(checks),
        notices=tuple(notices),
        snapshot=seen,
        thresholds=thresholds,
        adapters=MappingProxyType(theirs.adapters),
    )


def _with_theirs(
    queues: Mapping[str, Mapping[QueueRef, QueueHealth]], theirs: Theirs
) -> Mapping[str, Mapping[QueueRef, QueueHealth]]:
    """Our numbers, with those of other adapters where they are better known than by their rows."""
    found = {state: dict(rows) for state, rows in queues.items()}
    for state, rows in theirs.states.items():
        for place, one in rows.items():
            found[state][place] = QueueHealth(
                size=one.size, oldest_age=one.oldest_s, avg_age=one.average_s, stuck_count=one.stuck, exact=one.exact
            )
    return MappingProxyType({state: MappingProxyType(rows) for state, rows in found.items()})


def _orphan_check(count: int | None, limits: Limits) -> Check:
    if count is None:
        return Check(name="orphaned_records", status=None, detail="records of no job were not counted")
    records = counted(count, "record")
    detail = "no record is without its job" if not count else f"{records} of no job; qdeck purge removes them"
    threshold = limits.words("max_orphaned_age")
    return Check(name="orphaned_records", detail=detail, value=count, threshold=threshold)


def _quarantined_check(rows: Sequence[QueueRow], shared: Collection[str]) -> Program[Check]:
    """Check for outbox entries that were set aside. The counter of a queue only grows; the stream can be cleared."""
    suspects = [row for row in rows if row.totals.get("quarantined")]
    lengths = yield from reads.ask_all([(b"XLEN", keys.key(row.name, "quarantine")) for row in suspects])
    found = [(row.ref, n) for row, n in zip(suspects, lengths, strict=True) if isinstance(n, int) and n]
    made = verdict.Findings(shared=shared)
    findings = [
        made.of_queue(Code.SET_ASIDE, Status.DEGRADED, ref, n, name=keys.key(ref.name, "quarantine").decode())
        for ref, n in found
    ]
    well = "no entry of an outbox is set aside"
    return verdict.make_check("quarantined", findings, well, value=sum(n for _, n in found), threshold=0)


def _handlers_check(now_ms: int) -> Program[Check]:
    """Handlers that ignore cancellation: their jobs went to others, and their slots are lost until a restart."""
    name = "stuck_handlers"
    try:
        alive = [row for row in (yield from workers.list_workers(now_ms)) if row.alive]
    except LOST:
        raise
    except QdeckError:
        return Check(name=name, status=None, detail="the workers cannot be read")
    held = [(row.id, row.stuck_handlers) for row in alive if row.stuck_handlers]
    findings = [
        Finding(code=Code.HANDLER_STUCK, severity=Status.UNHEALTHY, name=who, count=count) for who, count in held
    ]
    well = "no handler ignores its cancellation"
    return verdict.make_check(name, findings, well, value=sum(count for _, count in held), threshold=0)


def _clock_check(seen: Snapshot) -> Check:
    if seen.local_clock:
        detail = "TIME is not allowed: ages are by this machine's clock"
        return Check(name="clock", status=None, detail=detail)
    return Check(name="clock", detail="ages are by the server's clock")


def _rates(rows: Sequence[QueueRow]) -> Rates | None:
    known = [(row.in_per_s, row.out_per_s) for row in rows if row.in_per_s is not None and row.out_per_s is not None]
    if not known:
        return None
    return Rates(enqueued=60 * sum(came for came, _ in known), ended=60 * sum(went for _, went in known))


def _queues(seen: Snapshot, stuck_age_ms: int) -> Program[Mapping[str, Mapping[QueueRef, QueueHealth]]]:
    found: dict[str, dict[QueueRef, QueueHealth]] = {state.value: {} for state in State}
    wanted: list[tuple[QueueRow, State]] = []
    for row in seen.queues:
        for state in State:
            size = getattr(row, state.value)
            stuck = None if size is None else 0
            found[state.value][row.ref] = QueueHealth(size=size, stuck_count=stuck)
            if size and row.adapter == NATIVE:
                wanted.append((row, state))
    measured = yield from ages.measure([(row.name, state) for row, state in wanted], seen.at_ms)
    late = yield from _late_delayed([row for row, state in wanted if state is State.DELAYED], seen.at_ms - stuck_age_ms)
    for (row, state), age in zip(wanted, measured, strict=True):
        before = found[state.value][row.ref]
        if age is None:  # it may not be read, or has gone since
            found[state.value][row.ref] = replace(before, stuck_count=None if row.problem else before.stuck_count)
            continue
        found[state.value][row.ref] = replace(
            before,
            oldest_age=age.oldest_s,
            avg_age=age.average_s,
            exact=age.exact,
            stuck_count=_stuck(row, state, late.get(row.name, 0)),
        )
    return MappingProxyType({state: MappingProxyType(rows) for state, rows in found.items()})


def _stuck(row: QueueRow, state: State, late_delayed: int) -> int | None:
    """What is stuck is late, when it waits, and without owner or over its time, when it runs."""
    if state is State.RUNNING:
        return row.stuck
    if state is State.DELAYED:
        return late_delayed
    if state is State.READY:
        return None if row.late is None else max(0, row.late - late_delayed)
    return 0


def _late_delayed(rows: Sequence[QueueRow], limit: int) -> Program[dict[str, int]]:
    rows = [row for row in rows if row.late]
    calls = [(b"ZCOUNT", keys.key(row.name, "delayed"), b"-inf", b"(%d" % limit) for row in rows]
    counts = yield from reads.ask_all(calls)
    return {row.name: count for row, count in zip(rows, counts, strict=True) if isinstance(count, int)}
