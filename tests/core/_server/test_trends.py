"""Trends of queues: dead letters that grow, and queues that fill faster than they drain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qdeck._model.verdict import LatestVerdict
from qdeck._server.counted_queues import CountedQueue
from qdeck._server.history import Flow
from qdeck.admin import Code, QueueRow, Status
from support.verdicts import judge

QUEUE = "demo:dev:mail:actions"


@pytest.mark.parametrize(
    ("came", "went", "ready", "is_filling"),
    [
        (2.0, 1.4, 400, True), (2.0, 1.6, 400, False), (20.0, 18.0, 400, True), (20.0, 18.2, 400, False),
        (2.0, 1.4, 18, False), (2.0, 1.4, 19, True), (2.0, 1.4, 0, False), (None, None, 400, False),
    ],
)  # fmt: skip
def test_a_queue_fills_faster_than_it_drains(
    came: float | None, went: float | None, ready: int, *, is_filling: bool
) -> None:
    row = QueueRow(name=QUEUE, ready=ready, in_per_s=came, out_per_s=went)
    found = judge(row).findings
    assert [one.code for one in found] == [Code.FILLING] * is_filling
    assert Code.FILLING not in judge(replace(row, paused=True)).severities


def test_the_finding_does_not_come_and_go_with_each_look() -> None:
    standing, drained = LatestVerdict(), (2.3, 1.4, 1.7, 1.5, 1.95, 1.6)  # two a second come
    told = [
        judge(QueueRow(name=QUEUE, ready=400, in_per_s=2.0, out_per_s=rate), standing=standing).findings
        for rate in drained
    ]
    assert [[one.text for one in found] for found in told] == [
        [], *([f"{QUEUE} fills faster than it drains, +{growth}/s"] for growth in (0.6, 0.3, 0.5)), [], []
    ]  # fmt: skip
    assert {one.severity for found in told for one in found} == {Status.DEGRADED}


@pytest.mark.parametrize(("growth", "count"), [(None, None), (0.9, None), (1.0, 1), (29.7, 30)])
def test_dead_letters_that_grow_are_found(growth: float | None, count: int | None) -> None:
    found = judge(QueueRow(name=QUEUE, dead_per_min=growth)).findings
    assert [(one.code, one.count, one.severity) for one in found] == [(Code.DEAD_GROWING, count, Status.DEGRADED)] * (
        count is not None
    )


def test_what_one_look_cannot_tell_is_unknown() -> None:
    for rows, status in (((QueueRow(name=QUEUE),), None), ((), Status.HEALTHY)):
        checks = {check.name: check.status for check in judge(*rows).checks}
        assert checks["trends"] is status


def test_dead_letters_are_counted_by_the_minute() -> None:
    known = CountedQueue(b"", QueueRow(name=QUEUE), None)
    growth: list[float | None] = []
    for second in range(200):
        died = second // 2 if second < 20 else 10 + (second == 199)
        known.flow = Flow(0, 0, died)
        growth.append(known.rates(10_000_000 + 1000 * second)[2])
    assert growth[:10] == [None] * 10, "two at once are no trend"
    assert 25 <= (growth[19] or 0) <= 35
    assert growth[150] == 0
    assert 0 < (growth[199] or 0) <= 1, "one more is no jump"


@pytest.mark.parametrize(
    ("now", "before", "is_failing"),
    [(10, 0, True), (9, 0, False), (30, 10, True), (29, 10, False), (20, 12, False), (90, 80, False)],
)
def test_a_queue_fails_by_its_own_last_hours(now: int, before: int, *, is_failing: bool) -> None:
    found = judge(QueueRow(name=QUEUE, failing=(now, before))).findings
    assert [(one.code, one.count, one.limit) for one in found] == [(Code.FAILING, now, before)] * is_failing
