"""Streams of nooble4's services and topics: what is read of their groups, and what the verbs write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.streams.records import GROUP, OLD_MS, STREAM, TOPIC, WORKER, age, send, take
from qdeck import InvalidOption
from qdeck.admin import Status, Writer
from qdeck.testing.adapters import values
from support.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from qdeck.admin import QueueRow
    from support.commands import Ran


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


@pytest.fixture
def qdeck(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    monkeypatch.setenv("QDECK_URL", url)
    return runner(capsys)


def rows(writer: Writer) -> dict[str, QueueRow]:
    return {row.name: row for row in writer.snapshot().queues}


def waiting(raw: redis.Redis) -> list[Any]:
    """What a worker would be given next, without acknowledging it."""
    found: Any = raw.xreadgroup(GROUP, "next", {STREAM: ">"}, count=100)
    return [fields for _, fields in found[0][1]] if found else []


def test_actions_that_wait_in_a_stream_are_seen(writer: Writer, raw: redis.Redis) -> None:
    send(raw, "a", "b", "c", "d", "e")
    row = rows(writer)[STREAM]
    assert (row.ready, row.running, row.workers) == (5, 0, 0)
    assert writer.snapshot().status is not Status.HEALTHY
    raw.xgroup_create(STREAM, GROUP, "0")
    take(raw)
    row = rows(writer)[STREAM]
    assert (row.ready, row.running, row.stuck, row.dead, row.workers) == (4, 1, 0, 0, 1)
    assert writer.snapshot().status is Status.HEALTHY
    assert [(job.id, job.state, job.worker) for job in writer.jobs(STREAM)][:2] == [
        ("a", "running", WORKER), ("b", "ready", None)
    ]  # fmt: skip
    assert [place.id for place in writer.find("task-c")] == ["c"]


def test_the_age_of_what_waits_is_that_of_its_entry(writer: Writer, raw: redis.Redis) -> None:
    seconds, _ = raw.time()
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    raw.xadd(STREAM, {"data": "{}"}, id=f"{(seconds - 90) * 1000}-0")
    take(raw)
    raw.xadd(STREAM, {"data": "{}"}, id=f"{(seconds - 60) * 1000}-0")
    assert rows(writer)[STREAM].oldest_s == pytest.approx(60, abs=5)


def test_what_a_worker_left_pending_is_stuck_and_done_again(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    left, _ = send(raw, "left", "fresh")
    take(raw, count=2)
    age(raw, left)
    assert rows(writer)[STREAM].stuck == 1
    assert [job.id for job in writer.stuck()] == ["left"]
    before = values(raw)
    batch = writer.apply(writer.plan("requeue", STREAM))
    assert batch.applied == 1
    assert raw.xpending(STREAM, GROUP)["pending"] == 1
    assert raw.xlen(STREAM) == 3
    writer.undo(batch.batch)
    assert values(raw) == before
    kept: Any = raw.xpending_range(STREAM, GROUP, left, left, 1)
    assert kept[0]["time_since_delivered"] >= OLD_MS

    writer.apply(writer.plan("requeue", STREAM))
    [fields] = waiting(raw)
    assert b'"left"' in fields[b"data"]


def test_an_entry_that_was_given_out_too_often_is_a_dead_letter(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    often, once = send(raw, "often", "once")
    take(raw, count=2)
    age(raw, often, deliveries=3)
    age(raw, once)
    row = rows(writer)[STREAM]
    assert (row.running, row.stuck, row.dead) == (1, 1, 1)
    [dead] = writer.jobs(STREAM, state="dead")
    assert (dead.id, dead.error, dead.attempts) == ("often", "NotAcknowledged", 3)
    assert writer.apply(writer.plan("retry")).applied == 1
    assert rows(writer)[STREAM].dead == 0
    assert [b'"often"' in fields[b"data"] for fields in waiting(raw)] == [True]


def test_what_was_acknowledged_since_the_plan_is_left_alone(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    done, claimed, left = send(raw, "done", "claimed", "left")
    take(raw, count=3)
    for entry in (done, claimed, left):
        age(raw, entry)
    plan = writer.plan("requeue", STREAM)
    raw.xack(STREAM, GROUP, done)
    raw.xclaim(STREAM, GROUP, "another", 0, [claimed])
    batch = writer.apply(plan)
    assert (batch.applied, {skip.id for skip in batch.skipped}) == (1, {"done", "claimed"})
    assert raw.xlen(STREAM) == 4


def test_an_entry_that_waits_is_discarded_and_counted_all_the_same(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    send(raw, "a", "b", "c")
    batch = writer.apply(writer.plan("discard", STREAM, where="id:b"))
    assert batch.applied == 1
    assert rows(writer)[STREAM].ready == 2  # the server says no number then
    writer.undo(batch.batch)
    assert rows(writer)[STREAM].ready == 3
    assert [b'"b"' in fields[b"data"] for fields in waiting(raw)] == [False, False, True]


def test_a_pending_entry_that_was_deleted_can_be_acknowledged_only(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    [gone] = send(raw, "gone")
    take(raw)
    age(raw, gone)
    raw.xdel(STREAM, gone)
    assert [skip.why for skip in writer.plan("requeue", STREAM).tail.skipped] == ["it was deleted from the stream"]
    assert writer.apply(writer.plan("discard", STREAM)).applied == 1
    assert raw.xpending(STREAM, GROUP)["pending"] == 0


def test_a_topic_has_a_queue_for_each_subscriber(writer: Writer, raw: redis.Redis) -> None:
    for number in range(50):
        raw.xadd(TOPIC, {"data": "{}", "n": number})
    [row] = rows(writer).values()
    assert (row.name, row.ready) == (TOPIC, None)
    assert [finding.text for finding in writer.snapshot().findings] == [
        "50 events of topics without a subscriber (limit 0)"
    ]
    assert any("50 events, and no service subscribed" in notice for notice in writer.snapshot().notices)
    raw.xgroup_create(TOPIC, "search_service", "0")
    raw.xgroup_create(TOPIC, "audit_service", "0")
    raw.xreadgroup("audit_service", "host-1", {TOPIC: ">"}, count=30)
    found = rows(writer)
    assert {name: (row.ready, row.running, row.workers) for name, row in found.items()} == {
        f"{TOPIC}@audit_service": (20, 30, 1), f"{TOPIC}@search_service": (50, 0, 0)
    }  # fmt: skip
    assert any(str(finding.queue) == f"streams/{TOPIC}@search_service" for finding in writer.snapshot().findings)
    # Added again, events would reach all of them.
    assert {skip.code for skip in writer.plan("discard", f"{TOPIC}@search_service").tail.skipped}


def test_the_commands_operate_streams(qdeck: Callable[..., Ran], raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    [left] = send(raw, "left")
    take(raw)
    age(raw, left)
    assert [row["id"] for row in qdeck("stuck", "--json").json] == ["left"]
    assert qdeck("requeue", STREAM, "--yes").code == 0
    assert qdeck("undo", "--yes").code == 0
    assert qdeck("bury", STREAM, "--yes").code == 0
    assert [row["id"] for row in qdeck("workers", "--json").json] == [WORKER]


def test_the_settings_say_when_an_entry_is_stuck_and_dead(url: str, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    [left] = send(raw, "left")
    take(raw)
    raw.xclaim(STREAM, GROUP, WORKER, 0, [left], idle=2_000, retrycount=2, justid=True)
    for settings, numbers in (
        ({}, (1, 0, 0)), ({"pending_after": 1}, (1, 1, 0)), ({"pending_after": 1, "max_deliveries": 2}, (0, 0, 1))
    ):  # fmt: skip
        with Writer(url, adapters=("streams",), adapter_settings={"streams": settings}) as writer:
            row = rows(writer)[STREAM]
            assert (row.running, row.stuck, row.dead) == numbers
    with pytest.raises(InvalidOption, match="pending_after"):
        Writer(url, adapters=("streams",), adapter_settings={"streams": {"pending_after": 0}})
