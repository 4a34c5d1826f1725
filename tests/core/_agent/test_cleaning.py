"""The agent's cleaner: a dry run only tells, orphans go when it is told to, and what happened is counted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from core._agent.test_metrics import parse
from qdeck._settings.model import Agent
from qdeck.admin import Settings, Writer
from qdeck.messages import _registry as registry

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._redis import SyncClient

OVER = "shop:callbacks:mail:over"
ORPHAN = "shop:responses:get:orphan"


@pytest.fixture
async def litter(client: SyncClient, raw: redis.Redis) -> None:
    client.run(registry.register(OVER, "callbacks", "shop", task="t", tier="free", ttl_ms=1))
    raw.rpush(OVER, "a message")
    raw.rpush(ORPHAN, "a message", "another")
    await asyncio.sleep(2.1)


@pytest.mark.usefixtures("litter")
async def test_a_dry_run_only_tells_and_orphans_go_when_it_is_told_to(
    run_agent: Callable[..., Any], raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._cleaning.IDLE_S", 1)
    dry = Settings(agent=Agent(clean_dry_run=True, clean_orphans=True))
    async with run_agent(http=None, clean_every=0.2, settings=dry) as agent:
        await agent.until(lambda: agent.of("clean"))
    told = agent.of("clean")[0]
    assert (told["dry_run"], told["removed"], told["orphans"]) == (True, 2, 1)
    assert raw.exists(OVER, ORPHAN) == 2
    async with run_agent(clean_every=0.2, settings=Settings(agent=Agent(clean_orphans=True))) as agent:
        await agent.until(lambda: not raw.exists(OVER, ORPHAN))
        await agent.until(lambda: [run for run in agent.of("clean") if run.get("removed") == 2])
        found = parse((await agent.ask("/metrics", token=None)).text)

    def labels(tier: str, kind: str, **more: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({"service": "shop", "type": kind, "tier": tier, **more}.items()))

    assert found["qdeck_temporary_queues_total", labels("free", "callbacks", event="made")] == 1
    assert found["qdeck_temporary_queues_total", labels("free", "callbacks", event="expired")] == 1
    assert found["qdeck_temporary_queues_total", labels("", "responses", event="orphaned")] == 1
    assert found["qdeck_temporary_messages_discarded_total", labels("", "responses")] == 2
    assert found["qdeck_temporary_freed_bytes_total", labels("free", "callbacks")] > 0


@pytest.mark.usefixtures("litter")
async def test_orphans_that_the_agent_removed_can_be_put_back(
    run_agent: Callable[..., Any], raw: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._cleaning.IDLE_S", 1)
    async with run_agent(http=None, clean_every=0.2, settings=Settings(agent=Agent(clean_orphans=True))) as agent:
        await agent.until(lambda: [run for run in agent.of("clean") if run.get("orphans")])
    with Writer(url) as deck:
        assert deck.undo().restored == 1
    assert raw.lrange(ORPHAN, 0, -1) == [b"a message", b"another"]
