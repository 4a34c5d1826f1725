"""Schedules tick under an agent, whether or not a worker runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from qdeck._schedules import store
from qdeck.admin import Definition, new_job
from support.agents import QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._redis import SyncClient

READY = f"{{{QUEUE}}}:ready"


def add(client: SyncClient, cron: str = "* * * * * *") -> None:
    client.run(store.register(Definition.of("feeds", QUEUE, new_job(QUEUE, "feed", (), None), cron=cron)))


async def test_a_schedule_ticks_under_agents_and_no_worker(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """'cron schedules … any number of agents makes each tick once'"""
    add(client)
    async with run_agent(http=None) as first, run_agent(http=None) as second:
        await first.until(lambda: raw.zcard(READY) >= 3)
        ticked = [event for agent in (first, second) for event in agent.events if event["event"] == "ticked"]
    made = [job_id for event in ticked for job_id in event["ids"]]
    assert len(made) == len(set(made)), "two agents made one run"
    assert raw.hlen("qdeck:workers") == 0
    count = raw.zcard(READY)
    await asyncio.sleep(1.2)
    assert raw.zcard(READY) == count, "it ticks no more when the agents have ended"


async def test_an_agent_that_may_not_write_ticks_nothing(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    add(client)
    async with run_agent(read_only=True, health_every=0.2) as agent:
        await asyncio.sleep(1.2)
        await agent.until(lambda: agent.of("health", "checked"))
    assert raw.exists(READY) == 0
