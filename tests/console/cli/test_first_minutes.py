"""What an operator types in the first minutes, with a document in mind: it works, or the answer says what does."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.vmpooler.written import dead, machine, ruby
from qdeck_console.__main__ import main

if TYPE_CHECKING:
    import redis


@pytest.fixture(autouse=True)
def pools(raw: redis.Redis) -> None:
    machine(raw, "pending", "slow-heron", "debian-12", clone=ruby(9000))
    raw.hset("vmpooler__vm__orphan-owl", mapping={"clone": ruby(90_000), "pool": "debian-12"})
    dead(raw, "clone", "a")
    dead(raw, "ready", "b")


def test_a_purge_takes_dry_run(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    """The document's `purge_dry_run`; without options a purge is one."""
    assert main(["purge", "--dry-run", "--url", url]) == 0
    assert "would purge 2 entries" in capsys.readouterr().out
    assert raw.smembers("vmpooler__pending__debian-12") == {b"slow-heron"}
    for other in (["--now", "--yes"], ["--apply", "p"]):
        assert main(["purge", "--dry-run", *other, "--url", url]) == 64
        assert "--dry-run excludes" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["clone", "dlq:clone", "vmpooler__dlq__clone"])
def test_a_kind_may_be_the_name_of_its_key(url: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead", "--kind", kind, "--json", "--url", url]) == 0
    assert [letter["id"] for letter in json.loads(capsys.readouterr().out)] == ["a"]


@pytest.mark.parametrize(("value", "count"), [("2h20m", 1), ("2h40m", 0), ("160m", 0), ("8000", 1)])
def test_thresholds_take_ages_as_filters_do(
    url: str, value: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("purge", "--rule", "pending_too_old", "--set", f"max_pending_age={value}", "--json")
    assert main([*words, "--url", url]) == 0
    assert json.loads(capsys.readouterr().out)["count"] == count


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["purge", "--rule", "orphaned"], "'orphaned_records' or 'orphaned_queues'"),
        (["purge", "--set", "days=7"], "max_task_age"),
        (["jobs", "debian-12", "--state", "stuck"], "qdeck stuck"),
        (["dead", "--kind", "clones"], "'clone'"),
        (["purge", "--set", "max_pending_age=2h30"], "15m"),
    ],
)  # fmt: skip
def test_an_error_says_what_works(url: str, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--url", url]) == 64
    assert told in capsys.readouterr().err


def test_one_orphan_is_one_record(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--url", url]) == 1
    assert "1 orphaned record\n" in capsys.readouterr().out


def test_a_task_of_ifdb_is_as_old_as_it_is_due(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    """It was enqueued with a time hours ahead, and waits since then."""
    at = [time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - ago)) for ago in (20_000, 100)]
    task = {"id": "t", "name": "t", "pending": True, "enqueue_time": at[0], "scheduled_time": at[1], "priority": 100}
    raw.hset("ifdb:task_data", "t", json.dumps(task))
    raw.zadd("ifdb:task_queue", {"t": 100_000_000})
    assert main(["jobs", "ifdb", "--json", "--url", url]) == 0
    [job] = json.loads(capsys.readouterr().out)
    assert job["age_s"] == pytest.approx(100, abs=30)
