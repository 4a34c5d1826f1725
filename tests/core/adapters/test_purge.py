"""Purges of other adapters: what each rule takes, that the plan is what is done, and that it is taken back."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_conformance import FILL
from qdeck.admin import Limits, Writer, read_rules
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck.admin import PlanEntry


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler", "ifdb", "scheduler", "lists")) as writer:
        yield writer


def ago(seconds: int) -> str:
    """A moment as Ruby writes it, in a zone of its own."""
    at = datetime.now(UTC).astimezone() - timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%d %H:%M:%S %z")


def vm(raw: redis.Redis, state: str, name: str, pool: str = "pool1", **fields: str) -> None:
    """A VM of a pool, with its record."""
    raw.sadd("vmpooler__pools", "pool1")
    if state:
        raw.sadd(f"vmpooler__{state}__{pool}", name)
    if fields:
        for field, value in {"pool": pool, "template": pool, **fields}.items():
            raw.hset(f"vmpooler__vm__{name}", field, value)


def plan_of(writer: Writer, *rules: str, limits: Limits | None = None) -> dict[str, PlanEntry]:
    plan = writer.plan_purge(read_rules(rules), limits)
    return {entry.id: entry for entry in plan.entries()}


def purged(writer: Writer, *rules: str, limits: Limits | None = None) -> int:
    plan = writer.plan_purge(read_rules(rules), limits)
    result = writer.apply(plan)
    assert result.error is None
    return result.applied


def test_cases_2_and_5_old_pending_machines_become_dead_letters(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800), request_id="req-1", pool_alias="el7")
    vm(raw, "pending", "vm-new", clone=ago(1800))
    assert purged(writer, limits=Limits(dlq_enabled=True)) == 1
    assert raw.smembers("vmpooler__pending__pool1") == {b"vm-new"}
    [member] = raw.zrange("vmpooler__dlq__pending", 0, -1)
    assert isinstance(member, bytes)
    score = raw.zscore("vmpooler__dlq__pending", member)
    facts = json.loads(member)
    assert datetime.fromisoformat(facts["failed_at"]).timestamp() == score
    assert (facts["vm"], facts["pool"], facts["queue_from"], facts["error_class"]) == (
        "vm-old", "pool1", "pending", "Purge",
    )  # fmt: skip
    assert facts["request_id"] == "req-1"
    assert "limit max_pending_age 2h" in facts["error_message"]
    assert datetime.fromisoformat(facts["failed_at"]).tzinfo is not None
    # The record ends a week later, and the whole set is no longer there than its youngest letter.
    assert 0 < raw.ttl("vmpooler__vm__vm-old") <= 168 * 3600
    assert 0 < raw.ttl("vmpooler__dlq__pending") <= 168 * 3600


def test_case_6_a_dry_run_counts_and_writes_nothing(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "completed", "c", destroy=ago(7200))
    vm(raw, "", "orphan", clone=ago(90_000))
    before = values(raw)
    assert {name: entry.rule for name, entry in plan_of(writer, limits=Limits(dlq_enabled=True)).items()} == {
        "vm-old": "pending_too_old", "c": "done_too_old", "orphan": "orphaned_records",
    }  # fmt: skip
    assert values(raw) == before


def test_case_4_without_dead_letters_old_pending_machines_are_only_removed(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "pending", "ends", clone=ago(10_800))
    raw.expire("vmpooler__vm__ends", 600)
    before = values(raw)
    plan = writer.plan_purge(read_rules(()), Limits(dlq_enabled=False))
    told = {(entry.id, entry.rule, entry.verb) for entry in plan.entries()}
    assert told == {("vm-old", "pending_too_old", "expire"), ("ends", "pending_too_old", "expire")}
    assert writer.apply(plan).applied == 2
    assert not raw.exists("vmpooler__pending__pool1", "vmpooler__dlq__pending", "vmpooler__completed__pool1")
    assert 3600 < raw.ttl("vmpooler__vm__vm-old") <= 168 * 3600
    assert raw.ttl("vmpooler__vm__ends") <= 600
    writer.undo()
    assert values(raw) == before
    assert raw.ttl("vmpooler__vm__vm-old") == -1


def test_who_buries_by_hand_gets_a_dead_letter(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    assert writer.apply(writer.plan("bury", "pool1")).applied == 1
    assert raw.zcard("vmpooler__dlq__pending") == 1


@pytest.mark.parametrize("enabled", [True, False])
def test_a_machine_that_the_manager_found_again_is_not_put_back(
    writer: Writer, raw: redis.Redis, enabled: bool
) -> None:
    """In two sets it would be destroyed while it is waited for."""
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "completed", "gone", destroy=ago(7200))
    assert purged(writer, limits=Limits(dlq_enabled=enabled)) == 2
    raw.sadd("vmpooler__discovered__pool1", "vm-old", "gone")
    undone = writer.undo()
    assert (undone.restored, len(undone.skipped)) == (0, 2)
    assert {skip.why for skip in undone.skipped} == {"is in vmpooler__discovered__pool1 already"}
    assert not raw.exists("vmpooler__pending__pool1", "vmpooler__completed__pool1")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_machine_that_was_made_anew_since_the_plan_is_left_alone(
    writer: Writer, raw: redis.Redis, enabled: bool
) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "ready", "vm-ready", ready=ago(200_000))
    plan = writer.plan_purge(read_rules(()), Limits(dlq_enabled=enabled))
    assert plan.count == 2
    raw.hset("vmpooler__vm__vm-old", "clone", ago(5))
    raw.hset("vmpooler__vm__vm-ready", "ready", ago(5))
    before = values(raw)
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (0, 2)
    assert values(raw) == before


def test_machines_that_were_destroyed_meanwhile_do_not_run_again(writer: Writer, raw: redis.Redis) -> None:
    raw.hset("vmpooler__odrequest__r1", mapping={"requested": "el7:pool1:2"})
    raw.zadd("vmpooler__provisioning__request", {"r1": int(time.time())})
    raw.sadd("vmpooler__r1__el7__pool1", "v1", "v2")
    vm(raw, "running", "v1", checkout=ago(100))
    vm(raw, "running", "v2", checkout=ago(100))
    assert writer.apply(writer.plan("cancel", "requests:on-demand")).applied == 1
    raw.srem("vmpooler__completed__pool1", "v1")  # the manager destroyed it
    writer.undo()
    assert raw.smembers("vmpooler__running__pool1") == {b"v2"}


@pytest.mark.parametrize(("ends_s", "dlq_ttl", "least", "most"), [
    (0, 168, -1, -1), (900_000, 168, 800_000, 900_000), (500, 168, 604_000, 604_800), (0, 0, -1, -1),
])  # fmt: skip
def test_a_dead_letter_never_brings_the_end_of_others_nearer(
    writer: Writer, raw: redis.Redis, ends_s: int, dlq_ttl: int, least: int, most: int
) -> None:
    now = int(time.time())
    raw.zadd("vmpooler__dlq__pending", {f'other:{now}:{{"vm":"other"}}': now})
    if ends_s:
        raw.expire("vmpooler__dlq__pending", ends_s)
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    limits = Limits(dlq_enabled=True, dlq_ttl=dlq_ttl)
    assert purged(writer, "pending_too_old", limits=limits) == 1
    assert raw.zcard("vmpooler__dlq__pending") == 2
    assert least <= raw.ttl("vmpooler__dlq__pending") <= most


def test_a_letter_without_a_moment_hides_none_behind_it(writer: Writer, raw: redis.Redis) -> None:
    raw.execute_command("ZADD", "vmpooler__dlq__clone", "-inf", "no:moment:{}")
    raw.zadd("vmpooler__dlq__clone", {'old:5:{"vm":"old"}': 5})
    assert set(plan_of(writer, "dead_too_old")) == {"old"}


def test_a_key_of_another_type_stops_only_what_needs_it(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "pending", "other", "pool2", clone=ago(10_800))
    vm(raw, "ready", "vm-ready", ready=ago(200_000))
    plan = writer.plan_purge(read_rules(()), Limits(dlq_enabled=True))
    raw.set("vmpooler__dlq__pending", "a text")
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count, result.error) == (1, 2, None)
    assert {skip.why for skip in result.skipped} == {"vmpooler__dlq__pending holds another type of data"}
    assert raw.sismember("vmpooler__pending__pool1", "vm-old")


def test_case_7_old_ready_machines_are_completed(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "ready", "vm-old", ready=ago(200_000))
    vm(raw, "ready", "vm-new", ready=ago(7200))
    assert purged(writer) == 1
    assert raw.smembers("vmpooler__completed__pool1") == {b"vm-old"}
    assert raw.smembers("vmpooler__ready__pool1") == {b"vm-new"}


def test_case_8_old_completed_machines_are_removed(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "completed", "vm-old", destroy=ago(7200))
    vm(raw, "completed", "vm-new", destroy=ago(1800))
    vm(raw, "completed", "never-destroyed", clone=ago(500_000), ready=ago(400_000))
    assert purged(writer) == 1
    assert raw.smembers("vmpooler__completed__pool1") == {b"vm-new", b"never-destroyed"}


def test_machines_of_the_pool_may_be_ready_for_two_days(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "ready", "asked-for", ready=ago(90_000), request_id="r")
    vm(raw, "ready", "pooled", ready=ago(90_000))
    vm(raw, "ready", "pooled-old", ready=ago(180_000))
    found = plan_of(writer)
    told = {name: (entry.rule, entry.reason.partition("(")[2]) for name, entry in found.items()}
    assert told == {
        "asked-for": ("ready_too_old", "limit max_ready_age 1d)"),
        "pooled-old": ("pool_ready_too_old", "limit max_ready_age_pool 2d)"),
    }
    limits = Limits().changed("max_ready_age_pool=1d")
    assert set(plan_of(writer, limits=limits)) == {"asked-for", "pooled", "pooled-old"}


def test_records_of_no_machine_get_an_end_once(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "", "orphan", clone=ago(90_000))
    vm(raw, "", "young", clone=ago(80_000))
    vm(raw, "", "ends-anyway", clone=ago(90_000))
    raw.expire("vmpooler__vm__ends-anyway", 600_000)
    vm(raw, "running", "runs", clone=ago(90_000), checkout=ago(80_000))
    raw.hset("vmpooler__vm__nameless", mapping={"clone": ago(90_000)})
    raw.hset("vmpooler__vm__undated", mapping={"pool": "pool1"})
    entries = plan_of(writer, "orphaned_records")
    orphans = ("nameless", "orphan", "undated")
    assert sorted((entry.id, entry.state, entry.verb) for entry in entries.values()) == [
        (name, "none", "expire") for name in orphans
    ]
    plan = writer.plan_purge(read_rules(()))
    assert writer.apply(plan).applied == 3
    assert 0 < raw.ttl("vmpooler__vm__orphan") <= 3600
    assert raw.ttl("vmpooler__vm__ends-anyway") > 3600
    assert plan_of(writer) == {}  # a second purge does not put the end off
    writer.undo()
    assert raw.ttl("vmpooler__vm__orphan") == -1


def test_a_machine_that_moved_on_since_the_plan_is_left_alone(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(10_800))
    vm(raw, "", "orphan", clone=ago(90_000))
    plan = writer.plan_purge(read_rules(()))
    raw.smove("vmpooler__pending__pool1", "vmpooler__ready__pool1", "vm-old")
    raw.sadd("vmpooler__running__pool1", "orphan")
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (0, 2)
    assert not raw.exists("vmpooler__dlq__pending")
    assert raw.ttl("vmpooler__vm__vm-old") == -1
    assert raw.ttl("vmpooler__vm__orphan") == -1


def test_case_23_requests_over_their_time_fail_and_their_machines_are_given_back(
    writer: Writer, raw: redis.Redis
) -> None:
    old = int(time.time()) - 90_000
    raw.hset("vmpooler__odrequest__r1", mapping={"requested": "el7:pool1:2,deb:pool2:1"})
    raw.zadd("vmpooler__provisioning__processing", {"r1": old, "r2": old + 80_000})
    raw.sadd("vmpooler__r1__el7__pool1", "v1", "v2")
    vm(raw, "running", "v1", checkout=ago(100))
    vm(raw, "running", "other", checkout=ago(100))
    before = values(raw)
    [entry] = plan_of(writer, "request_too_old").values()
    assert (entry.id, entry.verb) == ("r1", "expire")
    assert purged(writer, "request_too_old") == 1
    assert raw.hget("vmpooler__odrequest__r1", "status") == b"failed"
    assert raw.zrange("vmpooler__provisioning__processing", 0, -1) == [b"r2"]
    assert raw.smembers("vmpooler__completed__pool1") == {b"v1"}
    assert raw.smembers("vmpooler__running__pool1") == {b"other"}
    assert 0 < raw.ttl("vmpooler__odrequest__r1") <= 168 * 3600
    writer.undo()
    assert values(raw) == before
    assert raw.ttl("vmpooler__odrequest__r1") == -1


def test_case_24_a_deleted_request_is_out_of_the_line(writer: Writer, raw: redis.Redis) -> None:
    """The record ends in 15 days, its machines go to `completed`, its sets are removed."""
    raw.hset("vmpooler__odrequest__r1", mapping={"requested": "el7:pool1:2"})
    raw.zadd("vmpooler__provisioning__request", {"r1": int(time.time())})
    raw.sadd("vmpooler__r1__el7__pool1", "v1")
    vm(raw, "running", "v1", checkout=ago(100))
    plan = writer.plan("cancel", "requests:on-demand")
    assert writer.apply(plan).applied == 1
    assert raw.hget("vmpooler__odrequest__r1", "status") == b"deleted"
    assert 1_290_000 < raw.ttl("vmpooler__odrequest__r1") <= 1_296_000
    assert not raw.exists("vmpooler__provisioning__request", "vmpooler__r1__el7__pool1")
    assert raw.smembers("vmpooler__completed__pool1") == {b"v1"}
    assert not raw.exists("vmpooler__running__pool1")


def test_case_3_dead_letters_go_one_by_one(writer: Writer, raw: redis.Redis) -> None:
    """The oldest beyond the number that is kept, also among those of one second; and each by its own age."""
    now = int(time.time())
    raw.zadd("vmpooler__dlq__clone", {f"vm{n}:{now}:" + json.dumps({"vm": f"vm{n}"}): now for n in range(150)})
    plan = writer.plan_purge(read_rules(("dead_too_many",)), Limits(dlq_max_entries=100))
    gone = {entry.id for entry in plan.entries()}
    assert len(gone) == 50
    assert writer.apply(plan).applied == 50
    assert raw.zcard("vmpooler__dlq__clone") == 100
    raw.zadd("vmpooler__dlq__ready", {"old:5:{}": now - 168 * 3600 - 60, "new:6:{}": now - 168 * 3600 + 60})
    assert purged(writer, "dead_too_old") == 1
    assert raw.zrange("vmpooler__dlq__ready", 0, -1) == [b"new:6:{}"]


def test_ifdb_keeps_what_others_wait_for(writer: Writer, raw: redis.Redis) -> None:
    FILL["ifdb"]().populate(raw)
    old = "2020-01-01T00:00:00+00:00"
    for name in ("needed", "free"):
        task = {"id": name, "success": True, "pending": False, "fail": False, "finish_time": old}
        raw.hset("ifdb:task_data", name, json.dumps(task))
    waits = {"id": "child", "pending": True, "dependency": "needed", "enqueue_time": old}
    raw.hset("ifdb:task_data", "child", json.dumps(waits))
    raw.zadd("ifdb:task_queue", {"child": 1})
    before = values(raw)
    entries = plan_of(writer, "task_too_old")
    assert {(entry.id, entry.rule, entry.verb) for entry in entries.values()} == {("free", "task_too_old", "discard")}
    plan = writer.plan_purge(read_rules(("task_too_old",)))
    raw.hset("ifdb:task_data", "late", json.dumps(waits | {"id": "late", "dependency": "free"}))
    assert writer.apply(plan).applied == 0  # one came that waits for it
    raw.hdel("ifdb:task_data", "late")
    assert purged(writer, "task_too_old") == 1
    assert not raw.hexists("ifdb:task_data", "free")
    writer.undo()
    assert values(raw) == before


def test_scheduler_quarantines_what_is_broken_and_promotes_what_is_overdue(writer: Writer, raw: redis.Redis) -> None:
    FILL["scheduler"]().populate(raw)
    now = time.time_ns() // 1_000_000
    raw.zadd("scheduler:queue:delayed", {"late:HIGH": now - 120_000, "a:b:NORMAL": now - 5000})
    before = values(raw)
    entries = plan_of(writer, "broken_entries", "overdue_delayed")
    assert {(entry.id, entry.verb) for entry in entries.values()} == {
        ("broken", "bury"), ("x:WHAT", "bury"), ("late", "run"), ("a:b", "run"),
    }  # fmt: skip
    assert purged(writer, "broken_entries", "overdue_delayed") == 4
    assert raw.zrange("scheduler:queue:delayed", 0, -1) == [b"due:HIGH", b"a:b:LOW"]
    assert {b"late", b"a:b"} <= set(raw.zrange("scheduler:queue:priority", 0, -1))
    writer.undo()
    assert values(raw) == before


def test_lists_are_never_purged(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("execution:agent_run:free:1", '{"timestamp": "2001-01-01T00:00:00Z"}')
    assert plan_of(writer) == {}
