"""The verdict on a server and its queues: every rule once, for `status`, for `health` and for the console.

A threshold is the last value that is good: 100 dead letters are healthy, 101 are not. What cannot be read is
reported as unknown, and never counted as good or bad.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from qdeck._engine import keys
from qdeck._formatting import counted
from qdeck._model.ranking import finding_rank, ranks
from qdeck._model.values import (
    AOF,
    NO_AOF,
    NOTHING,
    SNAPSHOTS,
    Check,
    Code,
    Finding,
    QueueRef,
    QueueRow,
    ServerInfo,
    Status,
)
from qdeck._redis.commands import Sleep
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from qdeck._model.values import Measure, Snapshot
    from qdeck._model.words import Unreadable
    from qdeck._redis.commands import Program

T = TypeVar("T")
_ORDER: Final = tuple(Status)
_WELL: Final = Status.HEALTHY
VERDICT_MS: Final = 5_000
_KEEPS: Final = {
    AOF: "an append-only file keeps every write",
    SNAPSHOTS: "snapshots only: a crash loses the writes since the last one",
}
STEP: Final = 500  # queues in a step: about a ms, when each of them has a finding
_CRITICAL_TIMES: Final = 2  # a queue is critically backed up at twice its limit
_DEAD_GROWS: Final = 1  # dead letters a minute from which they grow
_DEAD_SHARE: Final = 10  # dead letters from which a queue counts towards too many in all queues
_GROWS: Final = 0.5  # ready jobs a second more in than out before a queue fills
_STILL_GROWS: Final = 0.1  # a queue that fills is one until it falls below this: else the finding would come and go
_HELD_S: Final = 30  # seconds of that growth which wait before a queue fills
_FAR_S: Final = 10  # the same where far more come than go: its oldest job is still young then
_FAR_TIMES: Final = 3
_FAILS_TIMES: Final = 3
_FAILS_MORE: Final = 10  # per cent
_SUMMED: Final = (Code.STUCK, Code.LATE)  # found for all queues together; each queue has its own count


class Verdict(NamedTuple):
    """The status, the findings, worst first, the worst severity of each code, and the checks that found them."""

    status: Status
    findings: tuple[Finding, ...]
    severities: Mapping[Code, Status]
    checks: tuple[Check, ...] = ()


class Findings:
    """What the rules found. A finding that is `known` already is reused, because most findings of very many
    queues stay and then share memory. `shared` are the names that queues of several adapters have.
    """

    def __init__(self, shared: Collection[str] = ()) -> None:
        self.checks: list[Check] = []
        self._shared = shared
        self._known: dict[tuple[Code, QueueRef | None], Finding] = {}

    def recall(self, known: Sequence[Finding]) -> Iterator[None]:
        """Take the findings of the last refresh, in steps: there may be several for each of ten thousand queues."""
        for part in _parts(known):
            self._known.update({(one.code, one.queue): one for one in part})
            yield

    def known(self, code: Code, queue: QueueRef) -> Finding | None:
        """Return the finding on a queue of the last refresh."""
        return self._known.get((code, queue))

    def of_queue(
        self,
        code: Code,
        severity: Status,
        queue: QueueRef,
        count: int | None = None,
        limit: int | None = None,
        name: str | None = None,
        problem: Unreadable | None = None,
    ) -> Finding:
        """Return a finding on one queue."""
        label, known = queue.label(self._shared), self.known(code, queue)
        told = (label, severity, count, limit, name, problem)
        if known is not None:
            before = (known.label, known.severity, known.count, known.limit, known.name, known.problem)
            if before == told:
                return known
        return Finding(
            code=code, severity=severity, queue=queue, label=label, count=count, limit=limit, name=name,
            problem=problem,
        )  # fmt: skip

    def of_queues(
        self, code: Code, severity: Status, rows: Sequence[QueueRow], count: int, limit: int | None = None
    ) -> Finding:
        """Return a finding on several queues; on one, it names it."""
        if len(rows) == 1:
            return self.of_queue(code, severity, rows[0].ref, count, limit)
        return Finding(code=code, severity=severity, queues=len(rows), count=count, limit=limit)


class LatestVerdict:
    """A verdict on very many queues of which some change: made every few seconds only, because it reads each of
    them.
    """

    def __init__(self) -> None:
        self._computed_ms = 0
        self._last = Verdict(Status.HEALTHY, (), MappingProxyType({}))

    def judge(self, seen: Snapshot, thresholds: Thresholds | None) -> Program[Snapshot]:
        """Return a snapshot with its verdict. For very many queues it may be some seconds old, and other tasks may run
        between its steps.
        """
        is_partial = seen.fresh is not None
        if is_partial:
            yield Sleep(0)
        if not is_partial or not 0 <= seen.at_ms - self._computed_ms < VERDICT_MS:
            found = Findings(seen.shared)
            summed: list[Verdict] = []
            work = (found.recall(self._last.findings), steps(seen, thresholds, found))
            for _ in chain(*work, _summed(found.checks, seen, summed)):
                if is_partial:
                    yield Sleep(0)
            self._computed_ms = seen.at_ms if is_partial else 0
            [self._last] = summed
        last = self._last
        return replace(seen, status=last.status, findings=last.findings, severities=last.severities, checks=last.checks)


def sum_up(checks: Sequence[Check], seen: Snapshot) -> Verdict:
    """Return the verdict on some checks: its status is the severity of the worst finding."""
    found: list[Verdict] = []
    for _ in _summed(checks, seen, found):
        pass
    return found[0]


def _summed(checks: Sequence[Check], seen: Snapshot, out: list[Verdict]) -> Iterator[None]:
    found = [one for check in checks for one in check.findings]
    rows = {row.ref: row for row in seen.queues} if found else {}
    yield
    place = ranks(seen.totals, rows)
    ranked: list[tuple[tuple[int, int], int, Finding]] = []
    for part in _parts(found):
        ranked += [(place(one), at, one) for at, one in enumerate(part, len(ranked))]
        yield
    ranked.sort()  # by their numbers: no two are the same
    findings = tuple([one for _, _, one in ranked])
    yield
    worst: dict[Code, Status] = {}
    for one in findings:
        worst.setdefault(one.code, one.severity)
    status = findings[0].severity if findings else Status.HEALTHY
    out.append(Verdict(status, findings, MappingProxyType(worst), tuple(checks)))


def check_server(server: ServerInfo, limits: Thresholds) -> list[Check]:
    """Return the rules about the server itself."""
    return [
        _role(server), _loading(server), _saving(server), _persistence(server), _eviction(server),
        _memory(server, limits),
    ]  # fmt: skip


def steps(seen: Snapshot, thresholds: Thresholds | None, found: Findings) -> Iterator[None]:
    """Yield every rule in steps of about a ms, for callers on a shared event loop."""
    rows, limits, checks = seen.queues, thresholds or Thresholds(), found.checks
    checks += [*check_server(seen.server, limits), _readable(rows, found)]
    yield
    checks += [_stuck(rows, limits, found), _late(rows, limits, found)]
    yield
    yield from _dead(rows, limits, found)
    yield from _unserved(seen, limits, found)
    checks += [_unknown_tasks(rows, found), _paused(rows, found), _schedules(seen, found)]
    yield
    yield from _backed_up("ready_queue", Code.BACKLOG, rows, limits.ready_queue_max, _ready, found)
    yield from _backed_up("pending_queue", Code.OVERDUE, rows, limits.pending_queue_max, _overdue, found)
    yield from _trends(rows, found)
    checks += map(_measured, seen.measures)
    if seen.unknown_systems:
        checks.append(_unknown_systems(seen.unknown_systems))


def findings_of(row: QueueRow, found: Sequence[Finding], severities: Mapping[Code, Status]) -> list[Finding]:
    """Return what is wrong with one queue, worst first: what was `found` of it, and its share in what was found of all
    queues together.

    `severities` are the worst of each code. A queue is not worse than degraded for its share of dead letters.
    """
    own = [one for one in found if one.code not in _SUMMED]
    shares = [(Code.STUCK, row.stuck, severities.get(Code.STUCK)), (Code.LATE, row.late, severities.get(Code.LATE))]
    if (row.dead or 0) >= _DEAD_SHARE and not any(one.code is Code.DEAD for one in own):
        is_too_many = severities.get(Code.DEAD, _WELL) is not _WELL
        shares.append((Code.DEAD, row.dead, Status.DEGRADED if is_too_many else None))
    made = [
        Finding(code=code, severity=severity, queue=row.ref, label=row.name, count=count)
        for code, count, severity in shares
        if count and severity is not None
    ]
    return sorted((one for one in (*made, *own) if one.severity is not _WELL), key=lambda one: finding_rank(one, row))


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[at : at + STEP] for at in range(0, len(rows), STEP))


def make_check(
    name: str,
    findings: Sequence[Finding],
    well: str,
    *,
    value: int | str | None = None,
    threshold: int | str | None = None,
) -> Check:
    """Return the check of a rule with these findings; `well` is its detail where there are none."""
    worst = max({one.severity for one in findings}, key=_ORDER.index, default=_WELL)
    told = "; ".join(one.text for one in findings[:3]) + (f"; {len(findings) - 3} more" if len(findings) > 3 else "")
    return Check(
        name=name, status=worst, detail=told or well, value=value, threshold=threshold, findings=tuple(findings)
    )


def _unknown(name: str, detail: str) -> Check:
    return Check(name=name, status=None, detail=detail)


def _measured(one: Measure) -> Check:
    """Return the check of a measure of a system, by the limits that the system gives."""
    if one.value is None:
        return _unknown(one.name, f"{one.what}: unknown")
    severity = grade(one.value, one.limit, one.critical)
    finding = Finding(code=one.code, severity=severity, count=one.value, limit=one.limit, name=one.what)
    found = [finding] if severity is not _WELL else []
    return make_check(one.name, found, f"{one.value:,} {one.what}", value=one.value, threshold=one.limit)


def _role(server: ServerInfo) -> Check:
    if server.role is None:
        return _unknown("role", "HELLO and INFO are not allowed: it is unknown whether this is a replica")
    found = [Finding(code=Code.REPLICA, severity=Status.DEGRADED)] if server.role == "replica" else []
    return make_check("role", found, f"the server is a {server.role}", value=server.role)


def _loading(server: ServerInfo) -> Check:
    if server.loading is None:
        return _unknown("loading", "INFO is not allowed: it is unknown whether the server is still loading its data")
    found = [Finding(code=Code.LOADING, severity=Status.UNHEALTHY)] if server.loading else []
    return make_check("loading", found, "the server's data is loaded")


def _saving(server: ServerInfo) -> Check:
    if server.save_failed is None:
        return _unknown("saving", "INFO is not allowed: it is unknown whether saves succeed")
    found = [Finding(code=Code.SAVE_FAILED, severity=Status.UNHEALTHY)] if server.save_failed else []
    return make_check("saving", found, "the last save succeeded")


def _persistence(server: ServerInfo) -> Check:
    if server.persistence is None:
        return _unknown("persistence", "INFO is not allowed: it is unknown what a restart keeps")
    if server.persistence == NO_AOF:
        detail = "no append-only file; CONFIG is not allowed: whether snapshots are on is unknown"
        return Check(name="persistence", status=None, detail=detail, value=NO_AOF)
    found = [Finding(code=Code.NOT_PERSISTED, severity=Status.DEGRADED)] if server.persistence == NOTHING else []
    return make_check("persistence", found, _KEEPS.get(server.persistence, ""), value=server.persistence)


def _unknown_systems(names: Sequence[str]) -> Check:
    found = [Finding(code=Code.UNKNOWN_SYSTEM, severity=Status.DEGRADED, name=name) for name in names]
    return make_check("unknown_systems", found, "adapters read all queue systems that were found")


def _eviction(server: ServerInfo) -> Check:
    if server.eviction is None:
        return _unknown("eviction", "INFO is not allowed: it is unknown whether the server may evict data")
    dangerous = bool(server.max_memory_bytes) and server.eviction != "noeviction"
    found = [Finding(code=Code.EVICTION, severity=Status.DEGRADED, name=server.eviction)] if dangerous else []
    return make_check(
        "eviction", found, "the server does not evict data", value=server.eviction, threshold="noeviction"
    )


def _memory(server: ServerInfo, limits: Thresholds) -> Check:
    if server.memory_bytes is None or server.max_memory_bytes is None:
        return _unknown("memory", "INFO is not allowed: memory is unknown")
    if not server.max_memory_bytes:
        return Check(name="memory", detail="there is no memory limit (maxmemory 0)", value=server.memory_bytes)
    used, most = server.memory_bytes, server.max_memory_bytes
    critical = used * 100 > most * limits.memory_max_critical
    severity = Status.UNHEALTHY if critical else Status.DEGRADED
    measured = Finding(code=Code.MEMORY, severity=severity, count=used, limit=most)
    found = [measured] if used * 100 > most * limits.memory_max_warning else []
    share = f"{used * 100 // most} %"
    return make_check("memory", found, measured.text, value=share, threshold=f"{limits.memory_max_warning} %")


def _readable(rows: Sequence[QueueRow], findings: Findings) -> Check:
    found = [
        findings.of_queue(Code.UNREADABLE, Status.DEGRADED, row.ref, problem=row.problem)
        for row in rows
        if row.problem is not None
    ]
    found += [
        findings.of_queue(
            Code.SET_ASIDE, Status.DEGRADED, row.ref, row.set_aside,
            name=keys.key(row.name, "quarantine").decode(),
        )
        for row in rows
        if row.set_aside
    ]  # fmt: skip
    well = f"all of {counted(len(rows), 'queue')} could be read"
    return make_check("readable", found, well, value=len(found), threshold=0)


def _stuck(rows: Sequence[QueueRow], limits: Thresholds, findings: Findings) -> Check:
    """Check for jobs past their lease or limit: each is a problem, because perhaps only an operator can end it."""
    held = [row for row in rows if row.stuck]
    count = sum(row.stuck or 0 for row in held)
    severity = grade(count, 0, limits.stuck_vm_max_critical)
    found = [findings.of_queues(Code.STUCK, severity, held, count)] if held else []
    return make_check("stuck", found, "no job is stuck", value=count, threshold=0)


def _late(rows: Sequence[QueueRow], limits: Thresholds, findings: Findings) -> Check:
    """Check for jobs that have waited longer than the threshold; a few of them do not lower the status."""
    late = [row for row in rows if row.late]
    count = sum(row.late or 0 for row in late)
    severity = grade(count, limits.stuck_vm_max_warning, limits.stuck_vm_max_critical)
    found = [findings.of_queues(Code.LATE, severity, late, count, limits.stuck_vm_age_threshold)] if late else []
    return make_check("late", found, "no job waits too long", value=count, threshold=limits.stuck_vm_max_warning)


def _dead(rows: Sequence[QueueRow], limits: Thresholds, found: Findings) -> Iterator[None]:
    full = [row for row in rows if row.dead]
    count = sum(row.dead or 0 for row in full)
    severity = grade(count, limits.dlq_max_warning, limits.dlq_max_critical)
    over = [row for row in full if grade(row.dead or 0, limits.dlq_max_warning, limits.dlq_max_critical) is not _WELL]
    yield
    over.sort(key=_negative_dead)
    findings = []
    for part in _parts(over):
        yield
        for row in part:
            own = grade(row.dead or 0, limits.dlq_max_warning, limits.dlq_max_critical)
            findings.append(found.of_queue(Code.DEAD, own, row.ref, row.dead or 0))
    if severity is not _WELL and severity not in {one.severity for one in findings}:
        findings.insert(0, found.of_queues(Code.DEAD, severity, full, count))
    well = counted(count, "dead letter")
    found.checks.append(make_check("dead_letters", findings, well, value=count, threshold=limits.dlq_max_warning))
    yield


def _negative_dead(row: QueueRow) -> int:
    return -(row.dead or 0)


def _unserved(seen: Snapshot, limits: Thresholds, found: Findings) -> Iterator[None]:
    """Check for queues without a worker, and for workers whose handlers ignore cancellation: other workers run their
    jobs, and their slots are lost until a restart.
    """
    rows, findings = seen.queues, []
    for part in _parts(rows):
        for row in part:
            # Delayed jobs too: a retry may be hours ahead, and no worker would run it.
            waiting = (row.ready or 0) + max(row.delayed or 0, row.overdue or 0)
            if waiting and row.workers == 0 and not row.paused:
                long = (row.oldest_s or 0) > limits.unserved_age_max
                severity = Status.UNHEALTHY if long else Status.DEGRADED
                findings.append(found.of_queue(Code.NO_WORKER, severity, row.ref, waiting))
            if row.undelivered:
                findings.append(found.of_queue(Code.UNDELIVERED, Status.DEGRADED, row.ref, row.undelivered))
        yield
    findings += [
        Finding(code=Code.HANDLER_STUCK, severity=Status.UNHEALTHY, name=worker, count=count)
        for worker, count in seen.stuck_handlers.items()
    ]
    if rows and all(row.workers is None for row in rows if row.problem is None):
        detail = "the workers cannot be read: it is unknown whether every queue has one"
        found.checks.append(_unknown("workers", detail))
    else:
        well = "every queue with jobs has a live worker"
        found.checks.append(make_check("workers", findings, well, value=len(findings), threshold=0))


def _unknown_tasks(rows: Sequence[QueueRow], findings: Findings) -> Check:
    found = [
        findings.of_queue(Code.UNKNOWN_TASK, Status.DEGRADED, row.ref, jobs, name=task)
        for row in rows
        for task, jobs, _ in row.unknown_tasks
    ]
    well = "workers have the task of every job that they received"
    return make_check("unknown_tasks", found, well, value=len(found), threshold=0)


def _paused(rows: Sequence[QueueRow], findings: Findings) -> Check:
    found = [
        findings.of_queue(Code.PAUSED, Status.DEGRADED, row.ref, row.ready) for row in rows if row.paused and row.ready
    ]
    return make_check("paused", found, "no queue with jobs is paused", value=len(found), threshold=0)


def _schedules(seen: Snapshot, findings: Findings) -> Check:
    if seen.late_schedules is None:
        return _unknown("schedules", "the schedules cannot be read: it is unknown whether a run is late")
    found = [
        findings.of_queue(Code.SCHEDULE_LATE, Status.DEGRADED, queue, name=name) for queue, name in seen.late_schedules
    ]
    return make_check("schedules", found, "no schedule is late", value=len(found), threshold=0)


def _trends(rows: Sequence[QueueRow], found: Findings) -> Iterator[None]:
    """Yield what no single look tells: dead letters that grow, and queues that fill faster than they drain."""
    findings = []
    for part in _parts(rows):
        for row in part:
            if (row.dead_per_min or 0) >= _DEAD_GROWS:
                grown = round(row.dead_per_min or 0)
                findings.append(found.of_queue(Code.DEAD_GROWING, Status.DEGRADED, row.ref, grown))
            if row.failing is not None and _fails(*row.failing):
                findings.append(found.of_queue(Code.FAILING, Status.DEGRADED, row.ref, *row.failing))
            if growth := _filling(row, is_known=found.known(Code.FILLING, row.ref) is not None):
                findings.append(found.of_queue(Code.FILLING, Status.DEGRADED, row.ref, round(60 * growth)))
        yield
    if rows and not findings and all(row.in_per_s is None and row.dead_per_min is None for row in rows):
        found.checks.append(_unknown("trends", "rates need a second refresh"))
    else:
        well = "no queue fills faster than it drains or fails more than before, and dead letters do not grow"
        found.checks.append(make_check("trends", findings, well, value=len(findings), threshold=0))


def _fails(now: int, before: int) -> bool:
    """Return whether far more attempts fail than in the last hours, in per cent."""
    return now >= max(_FAILS_TIMES * before, before + _FAILS_MORE)


def _filling(row: QueueRow, *, is_known: bool) -> float:
    """Return how many jobs a second more come than go where that is a problem, else 0; `is_known`: it was one."""
    if row.in_per_s is None or row.out_per_s is None or not row.ready or row.paused:
        return 0
    growth = row.in_per_s - row.out_per_s
    least, share = (_STILL_GROWS, 0.02) if is_known else (_GROWS, 0.1)
    seconds = _FAR_S if row.in_per_s > _FAR_TIMES * row.out_per_s else _HELD_S
    return growth if growth > max(least, share * row.out_per_s) and row.ready > seconds * growth else 0


def _ready(row: QueueRow) -> int:
    return row.ready or 0


def _overdue(row: QueueRow) -> int:
    return row.overdue or 0


def _backed_up(
    name: str, code: Code, rows: Sequence[QueueRow], most: int, measure: Callable[[QueueRow], int], found: Findings
) -> Iterator[None]:
    worst, findings = 0, []
    for part in _parts(rows):
        for row in part:
            count = measure(row)
            worst = max(worst, count)
            severity = grade(count, most, _CRITICAL_TIMES * most)
            if severity is not _WELL:
                limit = most if severity is Status.DEGRADED else _CRITICAL_TIMES * most
                word = row.overdue_word if code is Code.OVERDUE and row.overdue_word != "overdue" else None
                findings.append(found.of_queue(code, severity, row.ref, count, limit, word))
        yield
    found.checks.append(make_check(name, findings, f"largest queue: {worst:,}", value=worst, threshold=most))


def grade(count: int, warning: int, critical: int | None) -> Status:
    """Return how bad a number is: each limit is the last value that is better."""
    if critical is not None and count > critical:
        return Status.UNHEALTHY
    return Status.DEGRADED if count > warning else _WELL
