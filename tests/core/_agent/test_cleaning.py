"""The agent's cleaner is a purge of temporary queues: by the rules that it is given, told, recorded and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._agent.test_metrics import parse
from qdeck._settings.model import AgentSettings
from qdeck.admin import Settings, Writer
from qdeck.messages import _registry as registry
from support.temporary import age

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._redis import SyncClient

OVER, EMPTY = "shop:callbacks:mail:over", "shop:callbacks:mail:empty"
ORPHAN = "shop:responses:get:orphan"
RULES = ("expired_queues", "unread_queues", "orphaned_queues")


@pytest.fixture
def litter(client: SyncClient, raw: redis.Redis) -> None:
    for name in (OVER, EMPTY):
        client.run(registry.register(name, "callbacks", "shop", task="t", tier="free", ttl_ms=1))
        raw.zadd(registry.QUEUES, {name: 1})
    raw.rpush(OVER, "a message")
    raw.rpush(ORPHAN, "a message", "another")
    age(raw, ORPHAN)


def cleans(*rules: str, dry_run: bool = False) -> Settings:
    return Settings(agent=AgentSettings(clean_rules=rules, clean_dry_run=dry_run))


@pytest.mark.usefixtures("litter")
async def test_it_takes_what_its_rules_name(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    async with run_agent(http=None, clean_every=0.2, settings=cleans(*RULES, dry_run=True)) as agent:
        await agent.until(lambda: agent.of("clean"))
    told = agent.of("clean")[0]
    assert (told["dry_run"], told["planned"]) == (True, 3)
    assert {rule: one["count"] for rule, one in told["rules"].items()} == dict.fromkeys(RULES, 1)
    assert raw.exists(OVER, ORPHAN) == 2
    async with run_agent(http=None, clean_every=0.2, settings=Settings()) as agent:
        await agent.until(lambda: agent.of("clean"))
    assert raw.exists(OVER, ORPHAN) == 2, "what holds messages is only taken by name"
    assert raw.hkeys(registry.ABOUT) == [OVER.encode()]
    async with run_agent(clean_every=0.2, settings=cleans(*RULES)) as agent:
        await agent.until(lambda: not raw.exists(OVER, ORPHAN))
        await agent.until(lambda: [run for run in agent.of("clean") if run.get("applied") == 2])
        found = parse((await agent.ask("/metrics", token=None)).text)

    def labels(tier: str, kind: str, **more: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted({"service": "shop", "type": kind, "tier": tier, **more}.items()))

    assert found["qdeck_temporary_queues_total", labels("free", "callbacks", event="made")] == 2
    assert found["qdeck_temporary_queues_total", labels("free", "callbacks", event="expired")] == 2
    assert found["qdeck_temporary_queues_total", labels("", "responses", event="orphaned")] == 1
    assert found["qdeck_temporary_messages_discarded_total", labels("", "responses")] == 2
    assert found["qdeck_temporary_freed_bytes_total", labels("free", "callbacks")] > 0


@pytest.mark.usefixtures("litter")
async def test_what_it_removed_is_in_the_log_and_can_be_put_back(
    run_agent: Callable[..., Any], raw: redis.Redis, url: str
) -> None:
    async with run_agent(http=None, clean_every=0.2, settings=cleans(*RULES)) as agent:
        await agent.until(lambda: [run for run in agent.of("clean") if run.get("applied")])
    with Writer(url) as writer:
        entry = writer.activity()[-1]
        assert (entry.verb, entry.reason, entry.queues) == ("purge", "clean", ("shop:callbacks", "shop:responses"))
        assert set(entry.detail.split(", ")) >= {ORPHAN, OVER}, "with the names of the queues"
        assert writer.batches()[entry.batch or ""].automatic, "it takes no room from what operators do"
        assert writer.undo().restored == 3
    assert raw.lrange(ORPHAN, 0, -1) == [b"a message", b"another"]
    assert raw.lrange(OVER, 0, -1) == [b"a message"]


async def test_it_says_nothing_where_there_is_nothing(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    async with run_agent(http=None, clean_every=0.1, settings=cleans(*RULES)) as agent:
        await agent.until(lambda: int(raw.hget("qdeck:agent:{qdeck:clean}", "runs") or 0) >= 3)
    assert agent.of("clean") == []
    assert not raw.exists("qdeck:undo", "qdeck:activity")
