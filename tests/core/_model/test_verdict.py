"""The rules of the verdict at their boundaries: a threshold is the last value that is good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck.admin import QueueRow, ServerInfo, Status, Thresholds
from support.verdicts import judge

H, D, U = Status.HEALTHY, Status.DEGRADED, Status.UNHEALTHY
GOOD = ServerInfo(
    role="master", memory_bytes=10, max_memory_bytes=0, eviction="noeviction", persistence="aof", save_failed=False,
    loading=False,
)  # fmt: skip
COUNTS = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled", "stuck", "overdue", "late")


def row(name: str = "a:b:actions", /, **more: float | None) -> QueueRow:
    numbers: dict[str, float | None] = dict.fromkeys(COUNTS, 0)
    return QueueRow(name=name, **{**numbers, "workers": 1, **more})  # type: ignore[arg-type]  # each by its own kind


def status(*rows: QueueRow, server: ServerInfo = GOOD, limits: Thresholds | None = None) -> Status:
    return judge(*rows, server=server, limits=limits).status


@pytest.mark.parametrize(("count", "expected"), [(0, H), (100, H), (101, D), (1000, D), (1001, U)])
def test_dead_letters(count: int, expected: Status) -> None:
    """'Healthy: DLQ size < 100; Degraded: DLQ size < 1000; Unhealthy: DLQ size > 1000'"""
    assert status(row(dead=count)) is expected
    half = count // 2
    assert status(row("a:x:actions", dead=half), row("a:y:actions", dead=count - half)) is expected, "all queues count"


@pytest.mark.parametrize(("count", "expected"), [(0, H), (1, D), (50, D), (51, U)])
def test_stuck(count: int, expected: Status) -> None:
    """'Healthy: no stuck VMs; Degraded: few stuck VMs; Unhealthy: many stuck VMs', and 'stuck_vm_max_critical: 50'"""
    assert status(row(stuck=count)) is expected
    assert status(row("a:x:actions", stuck=count // 2), row("a:y:actions", stuck=count - count // 2)) is expected


@pytest.mark.parametrize(("count", "expected"), [(0, H), (10, H), (11, D), (50, D), (51, U)])
def test_late(count: int, expected: Status) -> None:
    """'stuck_vm_max_warning: 10, stuck_vm_max_critical: 50', of jobs that wait for longer than the threshold"""
    assert status(row(late=count)) is expected
    found = judge(row(late=count), server=GOOD).findings
    assert [one.severity for one in found] == [expected] * bool(count), "a few are told, and not held against it"


def test_what_is_stuck_and_what_waits_for_too_long_are_two_findings_with_their_own_numbers() -> None:
    checks = {check.name: check for check in judge(row(stuck=3, late=12), row("a:x:actions", late=1)).checks}
    assert [(name, checks[name].value, checks[name].threshold) for name in ("stuck", "late")] == [
        ("stuck", 3, 0), ("late", 13, 10)
    ]  # fmt: skip
    assert checks["stuck"].detail == "3 jobs stuck in a:b:actions"
    assert checks["late"].detail == "13 jobs in 2 queues have been waiting for over 2h"


@pytest.mark.parametrize(("count", "expected"), [(500, H), (501, D), (1000, D), (1001, U)])
def test_ready_queue_max(count: int, expected: Status) -> None:
    """'ready_queue_max: 500'; critically backed up is twice as much"""
    assert status(row(ready=count)) is expected
    assert status(row("a:x:actions", ready=500), row("a:y:actions", ready=count)) is expected, "of one queue"


@pytest.mark.parametrize(("count", "expected"), [(100, H), (101, D), (200, D), (201, U)])
def test_pending_queue_max(count: int, expected: Status) -> None:
    """'pending_queue_max: 100': those whose time has come; jobs delayed on purpose are no backlog"""
    assert status(row(delayed=count, overdue=count)) is expected
    assert status(row(delayed=10_000, overdue=0)) is H


def test_a_queue_without_a_living_worker() -> None:
    findings = judge(row(ready=2, workers=0, oldest_s=300.0), server=GOOD).findings
    assert [(finding.severity, finding.text) for finding in findings] == [
        (D, "no live worker for a:b:actions, 2 jobs waiting")
    ]
    assert status(row(ready=1, workers=0, oldest_s=300.5)) is U
    assert status(row(delayed=1, overdue=1, workers=0)) is D
    assert status(row(delayed=1, workers=0)) is D
    assert status(row(ready=1, workers=None)) is H


@pytest.mark.parametrize(
    ("facts", "expected", "said"),
    [
        ({"role": "replica"}, D, "replica"),
        ({"save_failed": True}, U, "fails to save"),
        ({"loading": True}, U, "loading"),
        ({"max_memory_bytes": 100, "eviction": "allkeys-lru"}, D, "allkeys-lru"),
        ({"max_memory_bytes": 0, "eviction": "allkeys-lru"}, H, ""),
        ({"max_memory_bytes": 1000, "memory_bytes": 900}, H, ""),
        ({"max_memory_bytes": 1000, "memory_bytes": 901}, D, "90%"),
        ({"max_memory_bytes": 1000, "memory_bytes": 980}, D, "98%"),
        ({"max_memory_bytes": 1000, "memory_bytes": 981}, U, "98%"),
    ],
)
def test_the_dangers_of_the_server(facts: dict[str, object], expected: Status, said: str) -> None:
    from dataclasses import replace

    server = replace(GOOD, **facts)  # type: ignore[arg-type]  # each by its own kind
    listed = judge(server=server)
    assert listed.status is expected
    assert said in " ".join(finding.text for finding in listed.findings)


def test_what_cannot_be_known_is_named_and_never_ok() -> None:
    """A degradation is named ("INFO is not allowed: memory is unknown"), never a silent ok."""
    checks = {check.name: check for check in judge(row(workers=None)).checks}
    unknown = {name for name, check in checks.items() if check.status is None}
    assert unknown == {"role", "loading", "saving", "persistence", "eviction", "memory", "workers", "trends"}
    assert checks["memory"].detail == "INFO is not allowed: memory is unknown"


@given(st.data())
def test_custom_thresholds_are_the_last_good_values(data: st.DataObject) -> None:
    """Property: whatever the thresholds, `n` is good and `n + 1` is not, and more is never better."""
    order = list(Status)
    low = data.draw(st.integers(0, 1000))
    high = data.draw(st.integers(low, 2000))
    kind, limits = data.draw(
        st.sampled_from(
            [
                ("dead", Thresholds(dlq_max_warning=low, dlq_max_critical=high)),
                ("late", Thresholds(stuck_vm_max_warning=low, stuck_vm_max_critical=high)),
                ("ready", Thresholds(ready_queue_max=low)),
                ("overdue", Thresholds(pending_queue_max=low)),
            ]
        )
    )
    top = 2 * low if kind in ("ready", "overdue") else high
    assert status(row(**{kind: low}), limits=limits) is H
    assert status(row(**{kind: top}), limits=limits) is (D if top > low else H)
    assert status(row(**{kind: top + 1}), limits=limits) is U
    some, more = sorted(data.draw(st.tuples(st.integers(0, 5000), st.integers(0, 5000))))
    grades = [order.index(status(row(**{kind: count}), limits=limits)) for count in (some, more)]
    assert grades == sorted(grades)
