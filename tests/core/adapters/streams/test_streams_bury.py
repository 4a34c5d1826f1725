"""Entries of streams that are given up: `bury`, and the purge rules for what was pending, or dead, for too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.streams.records import GROUP, STREAM, TOPIC, WORKER, age, send, take
from qdeck.admin import Limits, State, Writer
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

HOUR_MS = 3_600_000


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def pending(raw: redis.Redis, entry: bytes) -> dict[str, Any]:
    [found] = raw.xpending_range(STREAM, GROUP, entry, entry, 1)
    return found


def idle(raw: redis.Redis, entry: bytes, ms: int, *, deliveries: int = 1) -> None:
    raw.xclaim(STREAM, GROUP, WORKER, 0, [entry], idle=ms, retrycount=deliveries, justid=True)


def test_a_stuck_entry_is_buried_by_its_count_and_stays_with_its_consumer(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    left, fresh = send(raw, "left", "fresh")
    take(raw, count=2)
    age(raw, left)
    before, was = values(raw), pending(raw, left)
    plan = writer.plan("bury", STREAM)
    assert [entry.reason for entry in plan.entries()] == ["its delivery count is set to 3"]
    assert [skip.why for skip in plan.tail.skipped] == [f"consumer {WORKER} received it a short while ago"]
    result = writer.apply(plan)
    assert result.applied == 1
    now = pending(raw, left)
    assert (now["consumer"], now["times_delivered"]) == (was["consumer"], 3)
    assert now["time_since_delivered"] >= was["time_since_delivered"]
    assert [(job.id, job.message) for job in writer.jobs(STREAM, state="dead")] == [
        ("left", f"its delivery count is 3, its last consumer was {WORKER}")
    ]
    assert pending(raw, fresh)["times_delivered"] == 1
    assert writer.undo(result.batch).restored == 1
    assert values(raw) == before
    assert pending(raw, left)["times_delivered"] == 1


def test_a_buried_entry_is_retried_as_any_dead_letter(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    [left] = send(raw, "left")
    take(raw)
    age(raw, left)
    writer.apply(writer.plan("bury", STREAM))
    assert writer.apply(writer.plan("retry", STREAM)).applied == 1
    assert (raw.xpending(STREAM, GROUP)["pending"], raw.xlen(STREAM)) == (0, 2)


def test_an_event_is_buried_for_one_subscriber_only(writer: Writer, raw: redis.Redis) -> None:
    """It cannot be requeued: added again, it would reach the other subscribers, too."""
    raw.xadd(TOPIC, {"data": "{}"})
    for group in ("search_service", "audit_service"):
        raw.xgroup_create(TOPIC, group, "0")
        raw.xreadgroup(group, "host-1", {TOPIC: ">"})
        [entry] = [one["message_id"] for one in raw.xpending_range(TOPIC, group, "-", "+", 1)]
        raw.xclaim(TOPIC, group, "host-1", 0, [entry], idle=HOUR_MS, justid=True)
    assert writer.plan("requeue", f"{TOPIC}@audit_service").count == 0
    assert writer.apply(writer.plan("bury", f"{TOPIC}@audit_service")).applied == 1
    assert {row.name.partition("@")[2]: (row.stuck, row.dead) for row in writer.snapshot().queues} == {
        "audit_service": (0, 1), "search_service": (1, 0)
    }  # fmt: skip


def test_what_a_consumer_acknowledged_since_the_plan_is_left_alone(writer: Writer, raw: redis.Redis) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    done, deleted = send(raw, "done", "deleted")
    take(raw, count=2)
    for entry in (done, deleted):
        age(raw, entry)
    raw.xdel(STREAM, deleted)
    plan = writer.plan("bury", STREAM)
    assert [skip.why for skip in plan.tail.skipped] == ["it was deleted from the stream"]
    raw.xack(STREAM, GROUP, done)
    assert writer.apply(plan).applied == 0
    assert raw.xpending(STREAM, GROUP)["pending"] == 1


def test_a_purge_buries_what_is_pending_and_discards_what_is_dead_for_too_long(
    writer: Writer, raw: redis.Redis
) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    old, young, dead, dead_now = send(raw, "old", "young", "dead", "dead-now")
    take(raw, count=4)
    idle(raw, old, 3 * HOUR_MS)
    idle(raw, young, HOUR_MS)
    idle(raw, dead, 200 * HOUR_MS, deliveries=3)
    idle(raw, dead_now, 3 * HOUR_MS, deliveries=3)
    before = values(raw)
    plan = writer.plan_purge()
    assert {(entry.id, entry.rule, entry.verb) for entry in plan.entries()} == {
        ("old", "pending_too_old", "bury"), ("dead", "dead_too_old", "discard")
    }  # fmt: skip
    assert sorted(entry.reason.partition(" (")[0] for entry in plan.entries()) == [
        "dead for 8d 8h", "pending for 3h 00m"
    ]  # fmt: skip
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (2, 0)
    assert {job.id for job in writer.jobs(STREAM, state=State.DEAD)} == {"old", "dead-now"}
    assert raw.xpending(STREAM, GROUP)["pending"] == 3
    assert writer.undo(result.batch).restored == 2
    assert values(raw) == before


def test_a_limit_below_that_of_a_stuck_entry_takes_none_that_a_worker_may_have(
    writer: Writer, raw: redis.Redis
) -> None:
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    [entry] = send(raw, "busy")
    take(raw)
    idle(raw, entry, 120_000)
    assert writer.plan_purge(["pending_too_old"], limits=Limits(max_pending_age=60)).count == 0
    idle(raw, entry, 301_000)
    assert writer.plan_purge(["pending_too_old"], limits=Limits(max_pending_age=60)).count == 1
