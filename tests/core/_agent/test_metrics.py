"""The metrics, read as Prometheus reads them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from qdeck._agent.metrics import expose
from qdeck._redis import Endpoint, SyncClient
from qdeck.adapters import Unreadable, UnreadableCode
from qdeck.admin import QueueRow, Reader, ServerInfo, Snapshot, Status, Totals
from support.agents import QUEUE, bury, claim, make_jobs, running
from support.documents import HOUR_S, ago, machine, machine_letter, pool, ruby

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            assert sample.name.startswith("qdeck_")
            found[key] = sample.value
    return found


async def test_every_metric_of_the_document_is_there(run_agent: Callable[..., Any], client: SyncClient) -> None:
    """Metrics: vmpooler.dlq.*, vmpooler.purge.*, vmpooler.health.*: dots to underscores, names of queues as labels.

    `dlq.<queue>.size`, `purge.<what>.count`, `health.status`, `health.stuck_vms.count`,
    `health.queue.<name>.size|oldest_age`
    """
    make_jobs(client, 4)
    bury(client, claim(client))
    async with run_agent() as agent:
        answer = await agent.ask("/metrics", token=None)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = parse(answer.text)
    queue = (("adapter", "native"), ("queue", QUEUE))
    assert found["qdeck_dlq_size", queue] == 1
    for what in ("pending", "ready", "completed", "orphaned"):
        assert found[f"qdeck_purge_{what}_count", ()] == 0
    assert found["qdeck_health_status", ()] == 1
    assert found["qdeck_health_stuck_vms_count", ()] == 0
    assert found["qdeck_health_queue_size", (*queue, ("state", "ready"))] == 3
    assert 0 <= found["qdeck_health_queue_oldest_age", queue] < 60
    assert found["qdeck_queue_enqueued_total", queue] == 4
    assert found["qdeck_queue_dead_total", queue] == 1
    assert found["qdeck_queue_quarantined_total", queue] == 0


async def test_names_of_any_kind_survive(run_agent: Callable[..., Any], client: SyncClient) -> None:
    names = ["a.b-c_d:s:actions", "x:" + "y" * 180 + ":actions"]
    for name in names:
        make_jobs(client, 1, queue=name)
    async with run_agent() as agent:
        found = parse((await agent.ask("/metrics")).text)
    assert {dict(labels)["queue"] for name, labels in found if name == "qdeck_dlq_size"} == set(names)


async def test_the_status_is_that_of_the_verdict(run_agent: Callable[..., Any], client: SyncClient) -> None:
    async with run_agent() as agent:
        assert parse((await agent.ask("/metrics")).text)["qdeck_health_status", ()] == 0
        make_jobs(client, 1001)
        while jobs := claim(client, free_slots=200):
            bury(client, jobs)
        await asyncio.sleep(1.1)  # a picture is everybody's for a second
        assert parse((await agent.ask("/metrics")).text)["qdeck_health_status", ()] == 2


async def test_runs_of_all_agents_are_counted_together(run_agent: Callable[..., Any]) -> None:
    async with run_agent(health_every=0.2) as one, run_agent(health_every=0.2) as other:
        await one.until(lambda: len(one.of("health") + other.of("health")) >= 5)
        texts = [(await agent.ask("/metrics")).text for agent in (one, other)]
    for text in texts:
        found = parse(text)
        assert found["qdeck_agent_runs_total", (("outcome", "done"), ("task", "health"))] >= 5
        assert found["qdeck_agent_last_run_timestamp_seconds", (("task", "health"),)] > 1.7e9


async def test_a_thousand_queues(make_server: Callable[..., Server]) -> None:
    server = make_server()
    client = SyncClient(Endpoint(server.url))
    for n in range(1000):
        make_jobs(client, 1, queue=f"q{n}:s:actions")
    async with running(server.url) as agent:
        found = parse((await agent.ask("/metrics")).text)
    assert len([1 for name, _ in found if name == "qdeck_dlq_size"]) == 1000
    client.close()


def test_the_numbers_are_those_of_the_report_and_of_the_status() -> None:
    """Machines of VMPooler are counted as the report does; a queue of which something cannot be read still has its
    dead letters.
    """
    broken = Unreadable(code=UnreadableCode.WRONGTYPE)
    rows = (
        QueueRow(adapter="vmpooler", name="centos-7", stuck=2, late=0, dead=12),
        QueueRow(
            adapter="vmpooler",
            name="requests:on-demand",
            stuck=1,
            dead=1,
            problem=broken,
        ),
    )
    seen = Snapshot(
        at_ms=1, server=ServerInfo(), status=Status.DEGRADED, findings=(), adapters=("vmpooler",),
        totals=Totals(stuck=3, dead=13), queues=rows,
    )  # fmt: skip
    found = parse(expose(seen, {"errors": {"stuck_count": 3, "stuck_vm_count": 2}}, ()).decode())
    assert found["qdeck_health_stuck_vms_count", ()] == 2
    assert sum(value for (name, _), value in found.items() if name == "qdeck_dlq_size") == 13
    assert found["qdeck_health_queue_late", (("adapter", "vmpooler"), ("queue", "centos-7"))] == 0


def test_the_page_has_every_metric() -> None:
    page = Path(__file__).parents[3] / "core" / "docs" / "reference" / "agent.md"
    listed = re.findall(r"^\| `(qdeck_\w+)` \|", page.read_text("utf-8"), re.MULTILINE)
    seen = Snapshot(
        at_ms=1, server=ServerInfo(memory_bytes=1), status=Status.HEALTHY, findings=(), adapters=("native",),
        totals=Totals(), queues=(QueueRow(adapter="native", name="q", out_per_s=1.0),), workers_alive=1,
    )  # fmt: skip
    report = {"errors": {"orphaned_count": 0}, "processing_rate": {"clone_rate": 1.5}}
    text = expose(seen, report, (), dead=dict.fromkeys(("pending", "clone", "ready", "tasks"), 1)).decode()
    assert sorted(listed) == sorted(re.findall(r"^# HELP (\w+) ", text, re.MULTILINE))


def test_the_metrics_count_as_the_report_before_there_is_one(url: str, raw: redis.Redis) -> None:
    """Requests of VMPooler are no machines, and each dead letter is of one queue."""
    pool(raw, "centos-7")
    for number in range(2):
        machine(raw, "pending", f"vm{number}", "centos-7", clone=ruby(ago(3 * HOUR_S)))
    raw.zadd("vmpooler__provisioning__request", {"req-9": ago(HOUR_S)})
    raw.hset("vmpooler__odrequest__req-9", "requested", "centos-7:centos-7:1")
    machine_letter(raw, "clone", "nopool", None, 60)
    machine_letter(raw, "pending", "vm9", "centos-7", 60)
    with Reader(url) as reader:
        report = reader.health()
    found = parse(expose(report.snapshot, {}, ()).decode())
    assert (report.errors.stuck, report.errors.stuck_vms, report.errors.dead) == (3, 2, 2)
    assert found["qdeck_health_stuck_vms_count", ()] == report.errors.stuck_vms
    assert sum(value for (name, _), value in found.items() if name == "qdeck_dlq_size") == report.errors.dead
