"""BullMQ, from records as it writes them: what is shown, and what each verb changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.adapters.bullmq.records import EMITTED, P, fill, put, queue
from qdeck.admin import Reader, Writer
from qdeck.testing.adapters import contents
from support.counting import CountingProxy

if TYPE_CHECKING:
    import redis


@pytest.fixture
def server(raw: redis.Redis) -> redis.Redis:
    fill(raw)
    return raw


def test_a_queue_shows_every_state(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        [row] = reader.snapshot().queues
    assert (row.adapter, row.name, row.problem) == ("bullmq", "post", None)
    assert (row.running, row.delayed, row.blocked, row.dead, row.done) == (4, 5, 3, 7, 3)
    assert row.stuck == 2


def test_a_failed_job_is_shown_whole(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        detail = reader.job("post", "failed-1")
    assert (detail.task, detail.error, detail.attempts) == ("send", "TypeError", 1)
    assert detail.message == "no route to x?token=***"
    assert detail.payload() == {"to": "a@b.c", "token": "***"}
    assert detail.failure is not None
    assert "mail.js:7:11" in str(detail.failure.traceback)


def test_a_queue_of_another_version_is_not_operated(url: str, raw: redis.Redis) -> None:
    queue(raw, version="9.0.0")
    put(raw, "one", "failed")
    with Writer(url) as writer:
        [row] = writer.snapshot().queues
        plan = writer.plan("retry", "post")
    assert row.problem is not None
    assert plan.count == 0


@pytest.mark.parametrize(("version", "line"), [("5.81.5", "paused"), ("6.7.0", "wait")])
def test_a_retry_into_a_paused_queue_waits_where_that_version_looks(
    url: str, raw: redis.Redis, version: str, line: str
) -> None:
    queue(raw, version=version)
    raw.hset(P + "meta", "paused", 1)
    put(raw, "one", "failed")
    with Writer(url) as writer:
        writer.apply(writer.plan("retry", "post"))
    assert raw.lrange(P + line, 0, -1) == [b"one"]
    assert not raw.exists(P + "marker")


@pytest.mark.parametrize(("version", "key"), [("5.81.5", "wait"), ("6.7.0", "prioritized")])
def test_a_retry_honours_priority_where_that_version_does(url: str, raw: redis.Redis, version: str, key: str) -> None:
    queue(raw, version=version)
    put(raw, "one", "failed", priority=7)
    with Writer(url) as writer:
        writer.apply(writer.plan("retry", "post"))
    assert raw.exists(P + key)
    assert (raw.zscore(P + "prioritized", "one") or 7 * 2**32 + 1) == 7 * 2**32 + 1


def test_the_retry_of_a_child_gives_it_back_to_its_parent(url: str, server: redis.Redis) -> None:
    with Writer(url) as writer:
        batch = writer.apply(writer.plan("retry", "post", ids=["child", "child-2"])).batch
        assert server.smembers(P + "parent:dependencies") == {b"bull:post:child", b"bull:post:child-2"}
        assert not server.exists(P + "parent:failed", P + "parent:unsuccessful")
        writer.undo(batch)
    assert server.hgetall(P + "parent:failed") == {b"bull:post:child": b"no route"}
    assert not server.exists(P + "parent:dependencies")


def test_what_is_of_a_flow_or_a_scheduler_is_not_discarded(url: str, server: redis.Redis) -> None:
    server.sadd(P + "logged:dependencies", "bull:post:wait-1")
    with Writer(url) as writer:
        result = writer.apply(writer.plan("discard", "post", ids=["child", "scheduled", "logged", "single"]))
    assert result.applied == 1
    assert not server.exists(P + "single", P + "de:one")


def test_a_job_whose_worker_has_a_lock_is_left_alone(url: str, server: redis.Redis) -> None:
    with Writer(url) as writer:
        plan = writer.plan("requeue", "post")
        server.set(P + "lost:lock", "token")  # its worker is back
        result = writer.apply(plan)
    assert (plan.count, result.applied) == (2, 1)


def test_undo_restores_every_state(url: str, server: redis.Redis) -> None:
    before = contents(server, without=EMITTED)
    with Writer(url) as writer:
        for verb in ("retry", "run", "requeue", "discard"):
            done = writer.apply(writer.plan(verb, "post"))
            assert done.applied, verb
            assert contents(server, without=EMITTED) != before
            assert writer.undo(done.batch).restored == done.applied
            assert contents(server, without=EMITTED) == before, verb


@pytest.mark.parametrize("prefix", ["eu", r"e[u]*?\\"])
def test_a_prefix_is_a_setting(url: str, raw: redis.Redis, prefix: str) -> None:
    raw.hset(f"{prefix}:post:meta", "version", "bullmq:6.7.0")
    raw.lpush(f"{prefix}:post:wait", "1")
    settings = {"bullmq@eu": {"prefix": prefix}}
    with Reader(url, adapters=("bullmq", "bullmq@eu"), adapter_settings=settings) as reader:
        [row] = reader.snapshot().queues
    assert (row.adapter, row.name, row.ready) == ("bullmq@eu", "post", 1)


def test_a_marker_of_an_early_version_is_no_job(url: str, raw: redis.Redis) -> None:
    queue(raw)
    put(raw, "one", "wait")
    raw.lpush(P + "wait", "0:1795000000000")
    with Reader(url) as reader:
        assert [job.id for job in reader.jobs("post")] == ["one"]


def test_outcomes_of_many_jobs_take_one_round_trip(url: str, raw: redis.Redis) -> None:
    queue(raw)
    for number in range(50):
        put(raw, f"j{number}", "failed")
    with CountingProxy.before(url) as proxy, Writer(proxy.url) as writer:
        plan = writer.plan("retry", "post")
        writer.apply(plan)
        raw.lrem(P + "wait", 1, "j0")
        raw.zadd(P + "completed", {"j0": 5})
        start = len(proxy.requests())
        outcomes = writer.outcomes(plan)
        trips = [request for request in proxy.requests(start) if request.starts_trip and request.name == "zscore"]
    assert (outcomes.total, outcomes.done, outcomes.waiting) == (50, 1, 49)
    assert len(trips) == 1


def test_a_flow_is_shown_from_both_sides(url: str, raw: redis.Redis) -> None:
    queue(raw)
    queue(raw, "mail")
    put(raw, "parent", "waiting-children")
    put(raw, "child", "wait", parentKey=P + "parent")
    put(raw, "ended", "completed", parentKey=P + "parent")
    raw.sadd(P + "parent:dependencies", P + "child", "bull:mail:9")
    raw.hset(P + "parent:processed", P + "ended", '"result"')
    with Reader(url) as reader:
        parent, child = reader.job("bullmq/post", "parent"), reader.job("bullmq/post", "child")
    assert parent.depends_on == ("9@mail", "child", "ended")
    assert (parent.dependents, child.dependents, child.depends_on) == ((), ("parent",), ())
