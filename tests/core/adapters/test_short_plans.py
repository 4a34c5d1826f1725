"""Plans keep digests of long entries, and find these again where they went to meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest

from qdeck.admin import Writer
from qdeck.testing.adapters import contents
from support.counting import CountingProxy

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Plan

LISTS: Final = {"lists": {"patterns": ["{service}:jobs"]}}


def message(number: int) -> bytes:
    """A message of 1.2 KB."""
    return json.dumps({"id": f"j{number}", "body": "x" * 1200, "secret": f"value-{number}"}).encode()


@pytest.fixture
def writer(url: str) -> Writer:
    return Writer(url, adapters=("lists", "ifdb"), adapter_settings=LISTS)


def size_of(plan: Plan) -> float:
    """The bytes of an entry of the plan."""
    return plan.path.stat().st_size / plan.count


def test_a_plan_of_long_messages_is_short_and_is_done(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", *(message(number) for number in range(300)))
    before = contents(raw)
    with writer:
        plan = writer.plan("discard", "shop:jobs")
        assert size_of(plan) < 500
        assert "value-7" not in plan.path.read_text()
        result = writer.apply(plan)
        assert (result.applied, result.skipped_count) == (300, 0)
        assert not raw.exists("shop:jobs")
        assert writer.undo().restored == 300
    assert contents(raw) == before


def test_messages_that_moved_are_found_and_those_that_changed_are_left(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", *(message(number) for number in range(1200)))
    with writer:
        plan = writer.plan("discard", "shop:jobs", ids=[f"j{number}" for number in range(0, 1200, 3)])
        assert plan.count == 400
        raw.lpush("shop:jobs", *(message(number) for number in range(2000, 2030)))  # all others moved
        raw.lpop("shop:jobs", 10)
        raw.lset("shop:jobs", raw.lrange("shop:jobs", 0, -1).index(message(600)), "changed")
        result = writer.apply(plan)
        assert (result.applied, [skip.id for skip in result.skipped]) == (399, ["j600"])
        left = raw.lrange("shop:jobs", 0, -1)
        assert len(left) == 1200 + 20 - 399
        assert b"changed" in left
        assert message(3) not in left
        assert message(4) in left
        assert writer.undo().restored == 399


def test_equal_messages_are_found_as_often_as_they_were_planned(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", message(1), message(2), *[message(1)] * 60, message(3))
    with writer:
        plan = writer.plan("discard", "shop:jobs", ids=["j1"])
        result = writer.apply(plan)
        assert (result.applied, result.skipped_count) == (61, 0)
        assert raw.lrange("shop:jobs", 0, -1) == [message(2), message(3)]


def test_a_plan_is_applied_on_by_another_client(url: str, writer: Writer, raw: redis.Redis) -> None:
    """It has no memory of how far the others moved."""
    raw.rpush("shop:jobs", *(message(number) for number in range(400)))
    with writer, Writer(url, adapters=("lists",), adapter_settings=LISTS) as other:
        plan = writer.plan("discard", "shop:jobs")
        done = 0

        def stop() -> bool:
            nonlocal done
            done += 1
            return done > 3

        part = writer.apply(plan, cancelled=stop)
        assert 0 < part.applied < 400
        rest = other.apply(plan)
        assert rest.applied == 400
        assert not raw.exists("shop:jobs")


def test_a_slice_of_large_messages_has_few_of_them(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:jobs", *(message(number) + b" " * 400_000 for number in range(12)))
    with CountingProxy.before(url) as proxy, Writer(proxy.url, adapters=("lists",), adapter_settings=LISTS) as writer:
        plan = writer.plan("discard", "shop:jobs")
        before = len(proxy.requests())
        assert writer.apply(plan).applied == 12
        sent = proxy.requests(before)
    trips = [number for number, one in enumerate(sent) if one.starts_trip]
    most = max(
        sum(one.name == "evalsha" for one in sent[first:last])
        for first, last in zip(trips, [*trips[1:], len(sent)], strict=True)
    )
    assert most <= 3
    assert not raw.exists("shop:jobs")


def test_long_records_are_digests_too(writer: Writer, raw: redis.Redis) -> None:
    for number in range(50):
        task = {"id": str(number), "fail": True, "pending": False, "log": f"value-{number} " * 200}
        raw.hset("ifdb:task_data", str(number), json.dumps(task))
    with writer:
        plan = writer.plan("retry", "ifdb")
        assert plan.count == 50
        assert size_of(plan) < 500
        raw.hset("ifdb:task_data", "7", json.dumps({"id": "7", "fail": True, "pending": False, "log": "other"}))
        result = writer.apply(plan)
        assert (result.applied, [skip.id for skip in result.skipped]) == (49, ["7"])
