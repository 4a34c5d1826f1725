"""The document on queue reliability, line by line, as far as the agent is what does it."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from qdeck._engine import codec, keys
from qdeck._settings import DeadLetters, Purge, read_text
from qdeck.admin import Settings
from qdeck.runtime import agent_options
from support.agents import QUEUE, bury, claim, make_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck._redis import SyncClient


async def test_health_metrics_are_exposed_via_redis_metrics_and_logs(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """- [ ] Health metrics are exposed via Redis, metrics, and logs"""
    make_jobs(client, 101)
    bury(client, claim(client, free_slots=101))
    async with run_agent(health_every=60) as agent:
        await agent.until(lambda: agent.of("health"))
        [logged] = agent.of("health")
        metrics = (await agent.ask("/metrics")).text
    assert set(raw.hkeys("qdeck:health")) == {b"metrics", b"status", b"last_check"}
    text, status, checked = [
        word for word in raw.hmget("qdeck:health", "metrics", "status", "last_check") if isinstance(word, bytes)
    ]
    assert status == b"degraded"
    assert datetime.fromisoformat(checked.decode()).timestamp() == pytest.approx(time.time(), abs=60)
    assert 3500 < raw.ttl("qdeck:health") <= 3600
    report = codec.decode_json(text)
    assert report["errors"]["dlq_size"] == 101
    assert report["queues"]["dead"][f"native/{QUEUE}"]["size"] == 101
    assert "qdeck_health_status 1.0" in metrics
    assert (logged["status"], logged["dead"]) == ("degraded", 101)
    assert [(one["code"], one["count"]) for one in logged["findings"]] == [("dead", 101)]


async def test_health_check_runs_on_configurable_interval(run_agent: Callable[..., Any]) -> None:
    """- [ ] Health check runs on configurable interval"""
    async with run_agent(http=None, health_every=0.3) as agent:
        await agent.until(lambda: agent.of("health"))
        began = time.monotonic()
        await agent.until(lambda: len(agent.of("health")) >= 4)
        assert 0.6 < time.monotonic() - began < 10


async def test_the_health_hash_goes_when_nobody_checks(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    """`qdeck:health` expires after an hour, as the document's own: an old verdict is worse than none."""
    async with run_agent(http=None, health_every=0.2) as agent:
        await agent.until(lambda: agent.of("health"))
        raw.pexpire("qdeck:health", 1000)
        await agent.until(lambda: raw.pttl("qdeck:health") > 3_000_000)


def test_everything_is_opt_in_via_configuration() -> None:
    """All features are opt-in via configuration
    Default: dlq_enabled: false, purge_enabled: false, health_check_enabled: false
    """
    options = agent_options(read_text(""), None)
    assert (options.purge_every, options.health_every, options.http, options.allow_purge) == (None, None, None, False)
    text = """
        [purge]
        purge_enabled = true
        purge_interval = 3600
        purge_dry_run = true
        [health]
        health_check_enabled = true
        health_check_interval = 300
        [agent]
        http = "127.0.0.1:9180"
        history_hours = 48
    """
    options = agent_options(read_text(text), None)
    assert (options.purge_every, options.health_every, options.history_keep_s) == (3600, 300, 48 * 3600)
    assert options.settings.purge.purge_dry_run
    assert options.http is not None
    assert (options.http.host, options.http.port) == ("127.0.0.1", 9180)
    given = agent_options(read_text(text), None, purge_every=5, http=":1", token="")
    assert (given.purge_every, given.token) == (5, None)
    assert given.http is not None
    assert given.http.port == 1


OLD = Purge(max_ready_age=1, rules=("ready_too_old",))


