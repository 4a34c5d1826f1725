"""The verdict on a deck: every rule once, for `status`, for `health` and for the console.

A threshold is the last value that is good: 100 dead letters are healthy, 101 are not. What cannot be known is told as
unknown, and never counted as good or bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck._deck import reads
from qdeck._deck.model import QueueRow, Reason, ServerInfo, Status
from qdeck._settings.thresholds import Thresholds
from qdeck._words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from qdeck._engine.ops import Program

T = TypeVar("T")
_ORDER: Final = tuple(Status)
_WELL: Final = Status.HEALTHY
JUDGE_MS: Final = 5_000
BREATH: Final = reads.read((b"TIME",))  # a round trip, in which whoever else runs on this loop goes on
STEP: Final = 500  # queues between two breaths: about a ms, when each of them is a reason
_CRITICAL_TIMES: Final = 2  # a queue is critically backed up at twice its limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule with what it found. `status` is None when it cannot be known, `reasons` is empty when all is well."""

    name: str
    status: Status | None = Status.HEALTHY
    detail: str
    value: int | str | None = None
    threshold: int | str | None = None
    reasons: tuple[Reason, ...] = ()


class Findings:
    """What the rules found. A reason that is `known` already is that one again: of very many queues most reasons stay,
    and whoever holds them shares them.
    """

    def __init__(self, known: Iterable[Reason] = ()) -> None:
        self.checks: list[Check] = []
        self._known = {reason.text: reason for reason in known}

    def reason(self, status: Status, text: str, queue: str | None = None) -> Reason:
        """A reason."""
        known = self._known.get(text)
        if known is not None and known.status is status and known.queue == queue:
            return known
        return Reason(status=status, text=text, queue=queue)


class Standing:
    """A verdict over very many queues of which some change: judged anew every few seconds only, because it costs a
    look at each of them.
    """

    def __init__(self) -> None:
        self._judged_ms = 0
        self._last: tuple[Status, tuple[Reason, ...]] = (Status.HEALTHY, ())

    def judge(
        self, server: ServerInfo, rows: Sequence[QueueRow], thresholds: Thresholds | None, *, now: int | None
    ) -> Program[tuple[Status, tuple[Reason, ...]]]:
        """The verdict; with `now`, that of some seconds ago will do, and others may go on between its steps."""
        if now is None:
            self._last = sum_up(check_all(server, rows, thresholds))
        elif not 0 <= now - self._judged_ms < JUDGE_MS:
            found = Findings(self._last[1])
            for _ in steps(server, rows, thresholds, found):
                yield BREATH
            self._judged_ms, self._last = now, sum_up(found.checks)
        return self._last


def sum_up(checks: Iterable[Check]) -> tuple[Status, tuple[Reason, ...]]:
    """The status, which is that of the worst reason, and the reasons of some checks, worst first."""
    by_status: Mapping[Status, list[Reason]] = {status: [] for status in reversed(_ORDER)}
    for check in checks:
        for reason in check.reasons:
            by_status[reason.status].append(reason)
    reasons = tuple(chain.from_iterable(by_status.values()))
    return (reasons[0].status if reasons else Status.HEALTHY), reasons


def check_all(server: ServerInfo, rows: Sequence[QueueRow], thresholds: Thresholds | None = None) -> list[Check]:
    """Every rule, whether it found something or not."""
    found = Findings()
    for _ in steps(server, rows, thresholds, found):
        pass
    return found.checks


def steps(
    server: ServerInfo, rows: Sequence[QueueRow], thresholds: Thresholds | None, found: Findings
) -> Iterator[None]:
    """Every rule in steps of about a ms, for whoever shares a loop with others."""
    limits, checks = thresholds or Thresholds(), found.checks
    checks += [
        _role(server), _loading(server), _saving(server), _persistence(server), _eviction(server),
        _memory(server, limits), _readable(rows),
    ]  # fmt: skip
    yield
    checks.append(_stuck(rows, limits))
    yield
    yield from _dead(rows, limits, found)
    yield from _unserved(rows, limits, found)
    checks += [_unknown_tasks(rows), _paused(rows)]
    yield
    yield from _backed_up("ready_queue", rows, limits.ready_queue_max, _ready, found)
    yield from _backed_up("pending_queue", rows, limits.pending_queue_max, _overdue, found)


