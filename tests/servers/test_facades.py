"""The two facades, a worker process and an agent, where there are several servers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from core.compat.site_tasks import CALLS, CloneFile, FetchFeeds
from qdeck.compat import ifdb
from qdeck.compat.scheduler import QueueManager
from support.agents import running
from support.beside import Beside
from support.clusters import wait_for
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.clusters import Cluster, Trio


def test_the_schedulers_methods_on_a_cluster(cluster: Cluster) -> None:
    manager = QueueManager(cluster.url)
    for number in range(20):
        manager.enqueue(f"job:{number}", "HIGH")
    manager.enqueue_delayed("late", datetime.now(UTC) + timedelta(seconds=0.1), "CRITICAL")
    got: list[str] = []

    def take() -> bool:
        manager.promote_delayed_jobs()
        job_id = manager.dequeue()
        if job_id is not None:
            assert manager.mark_processing(job_id, "w")
            assert manager.heartbeat(job_id)
            assert manager.mark_completed(job_id)
            got.append(job_id)
        return len(got) == 21

    wait_for(take, "all jobs")
    assert sorted(got) == sorted(["late", *(f"job:{number}" for number in range(20))])
    assert set(manager.get_stats().values()) == {0}
    manager.close()


def test_ifdbs_calls_on_a_cluster(cluster: Cluster) -> None:
    queue = ifdb.TaskQueue(cluster.url, modules=["core.compat.site_tasks"])
    CALLS.clear()
    queue.enqueue(FetchFeeds, name="FetchFeeds", cron="* * * * * *")
    first = queue.enqueue(CloneFile, 1, priority=50)
    queue.enqueue(CloneFile, 2, dependency=first)
    assert queue.enqueue_or_get(CloneFile, 3, name="once").created
    assert not queue.enqueue_or_get(CloneFile, 3, name="once").created
    with Beside(queue.worker_app(), concurrency=1):
        wait_until(lambda: {call[:2] for call in CALLS} >= {("CloneFile", n) for n in (1, 2, 3)})
        wait_until(lambda: any(call[0] == "FetchFeeds" for call in CALLS))


@pytest.mark.slow
async def test_an_agent_goes_on_with_the_new_master(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio()
    async with running(trio.url, maintain_every=0.2, history_every=0.5, health_every=0.5) as agent:
        await agent.until(lambda: agent.of("health"))
        old = trio.master()
        old.kill9()
        await asyncio.to_thread(wait_for, lambda: trio.master() is not old, "new master")
        before = len(agent.of("health"))
        await agent.until(lambda: len(agent.of("health")) > before + 2, 60)
        assert (await agent.ask("/healthz", token=None)).code == 200
