"""Celery, from messages and results as it writes them: what is shown, and what each verb changes."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest

from core.adapters.celery.records import bind, fill, hold, message, result
from qdeck.admin import Reader, Writer
from qdeck.testing.adapters import contents

if TYPE_CHECKING:
    import redis


@pytest.fixture
def server(raw: redis.Redis) -> redis.Redis:
    fill(raw)
    return raw


def test_queues_and_results_show_every_state(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        rows = {row.name: row for row in reader.snapshot().queues}
    assert set(rows) == {"celery", "celery-web", "results"}
    celery, results = rows["celery"], rows["results"]
    assert (celery.ready, celery.running, celery.delayed, celery.stuck) == (7, 3, 1, 2)
    assert (rows["celery-web"].ready, rows["celery-web"].running) == (2, 0)
    assert (results.dead, results.done, results.cancelled) == (3, 1, 1)


def test_a_failed_task_is_shown_whole(url: str, server: redis.Redis) -> None:
    with Reader(url) as reader:
        detail = reader.job("results", "failed")
    assert (detail.task, detail.error, detail.worker) == ("app.fetch", "ConnectionError", "celery@host")
    assert detail.message == "502 from http://x/1?token=***"
    assert detail.payload() == {"args": ["http://x/1"], "kwargs": {"token": "***"}}


def test_a_failed_task_is_sent_again_once(url: str, raw: redis.Redis) -> None:
    bind(raw, "celery")
    result(raw, "failed")
    with Writer(url) as writer:
        first = writer.plan("retry", "results")
        second = writer.plan("retry", "results")
        batch = writer.apply(first)
        assert (batch.applied, writer.apply(second).applied) == (1, 0)
        assert writer.plan("retry", "results").count == 0  # it is no dead letter any more
    [sent] = raw.lrange("celery", 0, -1)
    envelope = json.loads(sent)
    assert envelope["headers"]["task"] == "app.fetch"
    assert envelope["headers"]["id"] != "failed"
    assert json.loads(base64.b64decode(envelope["body"]))[:2] == [["http://x/1"], {"token": "tok123"}]
    assert raw.exists("celery-task-meta-failed")


def test_a_failed_task_without_its_arguments_says_what_to_set(url: str, raw: redis.Redis) -> None:
    bind(raw, "celery")
    result(raw, "plain", args="absent", kwargs="absent", name="absent", queue="absent")
    with Writer(url) as writer:
        plan = writer.plan("retry", "results")
    assert plan.count == 0
    assert "result_extended" in plan.tail.skipped[0].why


def test_a_message_past_its_visibility_timeout_is_put_back_as_kombu_does(url: str, raw: redis.Redis) -> None:
    bind(raw, "celery")
    hold(raw, "late", ago_s=9000, priority=4)
    hold(raw, "runs")
    hold(raw, "later", ago_s=9000, eta="2100-01-01T00:00:00+00:00")
    with Writer(url) as writer:
        result_ = writer.apply(writer.plan("requeue", "celery"))
    assert result_.applied == 1
    [back] = raw.lrange("celery\x06\x163", 0, -1)
    envelope = json.loads(back)
    assert envelope["headers"]["redelivered"] is True
    assert envelope["properties"]["delivery_info"]["redelivered"] is True
    assert set(raw.hkeys("unacked")) == {b"tag-runs", b"tag-later"}


def test_undo_restores_every_state(url: str, server: redis.Redis) -> None:
    before = contents(server)
    with Writer(url) as writer:
        for verb, queue in (("retry", "results"), ("requeue", "celery"), ("discard", "celery"), ("discard", "results")):
            done = writer.apply(writer.plan(verb, queue))
            assert done.applied, verb
            assert contents(server) != before
            assert writer.undo(done.batch).restored == done.applied
            assert contents(server) == before, verb


def test_a_prefix_and_other_priorities_are_settings(url: str, raw: redis.Redis) -> None:
    raw.sadd("shop:_kombu.binding.celery", "celery\x06\x16\x06\x16celery")
    raw.lpush("shop:celery", message("one"))
    raw.lpush("shop:celery:5", message("two", priority=5))
    settings = {"celery": {"prefix": "shop:", "separator": ":", "priority_steps": (0, 5)}}
    with Reader(url, adapters=("celery",), adapter_settings=settings) as reader:
        [row] = reader.snapshot().queues
    assert row.ready == 2


def test_groups_chords_and_parents_are_marked(url: str, raw: redis.Redis) -> None:
    told = json.loads(message("t1"))
    told["headers"] |= {"group": "g1", "parent_id": "p1"}
    told["body"] = base64.b64encode(json.dumps([[], {}, {"chord": {"task": "app.sum"}}]).encode()).decode()
    bind(raw, "celery")
    raw.lpush("celery", json.dumps(told), message("t2"))
    result(raw, "t3", group_id="g1", parent_id="p2")
    with Reader(url) as reader:
        tags = {job.id: job.tags for name in ("celery/celery", "celery/results") for job in reader.jobs(name)}
    assert tags == {"t1": ("group:g1", "parent:p1", "chord"), "t2": (), "t3": ("group:g1", "parent:p2")}
