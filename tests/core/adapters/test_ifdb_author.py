"""What the author of IFDB's document meets first: what is listed can be operated, in the words of the document."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_ifdb import recurring
from core.adapters.test_writers import IfdbWriter
from qdeck.admin import Writer
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE, DATA = "ifdb:task_queue", "ifdb:task_data"


@pytest.fixture
def page(raw: Any) -> IfdbWriter:
    return IfdbWriter(raw)


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def asked(url: str, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    """The JSON of a command."""
    capsys.readouterr()
    assert main([*words, "--json", "--url", url]) == code
    return json.loads(capsys.readouterr().out)


def change(raw: Any, task_id: str, **facts: Any) -> None:
    raw.hset(DATA, task_id, json.dumps(json.loads(raw.hget(DATA, task_id)) | facts))


def test_a_schedule_runs_now_and_is_not_late(
    page: IfdbWriter, raw: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was enqueued hours ago; it is due since now."""
    recurring(page, "ImportGames", 3600)
    before = raw.hget(DATA, "ImportGames")
    assert page.next() is None
    assert asked(url, capsys, "schedule", "run", "ImportGames")["id"] == "ImportGames"
    assert (page.next() or {})["id"] == "ImportGames"
    [row] = asked(url, capsys, "schedule", "list")
    assert row["late_s"] is None
    assert asked(url, capsys, "status")["findings"] == []
    assert main(["undo", "--yes", "--url", url]) == 0
    assert raw.hget(DATA, "ImportGames") == before


def test_a_schedule_that_is_due_is_left_as_it_is(
    page: IfdbWriter, raw: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recurring(page, "FetchFeeds", -200)
    before = raw.hget(DATA, "FetchFeeds")
    assert main(["schedule", "run", "FetchFeeds", "--url", url]) == 1
    assert "is due, and a worker of ifdb runs it next" in capsys.readouterr().err
    assert raw.hget(DATA, "FetchFeeds") == before


def test_a_retried_schedule_is_not_late(page: IfdbWriter, raw: Any, writer: Writer) -> None:
    """Its record keeps the time of the run that failed."""
    recurring(page, "FetchFeeds", -20_000)
    raw.zrem(QUEUE, "FetchFeeds")
    change(raw, "FetchFeeds", pending=False, fail=True, finish_time=datetime.now(UTC).isoformat())
    writer.apply(writer.plan("retry", "ifdb"))
    assert [row.late_s for row in writer.schedules()] == [None]


@pytest.mark.parametrize("verb", ["pause", "resume", "remove", "edit"])
def test_what_a_schedule_of_a_task_lacks_is_said(
    page: IfdbWriter, url: str, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recurring(page, "FetchFeeds", 600)
    options = ["--cron", "0 3 * * *"] if verb == "edit" else []
    assert main(["schedule", verb, "FetchFeeds", *options, "--url", url]) == 64
    told = capsys.readouterr().err
    assert "ifdb cannot" in told
    assert "there is no schedule" not in told
    assert "qdeck bury ifdb --where state:pending --id 'FetchFeeds'" in told


def test_the_hint_stops_it_and_a_retry_starts_it_again(page: IfdbWriter, url: str, writer: Writer) -> None:
    recurring(page, "FetchFeeds", 600)
    assert main(["bury", "ifdb", "--where", "state:pending", "--id", "FetchFeeds", "--yes", "--url", url]) == 0
    assert writer.schedules() == []
    writer.apply(writer.plan("retry", "ifdb"))
    [row] = writer.schedules()
    assert row.next_ms is not None
    assert row.next_ms / 1000 - datetime.now(UTC).timestamp() == pytest.approx(600, abs=60)


def test_a_truncated_record_is_one_in_every_face(
    page: IfdbWriter, raw: Any, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page.enqueue("fine")
    page.enqueue("cut")
    page.enqueue("outside")
    for task_id in ("cut", "outside"):
        raw.hset(DATA, task_id, raw.hget(DATA, task_id)[:100])
    raw.zrem(QUEUE, "outside")
    before = raw.hgetall(DATA), raw.zrange(QUEUE, 0, -1, withscores=True)
    assert [one["id"] for one in asked(url, capsys, "stuck", code=1)] == ["cut"]
    report = asked(url, capsys, "health", code=1)
    [check] = [check for check in report["checks"] if check["name"] == "unreadable"]
    assert (check["ok"], check["detail"]) == (False, "unreadable: 2 records of ifdb:task_data, the first is cut")
    plan = asked(url, capsys, "purge", "--rule", "broken_entries")
    assert {(one["id"], one["reason"]) for one in plan["entries"]} == {
        (task_id, "its record is not a JSON object") for task_id in ("cut", "outside")
    }
    assert main(["purge", "--apply", plan["plan"], "--url", url]) == 0
    assert [task_id.decode() for task_id in raw.hkeys(DATA)] == ["fine"]
    assert asked(url, capsys, "health")["status"] == "healthy"
    assert main(["undo", "--yes", "--url", url]) == 0
    assert (raw.hgetall(DATA), raw.zrange(QUEUE, 0, -1, withscores=True)) == before


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("function:CloneFile", {"CloneUrl(1001)"}), ("module:games.*", {"CloneUrl(1001)"}),
        ("retries_left:0", {"CloneUrl(1001)"}), ("retries_left>0", {"plain"}),
        ("name:CloneUrl(1001)", {"CloneUrl(1001)"}), ("CloneUrl(1001)", {"CloneUrl(1001)"}),
    ],
)  # fmt: skip
def test_fields_of_the_document_are_fields_of_a_filter(
    page: IfdbWriter, raw: Any, writer: Writer, wanted: str, found: set[str]
) -> None:
    for task_id in ("CloneUrl(1001)", "plain"):
        page.enqueue(task_id)
    facts = {"name": "CloneUrl(1001)", "module": "games.tasks.uploads", "function": "CloneFile", "retries_left": 0}
    change(raw, "CloneUrl(1001)", **facts)
    assert {job.id for job in writer.jobs("ifdb", where=wanted)} == found


@pytest.mark.parametrize("ids", [["CloneUrl(1001)"], ["CloneUrl(1001):m.f:1"], ['odd "*\\ (name', "CloneUrl(1001)"]])
def test_jobs_are_listed_by_id(
    page: IfdbWriter, raw: Any, url: str, ids: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for task_id in ("CloneUrl(1001):m.f:1", "CloneUrl(1002):m.f:2", 'odd "*\\ (name'):
        page.enqueue(task_id)
        change(raw, task_id, name=task_id.partition(":")[0])
    words = [part for job_id in ids for part in ("--id", job_id)]
    found = asked(url, capsys, "jobs", "ifdb", *words)
    assert {job["name"] for job in found} == {job_id.partition(":")[0] for job_id in ids}
    assert asked(url, capsys, "jobs", "ifdb", *words, "--state", "dead") == []
    assert len(asked(url, capsys, "jobs", "ifdb", *words, "--where", "state:pending or state:dead")) == len(ids)


def test_succeeded_tasks_are_kept_for_seven_days(page: IfdbWriter, raw: Any, writer: Writer) -> None:
    """The default of `cleanup_task_data --days`."""
    for task_id, days in (("young", 6), ("old", 8)):
        page.enqueue(task_id)
        ended = datetime.now(UTC) - timedelta(days=days)
        page.execute(page.next() or {})
        change(raw, task_id, finish_time=ended.isoformat())
    assert [entry.id for entry in writer.plan_purge(["task_too_old"]).entries()] == ["old"]
