"""RQ, from records as it writes them: what is shown, and what each verb changes."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING

import pytest

from core.adapters.rq.records import TRACEBACK, fill, put, stamp, work
from qdeck.admin import Code, Reader, Writer
from qdeck.testing.adapters import contents

if TYPE_CHECKING:
    import redis


@pytest.fixture
def server(raw: redis.Redis) -> redis.Redis:
    fill(raw)
    return raw


def test_a_queue_shows_every_state(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.snapshot().queues}
    mail = rows["mail"]
    assert (mail.ready, mail.running, mail.delayed, mail.blocked) == (4, 7, 3, 2)
    assert (mail.dead, mail.done, mail.cancelled) == (4, 3, 2)
    assert (mail.stuck, mail.overdue) == (3, 1)
    assert rows["odd"].problem is not None


def test_a_failed_job_is_shown_whole(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        [job] = [one for one in reader.page("mail", state="dead").jobs if one.id == "failed-1"]
        detail = reader.job("mail", "failed-1")
    assert (job.task, job.error) == ("tasks.fetch", "ConnectionError")
    assert job.message is not None
    assert job.message.startswith("502 from http://x/1")
    assert job.payload() == {"function": "tasks.fetch", "args": ["http://x/1"], "kwargs": {"token": "***"}}
    assert detail.failure is not None
    assert (detail.failure.traceback or "").count("\n") == TRACEBACK.count("\n")
    assert [event.kind for event in detail.history] == ["failed"]


def test_a_retry_leaves_what_rq_requeue_leaves(url: str, raw: redis.Redis) -> None:
    put(raw, "mail", "one", "failed")
    raw.expire("rq:job:one", 1000)
    with Writer(url) as writer:
        writer.apply(writer.plan("retry", "mail"))
    record: dict[bytes, bytes] = raw.hgetall("rq:job:one")  # type: ignore[assignment]
    assert raw.lrange("rq:queue:mail", 0, -1) == [b"one"]
    assert raw.zcard("rq:failed:mail") == 0
    assert (record[b"status"], record[b"started_at"], record[b"ended_at"]) == (b"queued", b"", b"")
    assert zlib.decompress(record[b"exc_info"]) == b""
    assert record[b"enqueued_at"] > record[b"created_at"]
    assert raw.ttl("rq:job:one") > 0  # as RQ leaves it


def test_undo_restores_every_state(url: str, server: redis.Redis) -> None:
    before = contents(server)
    with Writer(url) as writer:
        for verb in ("retry", "run", "cancel", "requeue", "bury", "discard"):
            result = writer.apply(writer.plan(verb, "mail", stuck=verb in ("requeue", "bury")))
            assert result.applied, verb
            assert contents(server) != before
            assert writer.undo(result.batch).restored == result.applied
            assert contents(server) == before, verb


def test_a_running_job_whose_worker_lives_is_left_alone(url: str, raw: redis.Redis) -> None:
    put(raw, "mail", "one", "started")
    with Writer(url) as writer:
        for verb in ("requeue", "bury"):
            plan = writer.plan(verb, "mail", ids=["one"])
            assert (plan.count, len(plan.tail.skipped)) == (0, 1), verb


def test_a_job_that_others_wait_for_is_not_discarded(url: str, server: redis.Redis) -> None:
    with Writer(url) as writer:
        result = writer.apply(writer.plan("discard", "mail", ids=["parent", "finished-1"]))
    assert result.applied == 1
    assert server.exists("rq:job:parent")
    assert not server.exists("rq:job:finished-1")


def test_a_job_that_rq_requeues_at_the_same_time_is_left_alone(url: str, raw: redis.Redis) -> None:
    put(raw, "mail", "one", "failed")
    with Writer(url) as writer:
        plan = writer.plan("retry", "mail")
        raw.zrem("rq:failed:mail", "one")  # the first of the two steps of rq requeue
        result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (0, 1)
    assert raw.llen("rq:queue:mail") == 0


def test_workers_are_listed_and_those_that_are_gone(url: str, raw: redis.Redis) -> None:
    work(raw, "busy", "mail", "web", state="busy", current_job="one")
    work(raw, "quit", "mail", death=stamp(1))
    raw.sadd("rq:workers", "rq:worker:killed", "what is this")
    raw.sadd("rq:queues", "rq:queue:mail")
    with Reader(url) as reader:
        rows = {row.id: row for row in reader.workers()}
    assert [rows[name].alive for name in ("busy", "quit", "killed")] == [True, False, False]
    busy = rows["busy"]
    assert (busy.adapter, busy.running, busy.done, busy.failed, list(busy.queues)) == ("rq", 1, 12, 3, ["mail", "web"])
    assert busy.heartbeat_s is not None
    assert busy.heartbeat_s >= 3


def test_a_queue_that_no_worker_serves_is_found(url: str, raw: redis.Redis) -> None:
    put(raw, "mail", "one", "queued")
    put(raw, "web", "two", "queued")
    work(raw, "w1", "web")
    with Reader(url) as reader:
        findings = reader.snapshot().findings
    assert [(one.code, one.queue and one.queue.name) for one in findings] == [(Code.NO_WORKER, "mail")]


def test_a_job_shows_its_dependents_and_its_group(url: str, raw: redis.Redis) -> None:
    fill(raw)
    raw.hset("rq:job:finished-1", "group_id", "batch-7")
    with Reader(url) as reader:
        parent = reader.job("mail", "parent")
        [grouped] = reader.jobs("mail", where='tag:"group:batch-7"')
    assert (parent.dependents, parent.more_dependents) == (("deferred-1",), False)
    assert grouped.id == "finished-1"


@pytest.mark.parametrize(("ttl", "lasts"), [("", 31_536_000), ("600", 600), ("-1", None)])
def test_a_buried_job_ends_when_rq_would_remove_it(url: str, raw: redis.Redis, ttl: str, lasts: int | None) -> None:
    put(raw, "mail", "one", "started", ago_s=9000, score=time.time() - 4000)
    raw.hset("rq:job:one", "failure_ttl", ttl)
    before = contents(raw)
    with Writer(url) as writer:
        done = writer.apply(writer.plan("bury", "mail", stuck=True))
        score = raw.zscore("rq:failed:mail", "one")
        assert isinstance(score, float)
        if lasts is None:
            assert (score, raw.ttl("rq:job:one")) == (-1, -1)
        else:
            assert abs(raw.ttl("rq:job:one") - lasts) < 10
            assert abs(score - time.time() - lasts) < 10
        writer.undo(done.batch)
    assert contents(raw) == before


def test_a_batch_reads_neither_payloads_nor_errors_again(url: str, raw: redis.Redis) -> None:
    for number in range(3):
        put(raw, "mail", f"job-{number}", "failed")
    with Writer(url) as writer:
        plan = writer.plan("retry", "mail")
        raw.config_resetstat()
        assert writer.apply(plan).applied == 3
    stats = raw.info("commandstats")
    assert "cmdstat_hmget" in stats
    assert not {"cmdstat_xrevrange", "cmdstat_hstrlen"} & set(stats)
