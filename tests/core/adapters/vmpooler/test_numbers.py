"""The numbers of the document: in the report, in `vmpooler__health` and in the metrics they are the same."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.adapters.test_health import keep
from core.adapters.test_purge import ago, vm
from core.adapters.vmpooler.written import dead, entry
from qdeck.admin import Settings, Writer
from qdeck_console.documents import health as health_document
from support.agents import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def own(raw: redis.Redis, url: str) -> dict[str, Any]:
    """The hash that the agent writes while the manager does not."""
    assert keep(url) == "written"
    metrics = raw.hget("vmpooler__health", "metrics")
    assert isinstance(metrics, bytes)
    status = raw.hget("vmpooler__health", "status")
    assert isinstance(status, bytes)
    found: dict[str, Any] = json.loads(metrics)
    return found | {"status": status.decode()}


async def scraped(url: str, **options: Any) -> dict[str, float]:
    """The metrics that have no labels, and the sums of the others."""
    async with running(url, **options) as agent:
        if options:
            await agent.until(lambda: agent.of("purge"))
        text = (await agent.ask("/metrics")).text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


def test_report_hash_and_metrics_have_one_number_for_each_fact(writer: Writer, url: str, raw: redis.Redis) -> None:
    for name in ("s1", "s2"):
        vm(raw, "pending", name, clone=ago(8000))
    vm(raw, "completed", "c", destroy=ago(10))
    raw.sadd("vmpooler__discovered__pool1", "d1", "d2")
    raw.hset("vmpooler__odrequest__over", mapping={"requested": "a:pool1:1", "status": "failed"})
    for number in range(12):
        dead(raw, ("pending", "clone", "ready")[number % 3], f"vm-{number}")
    raw.hset("vmpooler__dlq__tasks", "disk", json.dumps([entry("t1", 5), entry("t2", 6)]))
    report = health_document(writer.health())
    hashed = own(raw, url)
    metrics = asyncio.run(scraped(url))
    assert report["errors"]["dlq_size"] == hashed["errors"]["dlq_total_size"] == metrics["qdeck_dlq_size"] == 14
    assert {kind: metrics[f"qdeck_dlq_{kind}_size"] for kind in ("pending", "clone", "ready", "tasks")} == {
        kind: told["size"] for kind, told in hashed["queues"]["dlq"].items()
    } == {"pending": 4, "clone": 4, "ready": 4, "tasks": 2}  # fmt: skip
    assert (
        report["errors"]["stuck_vm_count"]
        == hashed["errors"]["stuck_vm_count"]
        == metrics["qdeck_health_stuck_vms_count"]
        == 2
    )
    assert report["tasks"]["clone"]["pending"] == hashed["tasks"]["clone"]["pending"] == 2
    assert hashed["queues"]["pool1"]["completed"] == {"size": 1, "oldest_age": pytest.approx(10, abs=20), "avg_age":
        pytest.approx(10, abs=20)}  # fmt: skip
    assert report["status"] == hashed["status"] == "degraded"
    assert metrics["qdeck_health_status"] == 1


@pytest.mark.parametrize(("stuck", "status"), [(0, "healthy"), (1, "degraded"), (50, "degraded"), (51, "unhealthy")])
def test_healthy_means_no_stuck_machine(writer: Writer, url: str, raw: redis.Redis, stuck: int, status: str) -> None:
    vm(raw, "ready", "fine", ready=ago(5))
    for number in range(stuck):
        vm(raw, "pending", f"vm-{number}", clone=ago(8000))
    assert (
        writer.snapshot().status.value
        == health_document(writer.health())["status"]
        == own(raw, url)["status"]
        == status
    )


def test_a_pool_that_is_named_dlq_is_not_overwritten(url: str, raw: redis.Redis) -> None:
    raw.sadd("vmpooler__pools", "dlq")
    for number in range(201):
        vm(raw, "pending", f"vm-{number}", "dlq", clone=ago(5))
    dead(raw, "clone", "letter")
    found = own(raw, url)
    assert found["queues"]["dlq"]["pending"]["size"] == 201
    assert found["errors"]["dlq_total_size"] == 1
    assert found["status"] == "unhealthy", "the manager leaves a pool of this name out"


def test_clones_have_a_rate_and_two_reads_that_coincide_lose_none(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "ready", "fine", ready=ago(5))
    key = "vmpooler__clone__2026-11-18"  # the day of the moments below
    [adapter] = writer.adapters.non_native
    rows = [row for row in writer.snapshot().queues if row.adapter == "vmpooler"]

    def rate(at_ms: int) -> object:
        return writer.run(adapter.health(at_ms, rows)).rates["clone_rate"]

    raw.hset(key, "pool1:a", "1.5")
    assert rate(1_795_000_000_000) is None
    for name in ("b", "c"):
        raw.hset(key, f"pool1:{name}", "1.5")
    assert rate(1_795_000_060_000) == 2
    assert rate(1_795_000_060_100) == 2
    found = health_document(writer.health())
    assert set(found["processing_rate"]) == {"clone_rate", "destroy_rate"}


async def test_purged_pending_machines_count_as_pending(url: str, raw: redis.Redis) -> None:
    for number in range(3):
        vm(raw, "pending", f"vm-{number}", clone=ago(8000))
    assert (await scraped(url, purge_every=3600, settings=Settings()))["qdeck_purge_pending_count"] == 3
