"""IFDB's two keys, written and worked as its page does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_writers import IfdbWriter
from qdeck.admin import State, Writer
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def page(raw: Any) -> IfdbWriter:
    return IfdbWriter(raw)


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def work_off(page: IfdbWriter) -> int:
    """Work until nothing is due, and forget that tasks wait for their retry; return how many ran."""
    ran = 0
    while task := page.next():
        page.execute(task)
        ran += 1
        page.client.hset("ifdb:task_data", task["id"], json.dumps(task | {"scheduled_time": None}))
    return ran


def test_a_retried_task_runs_as_often_as_by_retry_failed_jobs(page: IfdbWriter, writer: Writer) -> None:
    """Three times; the page's own worker counts down before it tests, and ran it twice."""
    page.fails["P"] = 100
    page.enqueue("P", retries=3)
    assert work_off(page) == 3
    writer.apply(writer.plan("retry", "ifdb"))
    assert work_off(page) == 3
    assert [job.id for job in writer.jobs("ifdb", state=State.DEAD)] == ["P"]


def test_a_retry_runs_no_task_whose_dependency_did_not_succeed(page: IfdbWriter, writer: Writer) -> None:
    page.fails["P"] = 4
    page.enqueue("P", retries=1)
    page.enqueue("D", dependency="P")
    work_off(page)
    plan = writer.plan("retry", "ifdb")
    assert [entry.id for entry in plan.entries()] == ["P"]
    writer.apply(plan)
    work_off(page)
    assert page.order == []
    writer.apply(writer.plan("retry", "ifdb"))
    work_off(page)
    assert page.order == ["P", "D"]


def test_a_completion_names_the_dependents_and_undo_does_not_run_a_task_after_them(
    page: IfdbWriter, writer: Writer
) -> None:
    for name, needs in (("P", None), ("D", "P"), ("E", "D")):
        page.enqueue(name, dependency=needs)
    plan = writer.plan("complete", "ifdb", ids=["P"])
    [entry] = plan.entries()
    assert entry.reason == "marked as succeeded, removed from the queue; 1 dependent can start: D"
    assert writer.undo(writer.apply(plan).batch).restored == 1
    assert page.order == []
    done = writer.apply(writer.plan("complete", "ifdb", ids=["P"]))
    work_off(page)
    assert page.order == ["D", "E"]
    back = writer.undo(done.batch)
    assert (back.restored, [skip.id for skip in back.skipped]) == (0, ["P"])
    work_off(page)
    assert page.order == ["D", "E"], "it does not run after them"


def test_failed_attempts_are_counted(page: IfdbWriter, writer: Writer) -> None:
    page.fails["P"] = 2
    page.enqueue("P", retries=3)
    work_off(page)
    page.enqueue("Q")
    assert {job.id: job.attempts for job in writer.jobs("ifdb")} == {"P": 2, "Q": 0}


def recurring(page: IfdbWriter, name: str, due_s: float, **facts: Any) -> None:
    page.enqueue(name)
    task = json.loads(page.client.hget("ifdb:task_data", name))
    due = datetime.now(UTC) + timedelta(seconds=due_s)
    task |= {"cron": "*/30 * * * *", "scheduled_time": due.isoformat(), "module": "core.feedfetcher"}
    task["enqueue_time"] = (due - timedelta(hours=3)).isoformat()
    page.client.hset("ifdb:task_data", name, json.dumps(task | facts))


def test_recurring_tasks_are_schedules(page: IfdbWriter, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    recurring(page, "FetchFeeds", 600)
    recurring(page, "ImportGames", -98)
    recurring(page, "Ended", -9000, pending=False, success=True)
    page.enqueue("plain")
    with Writer(url) as writer:
        writer.add_schedule("native", "shop:actions", "report", cron="0 3 * * *")
    assert main(["schedule", "list", "--json", "--url", url]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {name: (row["adapter"], row["queue"], row["cron"]) for name, row in rows.items()} == {
        "native": ("native", "shop:actions", "0 3 * * *"),
        "FetchFeeds": ("ifdb", "ifdb", "*/30 * * * *"),
        "ImportGames": ("ifdb", "ifdb", "*/30 * * * *"),
    }
    assert rows["FetchFeeds"]["late_s"] is None
    assert rows["ImportGames"]["late_s"] == pytest.approx(98, abs=5)
    assert main(["schedule", "list", "--url", url]) == 0
    assert "core.feedfetcher.f" in capsys.readouterr().out


def test_a_recurring_task_that_no_worker_runs_is_a_warning(
    page: IfdbWriter, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its worker is dead: the page's `redis_queue_status` had nothing to say."""
    recurring(page, "FetchFeeds", -50)
    assert main(["health", "--nagios", "--url", url]) == 0
    recurring(page, "FetchFeeds", -98)
    capsys.readouterr()
    assert main(["health", "--nagios", "--url", url]) == 1
    assert "schedule FetchFeeds of ifdb is late" in capsys.readouterr().out
    page.execute(page.next() or {})
    assert main(["health", "--nagios", "--url", url]) == 0


def test_the_clean_up_of_the_page_is_a_command(page: IfdbWriter, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`cleanup_task_data` removes failed tasks too; one that others wait for stays, else they would run."""
    page.fails = {"failed": 9, "needed": 9}
    for name in ("good", "failed", "needed"):
        page.enqueue(name, retries=1)
    page.enqueue("waits", dependency="needed")
    work_off(page)
    for name in ("good", "failed", "needed"):
        task = json.loads(page.client.hget("ifdb:task_data", name))
        long_ago = datetime.now(UTC) - timedelta(days=8)
        page.client.hset("ifdb:task_data", name, json.dumps(task | {"finish_time": long_ago.isoformat()}))
    words = ("jobs", "discard", "ifdb", "--state", "done", "--state", "dead", "--where", "age>7d")
    assert main([*words, "--yes", "--url", url]) == 1  # one is skipped
    assert "other jobs wait" in capsys.readouterr().err
    assert {name.decode() for name in page.client.hkeys("ifdb:task_data")} == {"needed", "waits"}


@pytest.mark.parametrize("wanted", ["CloneUrl(1001)", "CloneUrl(1001):m.f:1795122246041000"])
def test_a_task_is_found_by_its_name_and_its_id(
    page: IfdbWriter, url: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's ids have a name in front, which is what its operators know."""
    task_id = "CloneUrl(1001):m.f:1795122246041000"
    page.enqueue(task_id)
    task = json.loads(page.client.hget("ifdb:task_data", task_id))
    page.client.hset("ifdb:task_data", task_id, json.dumps(task | {"name": "CloneUrl(1001)"}))
    assert main(["find", wanted, "--json", "--url", url]) == 0
    assert [place["id"] for place in json.loads(capsys.readouterr().out)] == [task_id]
    assert main(["job", "ifdb", wanted, "--json", "--url", url]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == task_id
