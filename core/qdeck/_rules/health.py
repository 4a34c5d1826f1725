"""The health of a server and its queues: sizes and ages of each state, errors, and the verdict.

The verdict is that of `status`: the rules are in one place. What this user may not read, or what would take too long
to count, is None and reported, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qdeck._errors import QdeckError
from qdeck._formatting import counted
from qdeck._model import verdict
from qdeck._model.values import Check, Finding, QueueRef, QueueRow, Snapshot, State, Status
from qdeck._redis.errors import LOST
from qdeck._rules import unreadable_values
from qdeck._server import finding_times
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.model import AdapterHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """One state of one queue. With many jobs the ages are from a sample, and `exact` is false."""

    size: int | None
    oldest_age: float | None = None
    avg_age: float | None = None
    stuck_count: int | None = 0
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHealth:
    """Running and waiting jobs of one task, as another system counts them."""

    active: int | None
    pending: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingRates:
    """Jobs a minute, from the difference of two refreshes."""

    enqueued: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Numbers of errors; None where they could not be counted."""

    dead: int | None
    stuck: int | None
    late: int | None
    orphaned: int | None
    stuck_vms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The health of a server's queues at one moment. `queues` is state → queue → numbers."""

    at_ms: int
    status: Status
    findings: tuple[Finding, ...]
    queues: Mapping[str, Mapping[QueueRef, QueueHealth]]
    tasks: Mapping[str, TaskHealth]
    rates: ProcessingRates | None
    errors: Errors
    checks: tuple[Check, ...]
    notices: tuple[str, ...]
    snapshot: Snapshot = field(repr=False)
    thresholds: Thresholds = field(default_factory=Thresholds, repr=False)
    adapters: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    adapter_rates: Mapping[str, float | None] = field(default_factory=lambda: MappingProxyType({}))
    """What adapters count a minute, by the names of their systems."""


def stuck_vms(rows: Iterable[QueueRow]) -> int:
    """Return stuck and late jobs, as the document on queue reliability counts them: of VMPooler only machines."""
    return sum((row.stuck or 0) + (row.late or 0) for row in rows if row.problem is None and not row.serves_others)


def report(adapters: Adapters, limits: Limits, *, orphans: bool = True) -> Program[HealthReport]:
    """Return the report, from plain reads."""
    thresholds = adapters.native.thresholds
    seen = yield from adapters.look()
    notices = list(seen.notices)
    rows = [row for row in seen.queues if row.problem is None]
    measured = yield from _measure(seen, adapters, limits if orphans else None, notices)
    known = bool(rows) or not seen.queues
    checks = [
        *seen.checks,
        (yield from unreadable_values.check(seen, adapters, notices)),
        _orphan_check(measured.orphaned, limits),
        _clock_check(seen),
    ]
    listed = verdict.sum_up(checks, seen)
    return HealthReport(
        at_ms=seen.at_ms,
        status=listed.status,
        findings=(yield from finding_times.dated(listed.findings, thresholds, seen.at_ms)),
        queues=MappingProxyType({state: MappingProxyType(of) for state, of in measured.queues.items()}),
        tasks=MappingProxyType(measured.tasks),
        rates=_rates(rows),
        errors=Errors(
            dead=seen.totals.dead if known else None,
            stuck=seen.totals.stuck if known else None,
            late=seen.totals.late if known else None,
            orphaned=measured.orphaned,
            stuck_vms=stuck_vms(rows) if known else None,
        ),
        checks=tuple(checks),
        notices=tuple(notices),
        snapshot=seen,
        thresholds=thresholds,
        adapters=MappingProxyType(measured.adapters),
        adapter_rates=MappingProxyType(measured.rates),
    )


@dataclass(slots=True)
class _Measured:
    """What the adapters measured. `queues` is state → queue → numbers."""

    queues: dict[str, dict[QueueRef, QueueHealth]]
    orphaned: int | None
    tasks: dict[str, TaskHealth] = field(default_factory=dict)
    adapters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rates: dict[str, float | None] = field(default_factory=dict)

    def add(self, adapter: Adapter, health: AdapterHealth) -> None:
        """Add what an adapter measured: it has more numbers than the rows of its queues."""
        for one in health.states:
            self.queues[one.state.value][QueueRef(adapter.name, one.queue)] = QueueHealth(
                size=one.size, oldest_age=one.oldest_s, avg_age=one.average_s, stuck_count=one.stuck, exact=one.exact
            )
        for task, (active, pending) in health.tasks.items():
            name = task if task not in self.tasks else f"{adapter.name}/{task}"
            self.tasks[name] = TaskHealth(active=active, pending=pending)
        if adapter.counts_orphans and self.orphaned is not None:
            self.orphaned = None if health.orphaned is None else self.orphaned + health.orphaned
        if health.facts is not None:
            self.adapters[adapter.name] = health.facts
        self.rates.update(health.rates)


def _measure(seen: Snapshot, adapters: Adapters, limits: Limits | None, notices: list[str]) -> Program[_Measured]:
    """Ask each adapter that is there; report one that cannot be read, and continue with the others."""
    found = _Measured(_queues(seen), None if limits is None else 0)
    for adapter in adapters.shown:
        if not adapter.is_there:
            continue
        rows = [row for row in seen.queues if row.adapter == adapter.name]
        try:
            health = yield from adapter.health(seen.at_ms, rows, limits)
        except LOST:
            raise
        except QdeckError as error:
            notices.append(f"{adapter.name} could not be measured: {error}")
            found.orphaned = None
            continue
        found.add(adapter, health)
        notices += [notice for notice in health.notices if notice not in notices]
    return found


def _orphan_check(count: int | None, limits: Limits) -> Check:
    if count is None:
        return Check(name="orphaned_records", status=None, detail="orphaned records were not counted")
    records = counted(count, "orphaned record")
    detail = "no orphaned records" if not count else f"{records}; qdeck purge removes them"
    threshold = limits.words("max_orphaned_age")
    return Check(name="orphaned_records", detail=detail, value=count, threshold=threshold)


def _clock_check(seen: Snapshot) -> Check:
    if seen.local_clock:
        detail = "TIME is not allowed: ages use this machine's clock"
        return Check(name="clock", status=None, detail=detail)
    return Check(name="clock", detail="ages use the server's clock")


def _rates(rows: Sequence[QueueRow]) -> ProcessingRates | None:
    known = [(row.in_per_s, row.out_per_s) for row in rows if row.in_per_s is not None and row.out_per_s is not None]
    if not known:
        return None
    return ProcessingRates(enqueued=60 * sum(came for came, _ in known), ended=60 * sum(went for _, went in known))


def _queues(seen: Snapshot) -> dict[str, dict[QueueRef, QueueHealth]]:
    """Return the sizes of all states of all queues."""
    return {
        state.value: {
            row.ref: QueueHealth(size=(size := getattr(row, state.value)), stuck_count=None if size is None else 0)
            for row in seen.queues
        }
        for state in State
    }
