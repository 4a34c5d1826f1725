"""Ages of VMs from the fields that there are; a VM whose age cannot be known is named, and not silently kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_purge import ago, plan_of, purged, vm
from qdeck.admin import Limits, Writer, read_rules
from qdeck.testing.adapters import values
from qdeck_console.documents import health as health_document
from support.agents import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def ages(writer: Writer, pool: str = "pool1") -> dict[str, float | None]:
    return {job.id: job.age_s for job in writer.jobs(pool)}


def unknown(writer: Writer, *rules: str) -> dict[str, str]:
    return {skip.id: skip.why for skip in writer.plan_purge(read_rules(rules)).tail.skipped}


def test_ages_come_from_every_field(writer: Writer, raw: redis.Redis) -> None:
    """The document says that the record has a clone time; the manager has also when a VM became ready."""
    vm(raw, "pending", "clone", clone=ago(9000))
    vm(raw, "pending", "clone-time", clone_time=ago(9000))
    vm(raw, "pending", "seconds", clone=str(int(time.time()) - 9000))
    vm(raw, "pending", "duration", clone_time="12.34")
    vm(raw, "ready", "ready", clone=ago(9000), ready=ago(100))
    vm(raw, "ready", "never-ready", clone=ago(9000))
    vm(raw, "completed", "destroyed", clone=ago(9000), checkout=ago(800), destroy=ago(700))
    vm(raw, "completed", "given-back", clone=ago(9000), checkout=ago(800))
    found = ages(writer)
    assert found.pop("duration") is None
    assert found == pytest.approx(
        {"clone": 9000, "clone-time": 9000, "seconds": 9000, "ready": 100, "never-ready": 9000, "destroyed": 700,
         "given-back": 800}, abs=20,
    )  # fmt: skip
    assert set(plan_of(writer, "pending_too_old")) == {"clone", "clone-time", "seconds"}
    assert set(plan_of(writer, "pool_ready_too_old", limits=Limits(max_ready_age_pool=5000))) == {"never-ready"}
    assert purged(writer, "pending_too_old") == 3


@pytest.mark.parametrize(("state", "field"), [("pending", "clone"), ("ready", "ready"), ("completed", "destroy")])
def test_an_unreadable_time_does_not_borrow_another(writer: Writer, raw: redis.Redis, state: str, field: str) -> None:
    vm(raw, state, "odd", **{"clone_time": ago(90_000), "checkout": ago(90_000), field: "when it was"})
    assert ages(writer) == {"odd": None}
    assert plan_of(writer) == {}


def test_a_machine_of_unknown_age_is_named(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "no-record")
    vm(raw, "ready", "no-time", host="h")
    vm(raw, "completed", "never-destroyed", clone=ago(90_000), ready=ago(80_000))
    vm(raw, "discovered", "just-found")
    vm(raw, "running", "running")
    before = values(raw)
    told = unknown(writer)
    assert set(told) == {"no-record", "no-time", "never-destroyed"}
    assert all(why.startswith("its age is unknown") for why in told.values())
    assert plan_of(writer) == {}
    assert values(raw) == before
    facts: Any = health_document(writer.health())["adapters"]["vmpooler"]
    assert facts["age_unknown"] == 3


@pytest.mark.parametrize("others", [0, 2])
async def test_the_agent_counts_it(url: str, raw: redis.Redis, others: int) -> None:
    raw.sadd("vmpooler__pools", "pool1")
    vm(raw, "pending", "no-time", host="h")
    for number in range(others):
        vm(raw, "pending", f"old-{number}", clone=ago(9000))
    async with running(url, http=None, purge_every=3600) as agent:
        await agent.until(lambda: agent.of("purge"))
    [ran] = agent.of("purge")
    assert (ran["planned"], ran["left_out"]) == (others, 1)


def test_completed_machines_have_an_oldest_and_an_average_age(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "completed", "a", destroy=ago(100))
    vm(raw, "completed", "b", destroy=ago(300))
    vm(raw, "discovered", "c")
    found = health_document(writer.health())["queues"]["done"]["vmpooler/pool1"]
    assert (found["size"], found["oldest_age"], found["avg_age"]) == (3, *map(pytest.approx, (300, 200), (20, 20)))


@pytest.mark.parametrize("lost", ["pool", "clone", "both"])
def test_an_orphan_without_pool_or_clone_is_one(writer: Writer, raw: redis.Redis, lost: str) -> None:
    """Health and purge count by one rule."""
    fields = {"pool": {"clone": ago(90_000)}, "clone": {"pool": "pool1"}, "both": {"ip": "10.0.0.1"}}[lost]
    for name in ("orphan", "is-running", "ends"):
        for field, value in fields.items():
            raw.hset(f"vmpooler__vm__{name}", field, value)
    raw.sadd("vmpooler__pools", "pool1")
    raw.sadd("vmpooler__running__pool1", "is-running")
    raw.expire("vmpooler__vm__ends", 5000)
    vm(raw, "", "young", clone=ago(80_000))
    before = values(raw)
    errors = health_document(writer.health())["errors"]
    assert (errors["orphaned_count"], errors["orphaned_metadata_count"]) == (2, 2), "young ones, too"
    assert set(plan_of(writer, "orphaned_records")) == {"orphan"}
    assert purged(writer, "orphaned_records") == 1
    assert 0 < raw.ttl("vmpooler__vm__orphan") <= 3600
    assert (raw.ttl("vmpooler__vm__is-running"), raw.ttl("vmpooler__vm__young")) == (-1, -1)
    assert health_document(writer.health())["errors"]["orphaned_count"] == 1
    writer.undo()
    assert values(raw) == before
    assert raw.ttl("vmpooler__vm__orphan") == -1


def test_an_orphan_that_is_in_a_set_again_is_left_alone(writer: Writer, raw: redis.Redis) -> None:
    raw.sadd("vmpooler__pools", "pool1", "pool2")
    raw.hset("vmpooler__vm__orphan", "ip", "10.0.0.1")
    plan = writer.plan_purge(read_rules(("orphaned_records",)))
    assert plan.count == 1
    raw.sadd("vmpooler__ready__pool2", "orphan")
    assert writer.apply(plan).applied == 0
    assert raw.ttl("vmpooler__vm__orphan") == -1
