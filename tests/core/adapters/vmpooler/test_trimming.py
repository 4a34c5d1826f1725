"""`dlq_ttl` and `dlq_max_entries` hold while an agent runs, without a purge."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.vmpooler.written import dead, entry
from qdeck._settings.model import DeadLetters
from qdeck.admin import Settings
from support.agents import running

if TYPE_CHECKING:
    import redis


async def maintained(url: str, raw: redis.Redis, **limits: Any) -> int:
    """How many letters the first run of an agent without purges removed."""
    settings = Settings(dead_letters=DeadLetters(**limits))
    async with running(url, http=None, settings=settings) as agent:
        await agent.until(lambda: raw.hget("qdeck:agent:{qdeck:maintain}", "runs"))
    return int(sum(one.get("trimmed", 0) for one in agent.of("maintain")))


def names(members: Any) -> list[str]:
    return [json.loads(member)["vm"] for member in members]


async def test_dead_letters_over_their_age_go_one_by_one(url: str, raw: redis.Redis) -> None:
    dead(raw, "clone", "old", 2 * 3600 + 60)
    dead(raw, "clone", "new", 2 * 3600 - 60)
    dead(raw, "pending", "older", 90 * 3600)
    now = time.time()
    raw.hset(
        "vmpooler__dlq__tasks", "disk", json.dumps([entry("t-old", now - 7300), entry("t-new", now - 60), "vm-3:10"])
    )
    assert await maintained(url, raw, dlq_enabled=True, dlq_ttl=2) == 3
    assert names(raw.zrange("vmpooler__dlq__clone", 0, -1)) == ["new"]
    assert not raw.exists("vmpooler__dlq__pending")
    left = json.loads(raw.hget("vmpooler__dlq__tasks", "disk") or "")
    assert [one if isinstance(one, str) else one["vm"] for one in left] == ["t-new", "vm-3:10"]


async def test_the_oldest_beyond_the_number_go(url: str, raw: redis.Redis) -> None:
    for number in range(1200):
        dead(raw, "ready", f"vm-{number}", 10 * number)  # not a second apart, which may pass while they are written
    dead(raw, "clone", "other", 50_000)
    failed = [entry(f"t-{number}", time.time() - 10 * number) for number in range(105)]
    raw.hset("vmpooler__dlq__tasks", mapping={"disk": json.dumps(failed[:50]), "snapshot": json.dumps(failed[50:])})
    assert await maintained(url, raw, dlq_enabled=True, dlq_max_entries=100) == 1105
    left = [one for value in raw.hvals("vmpooler__dlq__tasks") for one in json.loads(value)]
    assert {one["vm"] for one in left} == {f"t-{number}" for number in range(100)}
    assert names(raw.zrevrange("vmpooler__dlq__ready", 0, -1)) == [f"vm-{number}" for number in range(100)]
    assert raw.zcard("vmpooler__dlq__clone") == 1


@pytest.mark.parametrize("enabled", [True, False])
async def test_nothing_is_trimmed_that_is_not_enabled_or_cannot_be_read(
    url: str, raw: redis.Redis, enabled: bool
) -> None:
    dead(raw, "clone", "old", 90 * 3600)
    raw.set("vmpooler__dlq__ready", "a text")
    assert await maintained(url, raw, dlq_enabled=enabled, dlq_ttl=2) == enabled
    assert raw.zcard("vmpooler__dlq__clone") == (not enabled)
    assert raw.get("vmpooler__dlq__ready") == b"a text"
