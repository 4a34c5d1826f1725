"""Sidekiq, from jobs as it writes them: what is shown, and what each verb changes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.sidekiq.records import failed, fill, job, load, process
from qdeck.admin import Code, Reader, Writer
from qdeck.testing.adapters import contents
from support.counting import CountingProxy

if TYPE_CHECKING:
    import redis


@pytest.fixture
def server(raw: redis.Redis) -> redis.Redis:
    fill(raw)
    return raw


def test_queues_and_sets_show_every_state(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.snapshot().queues}
    assert set(rows) == {"default", "low", "set:retry", "set:schedule", "set:dead"}
    assert (rows["default"].ready, rows["default"].running, rows["default"].workers) == (7, 1, 1)
    assert (rows["low"].ready, rows["low"].running) == (1, 1)
    assert (rows["set:schedule"].delayed, rows["set:schedule"].overdue, rows["set:schedule"].stuck) == (3, 1, 1)
    assert (rows["set:retry"].delayed, rows["set:retry"].stuck, rows["set:dead"].dead) == (2, 0, 5)


def test_a_dead_job_is_shown_whole(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        [dead] = [one for one in reader.jobs("set:dead") if one.id == "d1"]
        detail = reader.job("set:dead", dead.key)
    assert (dead.task, dead.error, dead.attempts) == ("HardJob", "Net::ReadTimeout", 25)
    assert dead.message == "no answer ✗ token=***"
    assert dead.payload() == {"class": "HardJob", "args": ["x", {"token": "***"}]}
    assert str(detail.log).startswith("app/hard_job.rb:7")


def test_what_sidekiq_8_left_is_read(url: str, raw: redis.Redis) -> None:
    load(raw)
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.snapshot().queues}
        [dead] = reader.jobs("set:dead")
    assert (rows["set:dead"].dead, rows["set:retry"].delayed, rows["set:schedule"].delayed) == (1, 1, 1)
    assert (dead.task, dead.error, dead.enqueued_ms) == ("DeadJob", "RuntimeError", 1_794_981_726_728)


def test_a_retry_pushes_what_sidekiq_pushes(url: str, raw: redis.Redis) -> None:
    one = failed("d1")
    raw.zadd("dead", {one: 5, failed("d2"): 5})  # of one score: Sidekiq's own tool takes both out for a moment
    raw.sadd("queues", "other")
    with Writer(url) as writer:
        result = writer.apply(writer.plan("retry", "set:dead", ids=["d1"]))
    assert result.applied == 1
    [pushed] = raw.lrange("queue:default", 0, -1)
    after, before = json.loads(pushed), json.loads(one)
    assert after.pop("enqueued_at") > before.pop("enqueued_at")
    assert after == before | {"retry_count": 23}
    assert list(json.loads(pushed)) == list(json.loads(one))
    assert raw.sismember("queues", "default")
    assert raw.zcard("dead") == 1


def test_moments_stay_in_the_unit_of_the_job(url: str, raw: redis.Redis) -> None:
    load(raw)
    with Writer(url) as writer:
        writer.apply(writer.plan("retry", "set:dead"))
    [pushed] = raw.lrange("queue:default", 0, -1)
    assert json.loads(pushed)["enqueued_at"] > 1e12  # ms, as Sidekiq 8


def test_what_is_of_a_batch_is_not_discarded(url: str, server: redis.Redis) -> None:
    with Writer(url) as writer:
        plan = writer.plan("discard", "set:dead", ids=["d1", "d3"])
    assert plan.count == 1
    assert "batch" in plan.tail.skipped[0].why


def test_undo_restores_every_state(url: str, server: redis.Redis) -> None:
    before = contents(server)
    with Writer(url) as writer:
        for verb, queue in (
            ("retry", "set:dead"), ("run", "set:schedule"), ("run", "set:retry"), ("bury", "set:retry"),
            ("discard", "default"), ("discard", "set:dead"),
        ):  # fmt: skip
            done = writer.apply(writer.plan(verb, queue))
            assert done.applied, (verb, queue)
            assert contents(server) != before
            assert writer.undo(done.batch).restored == done.applied
            assert contents(server) == before, (verb, queue)


def test_processes_are_listed_and_those_that_are_gone(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        alive, gone = reader.workers()
    assert (alive.alive, alive.host, alive.concurrency, list(alive.queues)) == (True, "web-1", 5, ["default", "low"])
    assert (gone.id, gone.alive) == ("web-2:9:5d1f0c7a9b3e", False)


def test_a_queue_that_no_process_serves_is_found(url: str, raw: redis.Redis) -> None:
    raw.sadd("queues", "default", "low")
    raw.lpush("queue:default", job("a"))
    raw.lpush("queue:low", job("b", "low"))
    process(raw, "web-1:7:0e1998734eaa", "low")
    with Reader(url) as reader:
        found = [one for one in reader.snapshot().findings if one.code == Code.NO_WORKER]
    assert [one.queue and one.queue.name for one in found] == ["default"]


def test_short_names_of_other_programs_are_no_sidekiq(url: str, raw: redis.Redis) -> None:
    raw.hset("queues", "a", "1")
    raw.zadd("schedule", {"mine": time.time()})
    with Reader(url) as reader:
        seen = reader.snapshot()
    assert (seen.queues, seen.notices) == ((), ())


def test_a_refresh_reads_the_names_of_processes_once(url: str, server: redis.Redis) -> None:
    with CountingProxy.before(url) as proxy, Reader(proxy.url) as reader:
        reader.snapshot()
        start = len(proxy.requests())
        reader.snapshot()
        requests = proxy.requests(start)
    # TYPE is the discovery's, which reads every fixed key.
    assert [one.name for one in requests if one.key == "processes" and one.name != "type"] == ["sscan"]


def test_a_job_of_a_batch_is_marked(url: str, raw: redis.Redis) -> None:
    fill(raw)
    with Reader(url) as reader:
        [job] = reader.jobs("set:dead", where='tag:"batch:b1"')
    assert job.id == "d3"