async def test_purge_metrics_are_logged_with_count_age_and_reason(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """- [ ] Purge metrics are logged (count, age, reason)"""
    make_jobs(client, 7)
    await asyncio.sleep(1.2)
    async with run_agent(purge_every=3600, settings=Settings(purge=OLD)) as agent:
        await agent.until(lambda: agent.of("purge"))
        metrics = (await agent.ask("/metrics")).text
    [run] = agent.of("purge")
    taken = run["rules"]["ready_too_old"]
    assert (run["dry_run"], run["planned"], run["applied"], run["skipped"]) == (False, 7, 7, 0)
    assert taken["count"] == 7
    assert 1 < taken["oldest_age"] < 30
    assert "max_ready_age" in taken["reason"]
    assert run["batch"]
    assert "qdeck_purge_ready_count 7.0" in metrics
    assert 'qdeck_purge_entries_total{rule="ready_too_old"} 7.0' in metrics
    assert raw.zcard(keys.key(QUEUE, "ready")) == 0


async def test_dry_run_mode_available_for_testing(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """- [ ] Dry-run mode available for testing: `purge_dry_run`, log what would be purged but don't purge"""
    make_jobs(client, 4)
    await asyncio.sleep(1.2)
    settings = Settings(purge=Purge(max_ready_age=1, rules=("ready_too_old",), purge_dry_run=True))
    before = {key: raw.dump(key) for key in raw.scan_iter(f"{{{QUEUE}}}:*")}
    async with run_agent(purge_every=3600, settings=settings, history_every=None, maintain_every=3600) as agent:
        await agent.until(lambda: agent.of("purge"))
        metrics = (await agent.ask("/metrics")).text
    [run] = agent.of("purge")
    assert (run["dry_run"], run["planned"], run["rules"]["ready_too_old"]["count"]) == (True, 4, 4)
    assert "qdeck_purge_ready_count 0.0" in metrics, "what was not done is not counted"
    assert {key: raw.dump(key) for key in raw.scan_iter(f"{{{QUEUE}}}:*")} == before
    assert raw.exists("qdeck:activity") == 0


async def test_purge_runs_on_configurable_interval(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """- [ ] Purge runs on configurable interval"""
    settings = Settings(purge=Purge(max_ready_age=0, rules=("ready_too_old",)))
    async with run_agent(http=None, purge_every=0.4, settings=settings) as agent:
        for _ in range(2):
            make_jobs(client, 2)
            await agent.until(lambda: raw.zcard(keys.key(QUEUE, "ready")) == 0)
        await agent.until(lambda: len(agent.of("purge")) >= 4)
    assert sum(run.get("applied", 0) for run in agent.of("purge")) == 4


async def test_purge_respects_dead_letters(run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis) -> None:
    """DLQ + purge interaction (purge should respect DLQ entries): what it makes dead is not its next prey."""
    make_jobs(client, 3)
    settings = Settings(purge=Purge(max_ready_age=0), dead_letters=DeadLetters(dlq_enabled=True))
    await asyncio.sleep(0.01)
    async with run_agent(http=None, purge_every=0.3, settings=settings) as agent:
        await agent.until(lambda: len(agent.of("purge")) >= 3)
    assert raw.zcard(keys.key(QUEUE, "dead")) == 3


async def test_dead_letters_are_queryable_via_the_api_with_their_whole_context(
    run_agent: Callable[..., Any], client: SyncClient
) -> None:
    """- [ ] DLQ entries are queryable via Redis CLI or API: GET /api/v1/queue/dlq?queue=&limit=
    - [ ] DLQ entries contain complete failure context (error, timestamp, retry count)
    """
    [job_id] = make_jobs(client, 1, body=b'[[42],{"pool":"centos-7"}]')
    bury(client, claim(client), **{"class": "StandardError", "message": "template does not exist"})
    async with run_agent() as agent:
        found = (await agent.ask(f"/api/v1/queue/dlq?queue={QUEUE}&limit=50")).json
    [letter] = found["entries"]
    assert letter["id"] == job_id
    assert letter["queue_from"] == QUEUE
    assert (letter["error_class"], letter["error_message"]) == ("StandardError", "template does not exist")
    assert letter["failed_at"].endswith("Z")
    assert letter["retry_count"] == 0
    assert letter["payload"] == [[42], {"pool": "centos-7"}]


async def test_dead_letters_expire_and_their_number_is_limited(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    """- [ ] DLQ entries expire after configurable TTL; - [ ] DLQ size is limited to prevent unbounded growth"""
    make_jobs(client, 30)
    bury(client, claim(client, free_slots=30))
    old = claim(client) or raw.zrange(keys.key(QUEUE, "dead"), 0, 4)
    raw.zadd(keys.key(QUEUE, "dead"), dict.fromkeys(old, int(time.time() * 1000) - 3 * 3_600_000))
    settings = Settings(dead_letters=DeadLetters(dlq_ttl=2, dlq_max_entries=10))
    async with run_agent(http=None, purge_every=3600, settings=settings) as agent:
        await agent.until(lambda: agent.of("purge"))
    [run] = agent.of("purge")
    assert {rule: taken["count"] for rule, taken in run["rules"].items()} == {"dead_too_old": 5, "dead_too_many": 15}
    assert raw.zcard(keys.key(QUEUE, "dead")) == 10
