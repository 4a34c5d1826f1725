"""VMPooler's health: its verdict at every boundary, and the hash that the agent writes only while nobody else does."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_conformance import load_dump
from core.adapters.test_purge import ago, vm
from qdeck._agent.options import AgentOptions
from qdeck._settings.model import DeadLetters
from qdeck.adapters.vmpooler.health import judge
from qdeck.admin import AsyncWriter, Settings, Thresholds, Writer, health_document
from qdeck.runtime import Agent

if TYPE_CHECKING:
    import redis


def metrics(dead: int = 50, stuck: int = 0, pending: int = 10, ready: int = 50) -> dict[str, Any]:
    return {
        "queues": {"pool1": {"pending": {"size": pending}, "ready": {"size": ready}}, "dlq": {"clone": {"size": dead}}},
        "errors": {"dlq_total_size": dead, "stuck_vm_count": stuck},
    }


EDGES = {"dead": (100, 1000), "stuck": (0, 50), "pending": (100, 200), "ready": (500, 1000)}


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [
        ({}, "healthy"),
        ({"dead": 150}, "degraded"),
        ({"dead": 1500}, "unhealthy"),
        ({"pending": 120}, "degraded"),
        ({"pending": 250}, "unhealthy"),
        ({"stuck": 60}, "unhealthy"),
        *(({name: warning}, "healthy") for name, (warning, _) in EDGES.items()),
        *(({name: warning + 1}, "degraded") for name, (warning, _) in EDGES.items()),
        *(({name: critical}, "degraded") for name, (_, critical) in EDGES.items()),
        *(({name: critical + 1}, "unhealthy") for name, (_, critical) in EDGES.items()),
    ],
)
def test_case_11_the_verdict_at_its_boundaries(numbers: dict[str, int], verdict: str) -> None:
    assert judge(metrics(**numbers), Thresholds()).value == verdict


def test_case_9_thresholds_of_which_some_are_given(url: str, raw: redis.Redis) -> None:
    assert judge(metrics(dead=60), Thresholds(dlq_max_warning=50)).value == "degraded"
    assert judge(metrics(stuck=11), Thresholds(dlq_max_warning=50)).value == "degraded"


def report_of(url: str) -> dict[str, Any]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        return health_document(writer.health())


def test_case_10_ages_are_those_of_the_machines_that_tell_theirs(url: str, raw: redis.Redis) -> None:
    for name, age in (("a", 3600), ("b", 7250), ("c", 1800)):
        vm(raw, "pending", name, clone=ago(age))
    vm(raw, "pending", "no-record")
    found = report_of(url)["queues"]["delayed"]["vmpooler/pool1"]
    assert found["size"] == 4
    assert found["oldest_age"] == pytest.approx(7250, abs=5)
    assert found["avg_age"] == pytest.approx((3600 + 7250 + 1800) / 3, abs=5)
    assert found["stuck_count"] == 1


def test_case_12_the_numbers_of_the_report(url: str, raw: redis.Redis) -> None:
    raw.zadd("vmpooler__dlq__clone", {f"v{n}:5:{{}}": 5 for n in range(25)})
    for name in ("s1", "s2"):
        vm(raw, "pending", name, clone=ago(8000))
    for name in ("o1", "o2", "o3"):
        vm(raw, "", name, clone=ago(100_000))
    vm(raw, "", "ends", clone=ago(100_000))
    raw.expire("vmpooler__vm__ends", 1000)
    raw.mset({"vmpooler__tasks__clone": 3, "vmpooler__tasks__ondemandclone": 2})
    raw.zadd("vmpooler__odcreate__task", {f"a:pool1:1:r{n}": 1 for n in range(5)})
    found = report_of(url)
    assert found["status"] == "degraded", "'Degraded: few stuck VMs'"
    errors = found["errors"]
    assert (errors["dlq_size"], errors["stuck_vm_count"], errors["orphaned_metadata_count"]) == (25, 2, 3)
    assert found["tasks"]["clone"] == {"active": 3, "pending": 2}
    assert found["tasks"]["ondemand"] == {"active": 2, "pending": 5}
    assert keep(url) == "written"
    assert raw.hget("vmpooler__health", "status") == b"degraded", "the manager calls up to 10 healthy, the page none"


def test_a_counter_below_zero_is_none_and_a_wrong_type_stops_nothing(url: str, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1d_final.json")
    raw.set("vmpooler__tasks__clone", "-1")
    raw.delete("vmpooler__dlq__ready")
    raw.set("vmpooler__dlq__ready", "odd")
    raw.sadd("vmpooler__pool__undo_size_override", "x")
    found = report_of(url)
    assert found["tasks"]["clone"]["active"] == 0
    assert any("dlq__ready" in notice for notice in found["notices"])
    assert found["queues"]["running"]["vmpooler/centos-7"]["size"] == 1


def keep(url: str) -> str | None:
    async def run() -> str | None:
        async with AsyncWriter(url, adapters=("native", "vmpooler")) as writer:
            seen = await writer.snapshot()
            return (await writer.write(writer.adapters.write_health(seen.at_ms))).get("vmpooler__health")

    return asyncio.run(run())


def test_the_hash_is_written_only_while_nobody_else_does(url: str, raw: redis.Redis) -> None:
    assert keep(url) is None
    vm(raw, "pending", "vm-old", clone=ago(8000))
    assert keep(url) == "written"
    own = raw.hgetall("vmpooler__health")
    told = json.loads(own[b"metrics"])
    assert own[b"status"] == b"degraded"
    written = own[b"last_check"]
    assert isinstance(written, bytes)
    assert datetime.fromisoformat(written.decode()).tzinfo is not None
    assert 0 < raw.ttl("vmpooler__health") <= 3600
    pending = told["queues"]["pool1"]["pending"]
    assert (pending["size"], pending["stuck_count"]) == (1, 1)
    assert isinstance(pending["oldest_age"], int)
    assert told["errors"]["stuck_vm_count"] == 1
    assert keep(url) == "written"  # what is ours is written anew

    now = datetime.now(UTC).isoformat(timespec="seconds")
    theirs = {"metrics": '{"queues": {}}', "status": "healthy", "last_check": now}
    raw.delete("vmpooler__health")
    for field, value in theirs.items():
        raw.hset("vmpooler__health", field, value)
    assert keep(url) == "VMPooler writes it itself"
    assert raw.hget("vmpooler__health", "metrics") == b'{"queues": {}}'
    report = report_of(url)["adapters"]["vmpooler"]["own_health"]
    assert (report["status"], report["written_by_qdeck"]) == ("healthy", False)
    assert report["age_s"] < 60

    old = datetime.fromtimestamp(time.time() - 3000, UTC).isoformat(timespec="seconds")
    raw.hset("vmpooler__health", "last_check", old)
    [finding] = [one for one in report_of(url)["findings"] if one["code"] == "measure"]
    assert (finding["severity"], finding["limit"]) == ("degraded", 900)
    assert finding["message"] == f"{finding['count']:,} seconds since VMPooler wrote vmpooler__health (limit 900)"
    assert keep(url) == "written"


def test_the_agent_purges_and_judges_beside_vmpooler(url: str, raw: redis.Redis) -> None:
    vm(raw, "pending", "vm-old", clone=ago(8000))
    vm(raw, "ready", "vm-new", ready=ago(10))
    settings = Settings(dead_letters=DeadLetters(dlq_enabled=True))
    agent = Agent(url, AgentOptions(purge_every=0.2, health_every=0.2, history_every=None, settings=settings))
    thread = threading.Thread(target=lambda: asyncio.run(agent.serve()))
    thread.start()
    try:
        last = time.monotonic() + 30
        while not (raw.exists("vmpooler__health") and raw.exists("vmpooler__dlq__pending")):
            assert time.monotonic() < last
            time.sleep(0.05)
    finally:
        agent.stop()
        thread.join(20)
    assert raw.smembers("vmpooler__ready__pool1") == {b"vm-new"}
    assert not raw.exists("vmpooler__pending__pool1")
    assert raw.zcard("vmpooler__dlq__pending") == 1


def test_dead_letters_of_tasks_count_as_a_hash_too(url: str, raw: redis.Redis) -> None:
    vm(raw, "ready", "vm", ready=ago(10))
    raw.hset("vmpooler__dlq__tasks", mapping={"one": "{}", "two": "{}"})
    assert keep(url) == "written"
    metrics = raw.hget("vmpooler__health", "metrics")
    assert isinstance(metrics, bytes)
    told = json.loads(metrics)
    assert (told["queues"]["dlq"], told["errors"]["dlq_total_size"]) == ({"tasks": {"size": 2}}, 2)
