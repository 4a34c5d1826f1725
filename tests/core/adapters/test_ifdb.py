"""IFDB's two keys, written and worked as its page does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_writers import IfdbWriter
from qdeck.admin import State, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def page(raw: Any) -> IfdbWriter:
    return IfdbWriter(raw)


@pytest.fixture
def deck(url: str) -> Iterator[Writer]:
    with Writer(url) as deck:
        yield deck


def work_off(page: IfdbWriter) -> int:
    """Work until nothing is due, and forget that tasks wait for their retry; return how many ran."""
    ran = 0
    while task := page.next():
        page.execute(task)
        ran += 1
        page.client.hset("ifdb:task_data", task["id"], json.dumps(task | {"scheduled_time": None}))
    return ran


def test_a_retried_task_runs_as_often_as_by_retry_failed_jobs(page: IfdbWriter, deck: Writer) -> None:
    """Three times; the page's own worker counts down before it tests, and ran it twice."""
    page.fails["P"] = 100
    page.enqueue("P", retries=3)
    assert work_off(page) == 3
    deck.apply(deck.plan("retry", "ifdb"))
    assert work_off(page) == 3
    assert [job.id for job in deck.jobs("ifdb", state=State.DEAD)] == ["P"]


def test_a_retry_runs_no_task_whose_dependency_did_not_succeed(page: IfdbWriter, deck: Writer) -> None:
    page.fails["P"] = 4
    page.enqueue("P", retries=1)
    page.enqueue("D", dependency="P")
    work_off(page)
    plan = deck.plan("retry", "ifdb")
    assert [entry.id for entry in plan.entries()] == ["P"]
    deck.apply(plan)
    work_off(page)
    assert page.order == []
    deck.apply(deck.plan("retry", "ifdb"))
    work_off(page)
    assert page.order == ["P", "D"]


def test_failed_attempts_are_counted(page: IfdbWriter, deck: Writer) -> None:
    page.fails["P"] = 2
    page.enqueue("P", retries=3)
    work_off(page)
    page.enqueue("Q")
    assert {job.id: job.attempts for job in deck.jobs("ifdb")} == {"P": 2, "Q": 0}