def _parts(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    return (rows[at : at + STEP] for at in range(0, len(rows), STEP))


def _from(
    name: str,
    reasons: Sequence[Reason],
    well: str,
    *,
    value: int | str | None = None,
    threshold: int | str | None = None,
) -> Check:
    worst = max({reason.status for reason in reasons}, key=_ORDER.index, default=Status.HEALTHY)
    told = "; ".join(reason.text for reason in reasons[:3]) + (f"; {len(reasons) - 3} more" if len(reasons) > 3 else "")
    return Check(name=name, status=worst, detail=told or well, value=value, threshold=threshold, reasons=tuple(reasons))


def _unknown(name: str, detail: str) -> Check:
    return Check(name=name, status=None, detail=detail)


def _role(server: ServerInfo) -> Check:
    if server.role is None:
        return _unknown("role", "HELLO and INFO are not allowed: whether this is a replica is unknown")
    replica = server.role == "replica"
    text = "the server is a replica: nothing can be changed here"
    reasons = [Reason(status=Status.DEGRADED, text=text)] if replica else []
    return _from("role", reasons, f"the server is a {server.role}", value=server.role)


def _loading(server: ServerInfo) -> Check:
    if server.loading is None:
        return _unknown("loading", "INFO is not allowed: whether the server still loads its data is unknown")
    text = "the server is still loading its data: not all of it is there"
    reasons = [Reason(status=Status.UNHEALTHY, text=text)] if server.loading else []
    return _from("loading", reasons, "the server's data is loaded")


def _saving(server: ServerInfo) -> Check:
    if server.save_failed is None:
        return _unknown("saving", "INFO is not allowed: whether saving works is unknown")
    text = "the server fails to save its data to disk: see its log"
    reasons = [Reason(status=Status.UNHEALTHY, text=text)] if server.save_failed else []
    return _from("saving", reasons, "the last save went well")


def _persistence(server: ServerInfo) -> Check:
    # A danger, and a choice that some make on purpose: it is told, and the verdict is not worse for it.
    if server.persistence is None:
        return _unknown("persistence", "INFO is not allowed: what a restart keeps is unknown")
    if server.persistence == "aof":
        return Check(name="persistence", detail="an append-only file keeps what was written", value="aof")
    detail = "no append-only file: what was written since the last snapshot, if there are any, is lost in a crash"
    return Check(name="persistence", detail=detail, value=server.persistence)


def _eviction(server: ServerInfo) -> Check:
    if server.eviction is None:
        return _unknown("eviction", "INFO is not allowed: whether the server may throw data away is unknown")
    text = f"the server may throw queue data away when memory is full (maxmemory-policy {server.eviction})"
    dangerous = bool(server.max_memory_bytes) and server.eviction != "noeviction"
    reasons = [Reason(status=Status.DEGRADED, text=text)] if dangerous else []
    return _from("eviction", reasons, "the server throws no data away", value=server.eviction, threshold="noeviction")


def _memory(server: ServerInfo, limits: Thresholds) -> Check:
    if server.memory_bytes is None or server.max_memory_bytes is None:
        return _unknown("memory", "INFO is not allowed: memory unknown")
    if not server.max_memory_bytes:
        return Check(name="memory", detail="there is no memory limit (maxmemory 0)", value=server.memory_bytes)
    used, most = server.memory_bytes, server.max_memory_bytes
    over = used * 100 > most * limits.memory_max_warning
    critical = used * 100 > most * limits.memory_max_critical
    text = f"the server uses {used / most:.0%} of its memory limit"
    status = Status.UNHEALTHY if critical else Status.DEGRADED
    reasons = [Reason(status=status, text=text)] if over else []
    share = f"{used * 100 // most} %"
    return _from("memory", reasons, text, value=share, threshold=f"{limits.memory_max_warning} %")


def _readable(rows: Sequence[QueueRow]) -> Check:
    reasons = [
        Reason(status=Status.DEGRADED, text=row.problem, queue=row.name) for row in rows if row.problem is not None
    ]
    return _from(
        "readable", reasons, f"all of {counted(len(rows), 'queue')} could be read", value=len(reasons), threshold=0
    )


def _stuck(rows: Sequence[QueueRow], limits: Thresholds) -> Check:
    held, late = [row for row in rows if row.stuck], [row for row in rows if row.late]
    held_count, late_count = sum(row.stuck or 0 for row in held), sum(row.late or 0 for row in late)
    status = _grade(held_count + late_count, limits.stuck_vm_max_warning, limits.stuck_vm_max_critical)
    reasons = []
    if held:
        text = f"{_jobs(held_count)} stuck in {_where(held)}"
        reasons.append(Reason(status=status, text=text, queue=_only(held)))
    if late:
        waits = "waits" if late_count == 1 else "wait"
        text = f"{_jobs(late_count)} of {_where(late)} {waits} for over {_span(limits.stuck_vm_age_threshold)}"
        reasons.append(Reason(status=status, text=text, queue=_only(late)))
    return _from(
        "stuck", reasons, "no job is stuck", value=held_count + late_count, threshold=limits.stuck_vm_max_warning
    )


def _dead(rows: Sequence[QueueRow], limits: Thresholds, found: Findings) -> Iterator[None]:
    full = [row for row in rows if row.dead]
    count = sum(row.dead or 0 for row in full)
    status = _grade(count, limits.dlq_max_warning, limits.dlq_max_critical)
    over = [row for row in full if _grade(row.dead or 0, limits.dlq_max_warning, limits.dlq_max_critical) is not _WELL]
    yield
    over.sort(key=_negative_dead)
    reasons = []
    for part in _parts(over):
        yield
        for row in part:
            own = _grade(row.dead or 0, limits.dlq_max_warning, limits.dlq_max_critical)
            reasons.append(found.reason(own, f"{row.dead:,} dead letters in {row.name}", row.name))
    if status is not _WELL and status not in {reason.status for reason in reasons}:
        reasons.insert(0, Reason(status=status, text=f"{count:,} dead letters in {_where(full)}"))
    well = counted(count, "dead letter")
    found.checks.append(_from("dead_letters", reasons, well, value=count, threshold=limits.dlq_max_warning))
    yield


def _negative_dead(row: QueueRow) -> int:
    return -(row.dead or 0)


def _unserved(rows: Sequence[QueueRow], limits: Thresholds, found: Findings) -> Iterator[None]:
    reasons = []
    for part in _parts(rows):
        for row in part:
            waiting = (row.ready or 0) + (row.overdue or 0)
            if waiting and row.workers == 0 and not row.paused:
                long = (row.oldest_s or 0) > limits.unserved_age_max
                text = f"no live worker for {row.name}, {_jobs(waiting)} waiting"
                reasons.append(found.reason(Status.UNHEALTHY if long else Status.DEGRADED, text, row.name))
        yield
    if rows and all(row.workers is None for row in rows if row.problem is None):
        detail = "the workers cannot be read: whether every queue is served is unknown"
        found.checks.append(_unknown("workers", detail))
    else:
        well = "every queue with jobs has a live worker"
        found.checks.append(_from("workers", reasons, well, value=len(reasons), threshold=0))


def _unknown_tasks(rows: Sequence[QueueRow]) -> Check:
    reasons = [
        Reason(
            status=Status.DEGRADED,
            text=f"no worker knows task {task}, {_jobs(jobs)} of {row.name} waiting",
            queue=row.name,
        )
        for row in rows
        for task, jobs, _ in row.unknown_tasks
    ]
    return _from(
        "unknown_tasks", reasons, "every task of a job that a worker got is known", value=len(reasons), threshold=0
    )


def _paused(rows: Sequence[QueueRow]) -> Check:
    reasons = [
        Reason(status=Status.DEGRADED, text=f"{row.name} is paused, {_jobs(row.ready)} waiting", queue=row.name)
        for row in rows
        if row.paused and row.ready
    ]
    return _from("paused", reasons, "no queue with jobs is paused", value=len(reasons), threshold=0)


def _ready(row: QueueRow) -> tuple[int, str]:
    return row.ready or 0, "ready"


def _overdue(row: QueueRow) -> tuple[int, str]:
    return row.overdue or 0, "overdue"


def _backed_up(
    name: str,
    rows: Sequence[QueueRow],
    most: int,
    measure: Callable[[QueueRow], tuple[int, str]],
    found: Findings,
) -> Iterator[None]:
    worst, reasons = 0, []
    for part in _parts(rows):
        for row in part:
            count, word = measure(row)
            worst = max(worst, count)
            status = _grade(count, most, _CRITICAL_TIMES * most)
            if status is not _WELL:
                limit = most if status is Status.DEGRADED else _CRITICAL_TIMES * most
                text = f"{count:,} jobs {word} in {row.name}, over {limit:,}"
                reasons.append(found.reason(status, text, row.name))
        yield
    found.checks.append(_from(name, reasons, f"the longest has {worst:,}", value=worst, threshold=most))


def _grade(count: int, warning: int, critical: int) -> Status:
    if count > critical:
        return Status.UNHEALTHY
    return Status.DEGRADED if count > warning else Status.HEALTHY


def _where(rows: Sequence[QueueRow]) -> str:
    return rows[0].name if len(rows) == 1 else counted(len(rows), "queue")


def _only(rows: Sequence[QueueRow]) -> str | None:
    return rows[0].name if len(rows) == 1 else None


def _jobs(count: int | None) -> str:
    return counted(count or 0, "job")


def _span(seconds: int) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds:,} s"
