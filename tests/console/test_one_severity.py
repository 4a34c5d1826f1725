"""One fact has one severity: the status, its row, its tab, Health and the exit code agree, whatever the numbers."""

from __future__ import annotations

from typing import Final

import pytest

from qdeck.admin import Code, QueueRow, ServerInfo, Snapshot, State, Status
from qdeck_console.feed import FeedState
from qdeck_console.presenters import frame, health, jobs, queue_detail, queues
from qdeck_console.presenters.line_parts import PLAIN
from qdeck_console.presenters.queues import QueueView
from qdeck_console.presenters.server import server_lines
from qdeck_console.queue_findings import FindingsByQueue, ListedQueue, Severity
from support.verdicts import judge

Q: Final = "shop:mail:actions"
CHECKS: Final = {"stuck": Code.STUCK, "late": Code.LATE, "dead": Code.DEAD}
NAMES: Final = {"stuck": "stuck", "late": "late", "dead": "dead_letters"}
ROLES: Final = {Status.HEALTHY: "text", Status.DEGRADED: "warn", Status.UNHEALTHY: "bad"}


def listed(by: FindingsByQueue, seen: Snapshot) -> tuple[ListedQueue, ...]:
    for _ in by.steps(seen):
        pass
    return by.listed.entries


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        ("stuck", 1, Status.DEGRADED), ("stuck", 50, Status.DEGRADED), ("stuck", 51, Status.UNHEALTHY),
        ("late", 10, Status.HEALTHY), ("late", 11, Status.DEGRADED), ("late", 51, Status.UNHEALTHY),
        ("dead", 12, Status.HEALTHY), ("dead", 101, Status.DEGRADED), ("dead", 1001, Status.UNHEALTHY),
    ],
)  # fmt: skip
def test_every_face_shows_the_severity_of_the_finding(kind: str, count: int, expected: Status) -> None:
    seen = judge(QueueRow(name=Q, workers=1, **{kind: count}))  # type: ignore[arg-type]  # each by its own kind
    code = CHECKS[kind]
    assert seen.status is expected
    assert seen.severities.get(code, Status.HEALTHY) is expected
    [entry] = listed(FindingsByQueue(), seen)
    assert entry.severity is Severity.of(expected)
    assert frame.role_of(seen, code) == ROLES[expected]
    [check] = [row for row in health.rows(seen) if row.check == NAMES[kind]]
    assert (check.status, check.value) == (expected, count)
    [word] = [label for label, _, _, group in health.heads(health.rows(seen)) if check in group]
    assert word == entry.severity.label


def test_a_row_follows_the_findings_on_all_queues_though_it_did_not_change() -> None:
    """50 stuck jobs are a few and 51 are many: what other queues have makes the severity of each."""
    by, still = FindingsByQueue(), QueueRow(name=Q, stuck=1)
    levels = []
    for others in (49, 50, 49):
        entries = listed(by, judge(still, QueueRow(name="shop:bills:actions", stuck=others)))
        levels.append([entry.severity for entry in entries])
    assert levels == [[Severity.WATCH] * 2, [Severity.ACT] * 2, [Severity.WATCH] * 2]


def test_dead_letters_of_a_queue_count_once_all_together_are_too_many() -> None:
    rows = [QueueRow(name=f"shop:q{n}:actions", dead=dead) for n, dead in enumerate((60, 60, 9))]
    assert [entry.severity for entry in listed(FindingsByQueue(), judge(rows[0]))] == [Severity.FINE]
    seen = judge(*rows)
    assert [one.text for one in seen.findings] == ["129 dead letters in 3 queues"]
    assert [entry.severity for entry in listed(FindingsByQueue(), seen)] == [
        Severity.WATCH,
        Severity.WATCH,
        Severity.FINE,
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (QueueRow(name=Q, stuck=2), "lease expired"),
        (QueueRow(name=Q, stuck=2, over_limit=2), "over the time limit"),
        (QueueRow(name=Q, stuck=3, over_limit=1), "2 lease expired, 1 over the time limit"),
        (QueueRow(adapter="vmpooler", name="win-2025", stuck=1), "jobs stuck"),
    ],
)
def test_a_row_names_the_reason_of_its_stuck_jobs(row: QueueRow, expected: str) -> None:
    [entry] = listed(FindingsByQueue(), judge(row))
    assert [reason.text for reason in entry.reasons] == [expected]


def test_equal_reasons_of_many_queues_are_one_value() -> None:
    rows = [QueueRow(name=f"shop:q{n}:actions", ready=3, workers=0) for n in range(2)]
    one, other = listed(FindingsByQueue(), judge(*rows))
    assert one.reasons[0] is other.reasons[0]


def test_a_row_need_not_name_its_queue_again() -> None:
    seen = judge(QueueRow(name=Q, ready=3, workers=0, unknown_tasks=(("send", 2, 0),)))  # type: ignore[arg-type]  # as stored
    [entry] = listed(FindingsByQueue(), seen)
    assert [reason.text for reason in entry.reasons] == [
        "no live worker", "no worker has task send, 2 jobs waiting"
    ]  # fmt: skip


@pytest.mark.parametrize(("used", "role"), [(85, "accent"), (90, "accent"), (91, "warn"), (98, "warn"), (99, "bad")])
def test_the_bar_of_the_memory_has_the_colour_of_its_finding(used: int, role: str) -> None:
    seen = judge(server=ServerInfo(memory_bytes=used, max_memory_bytes=100))
    roles = {name.split()[0] for line in server_lines(seen, None, [], None, 60) for _, name in line}
    assert roles & {"accent", "warn", "bad"} == {role}


def test_what_is_wrong_with_a_queue_colours_no_other_number_of_it() -> None:
    """Its dead letters are few, though it lacks a worker for long."""
    seen = judge(QueueRow(name=Q, ready=3, workers=0, dead=2, oldest_s=4000.0))
    [entry] = listed(FindingsByQueue(), seen)
    assert entry.severity is Severity.ACT
    assert [entry.worst(code) for code in (Code.NO_WORKER, Code.DEAD)] == [Severity.ACT, Severity.FINE]
    shown = queue_detail.detail(entry, QueueView(feed_state=FeedState(), naming=PLAIN, reasons_shown=True), 60)
    assert ("no worker", "bad") in [piece for line in shown for piece in line]
    assert ("2", "text") in [piece for line in shown if line and line[0][0] == "dead letters" for piece in line]


@pytest.mark.parametrize(("dead", "role"), [(3, "text"), (101, "warn bold"), (1_001, "bad bold")])
def test_the_jobs_of_a_queue_are_headed_in_the_colours_of_its_findings(dead: int, role: str) -> None:
    seen = judge(QueueRow(name=Q, ready=0, workers=0, dead=dead))
    [entry] = listed(FindingsByQueue(), seen)
    assert (f"{dead:,}", role) in jobs.states_line(State.READY, entry, 160)
    title = jobs.title_line(entry.row.ref, entry, 160, naming=PLAIN)
    assert ("  ·  no worker", "muted") in title, "nothing waits for one"


def test_a_queue_says_how_long_until_it_is_empty_only_while_workers_serve_it() -> None:
    for workers, came, left, told in (
        (2, 3.0, 1.0, "growing"), (2, 1.0, 1.0, "steady"), (2, 0.0, 10.0, "10s"), (0, 0.0, 10.0, "–"),
    ):  # fmt: skip
        [entry] = listed(
            FindingsByQueue(), judge(QueueRow(name=Q, ready=100, workers=workers, in_per_s=came, out_per_s=left))
        )
        assert "".join(text for text, _ in queues.empty_in(entry)) == told
