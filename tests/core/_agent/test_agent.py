"""Agents at work: together, frozen, killed, without rights, without a server."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from qdeck import NotAllowed, QueueName, ServerUnreachable
from qdeck._agent.options import AgentOptions
from qdeck._engine import keys
from qdeck._redis import Endpoint, SyncClient
from qdeck._server import history
from qdeck._settings import AgentSettings, Purge
from qdeck.admin import AsyncWriter, Settings, Writer
from qdeck.messages import _registry as registry
from qdeck.runtime import Agent
from support.agents import QUEUE, TOKEN, claim, make_jobs, running
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.processes import PythonProcess
    from support.servers import Server


def start(make_process: Callable[..., PythonProcess], url: str, *more: str, token: str = TOKEN) -> PythonProcess:
    environment = {"QDECK_URL": url, "QDECK_HTTP_TOKEN": token}
    process = make_process("-m", "qdeck_console", "agent", "--json", *more, env=environment)
    process.wait_for('"started"')
    return process


def told(process: PythonProcess, event: str, task: str = "") -> list[dict[str, Any]]:
    events = [json.loads(line) for line in process.stdout]
    return [one for one in events if one["event"] == event and task in ("", one.get("task"))]


def test_two_agents_do_each_run_once(url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]) -> None:
    pair = [start(make_process, url, "--health-every", "0.3") for _ in range(2)]
    wait_until(lambda: int(raw.hget("qdeck:agent:{qdeck:health}", "runs") or 0) >= 8)
    for process in pair:
        process.terminate()
        assert process.wait() == 0
    runs = [run["run"] for process in pair for run in told(process, "ran", "health")]
    assert sorted(runs) == list(range(1, len(runs) + 1))
    assert raw.hget("qdeck:agent:{qdeck:health}", "runs") == str(len(runs)).encode()
    assert raw.hget("qdeck:agent:{qdeck:health}", "until") == b"0"


async def test_a_run_that_was_taken_over_is_ended_and_changes_nothing(
    run_agent: Callable[..., Any], raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()

    async def stuck(_: object, __: object) -> Any:
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    monkeypatch.setattr("qdeck._agent.maintenance.Maintenance.health", stuck)
    async with run_agent(http=None, health_every=3600, lease=0.6) as agent:
        await agent.until(lambda: raw.hget("qdeck:agent:{qdeck:health}", "token"))
        # As if this agent had been frozen, and another had taken the run and ended it.
        raw.hset("qdeck:agent:{qdeck:health}", mapping={"token": 2, "until": 0, "outcome": "done", "runs": 1})
        await agent.until(lambda: agent.of("health", "run_lost"))
        assert ended.is_set()
        assert agent.of("health", "run_lost")[0]["run"] == 1
    assert raw.hmget("qdeck:agent:{qdeck:health}", "outcome", "runs", "failed") == [b"done", b"1", None]


def test_a_frozen_process_is_replaced_and_each_run_is_still_done_once(
    url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]
) -> None:
    first = start(make_process, url, "--health-every", "0.3")
    wait_until(lambda: len(told(first, "ran", "health")) >= 2)
    first.freeze()
    second = start(make_process, url, "--health-every", "0.3")
    # Frozen within a run it holds it for one lease, 15 s; else the other goes on at once.
    wait_until(lambda: len(told(second, "ran", "health")) >= 5)
    first.thaw()
    before = len(told(first, "ran", "health"))
    wait_until(lambda: len(told(first, "ran", "health")) > before)
    for process in (first, second):
        process.terminate()
        assert process.wait() == 0
    runs = [run["run"] for process in (first, second) for run in told(process, "ran", "health")]
    assert len(runs) == len(set(runs)) == int(raw.hget("qdeck:agent:{qdeck:health}", "runs") or 0)


def test_killed_in_the_middle_of_a_run_another_does_it(
    url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]
) -> None:
    program = """
import asyncio, sys
from qdeck._agent.agent import Agent
from qdeck._agent.options import AgentOptions
from qdeck._agent.maintenance import Maintenance
async def stuck(self, lease):
    print("in the middle", flush=True)
    await asyncio.sleep(600)
Maintenance.health = stuck
Agent(sys.argv[1], AgentOptions(health_every=3600, lease=1.0)).run()
"""
    victim = make_process("-c", program, url)
    victim.wait_for("in the middle")
    time.sleep(1.5)
    assert raw.hget("qdeck:agent:{qdeck:health}", "until") != b"0", "it is kept while the agent lives"
    victim.kill9()
    heir = start(make_process, url, "--health-every", "3600")
    heir.wait_for('"task": "health"')
    assert [run["run"] for run in told(heir, "ran", "health")] == [2]
    assert raw.hget("qdeck:agent:{qdeck:health}", "runs") == b"1"
    assert raw.hget("qdeck:health", "status") == b"healthy"


async def test_a_queue_without_workers_recovers(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    make_jobs(client, 5)
    claim(client, free_slots=5, lease_ms=100, worker="gone")
    async with run_agent(http=None, maintain_every=0.1) as agent:
        await agent.until(lambda: raw.zcard(keys.key(QUEUE, "ready")) == 5)
        await agent.until(lambda: any("requeued" in run for run in agent.of("maintain")))
    assert raw.zcard(keys.key(QUEUE, "running")) == 0


async def test_history_grows_while_an_agent_runs(run_agent: Callable[..., Any], client: SyncClient, url: str) -> None:
    make_jobs(client, 2)
    async with run_agent(http=None, history_every=0.3) as agent, AsyncWriter(url) as writer:
        await agent.until(lambda: client.run(history.read_history([QUEUE]))[QUEUE])
        [sample, *_] = await writer.history(QUEUE)
        assert (sample.ready, sample.enqueued) == (2, 2)
    with Writer(url) as fresh:
        time.sleep(4)  # two looks too close to each other tell no rate
        assert fresh.snapshot().queues[0].in_per_s == 0


async def test_purge_and_health_are_off_by_default(run_agent: Callable[..., Any], raw: redis.Redis) -> None:
    """Backward compatibility: `purge_enabled` and `health_check_enabled` are false unless the file says so."""
    async with run_agent() as agent:
        [started] = [event for event in agent.events if event["event"] == "started"]
        assert set(started["tasks"]) == {"maintain", "history"}
    assert raw.exists("qdeck:health", "qdeck:agent:{qdeck:purge}", "qdeck:agent:{qdeck:health}") == 0


async def test_who_may_only_read_is_told_and_still_answers(reader_url: tuple[str, Server]) -> None:
    url, server = reader_url
    owner = SyncClient(Endpoint(server.url))
    make_jobs(owner, 2)
    with server.client() as raw:
        before = {key: raw.dump(key) for key in raw.scan_iter()}
        async with running(url, health_every=0.2, purge_every=60) as agent:
            await agent.until(lambda: len(agent.of("health", "checked")) >= 2)
            denied = {event["task"]: event for event in agent.events if event["event"] == "denied"}
            assert set(denied) == {"maintain", "history", "health", "purge"}, "each is told once"
            assert all("does not allow" in event["error"] and event["hint"] for event in denied.values())
            looked = agent.of("health", "checked")[-1]
            assert any("INFO" in notice for notice in looked["notices"])
            health = (await agent.ask("/api/v1/queue/health")).json
            assert health["queues"]["ready"][f"native/{QUEUE}"]["size"] == 2
            assert any("INFO" in notice for notice in health["notices"])
            metrics = await agent.ask("/metrics")
            assert metrics.code == 200
            assert "qdeck_notice" in metrics.text
            assert (await agent.ask("/api/v1/queue/dlq")).code == 200
            dry = await agent.ask("/api/v1/queue/purge?dry_run=true", "POST")
            assert dry.code == 200, dry.text
        assert {key: raw.dump(key) for key in raw.scan_iter()} == before
    owner.close()


async def test_a_read_only_context_is_only_looked_at(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    make_jobs(client, 1)
    async with run_agent(read_only=True, read_only_hint="ask for it", health_every=0.2) as agent:
        await agent.until(lambda: agent.of("health", "checked"))
        assert {event["hint"] for event in agent.events if event["event"] == "denied"} == {"ask for it"}
    assert not raw.keys("qdeck:agent:*")
    with pytest.raises(NotAllowed, match="read-only"):
        await Agent("redis://127.0.0.1:1", AgentOptions(read_only=True)).serve()


async def test_a_server_that_goes_away_is_waited_for(make_server: Callable[..., Server]) -> None:
    server = make_server(appendonly=True)
    async with running(server.url, http=None, health_every=0.3, lease=1.0) as agent:
        await agent.until(lambda: agent.of("health"))
        server.kill9()
        await agent.until(lambda: any(event["event"] == "waiting" for event in agent.events), 20)
        server.relaunch()
        await agent.until(lambda: any(event["event"] == "reconnected" for event in agent.events), 20)
        count = len(agent.of("health"))
        await agent.until(lambda: len(agent.of("health")) > count, 20)
    tasks = [event for event in agent.events if event["event"] == "waiting" and "what" not in event]
    assert len(tasks) <= 2, "once per trouble"


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ServerUnreachable):
        Agent("redis://127.0.0.1:1", AgentOptions()).run()


async def test_a_chore_that_fails_is_told_and_tried_at_the_next_interval(
    run_agent: Callable[..., Any], raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object, __: object) -> Any:
        raise ZeroDivisionError("no")

    monkeypatch.setattr("qdeck._agent.maintenance.Maintenance.health", broken)
    async with run_agent(http=None, health_every=0.2) as agent:
        await agent.until(lambda: len(agent.of("health", "failed")) >= 3)
        assert agent.of("health", "failed")[0]["error"] == "ZeroDivisionError: no"
    assert int(raw.hget("qdeck:agent:{qdeck:health}", "failed") or 0) >= 3


async def test_an_auto_purge_stops_within_the_grace_and_the_rest_waits(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    make_jobs(client, 20_000)
    settings = Settings(purge=Purge(max_ready_age=0, rules=("ready_too_old",)))
    await asyncio.sleep(0.01)
    async with run_agent(http=None, purge_every=3600, settings=settings) as agent:
        await agent.until(lambda: raw.zcard(keys.key(QUEUE, "ready")) < 20_000)
    left, gone = raw.zcard(keys.key(QUEUE, "ready")), raw.zcard(keys.key(QUEUE, "cancelled"))
    assert left + gone == 20_000
    counted = int(raw.hget("qdeck:agent:{qdeck:purge}", "n:ready_too_old") or 0)
    assert counted == gone
    if left:
        assert agent.of("purge", "stopped early")[0]["applied"] == gone


async def test_two_agents_purge_once(run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis) -> None:
    make_jobs(client, 3000)
    settings = Settings(purge=Purge(max_ready_age=0, rules=("ready_too_old",)))
    await asyncio.sleep(0.01)
    options: dict[str, Any] = {"http": None, "purge_every": 3600, "settings": settings}
    async with run_agent(**options) as one, run_agent(**options) as other:
        await one.until(lambda: one.of("purge") or other.of("purge"))
        await asyncio.sleep(0.3)
        [run] = one.of("purge") + other.of("purge")
    assert (run["applied"], run["skipped"]) == (3000, 0)
    assert raw.hget("qdeck:agent:{qdeck:purge}", "n:ready_too_old") == b"3000"


PURGER = """
import sys
from qdeck._agent.agent import Agent
from qdeck._agent.options import AgentOptions
from qdeck._settings import Purge, Settings
settings = Settings(purge=Purge(max_ready_age=0, rules=("ready_too_old",)))
options = AgentOptions(purge_every=3600, lease=1.0, settings=settings, history_every=None)
Agent(sys.argv[1], options, on_event=lambda event: print(event, flush=True)).run()
"""


@pytest.mark.parametrize("how", ["kill9", "freeze"])
def test_an_agent_that_ends_or_freezes_within_a_purge_leaves_the_rest_to_another(
    url: str, client: SyncClient, raw: redis.Redis, make_process: Callable[..., PythonProcess], how: str
) -> None:
    many = 60_000
    ids = {job_id.encode() for job_id in make_jobs(client, many)}
    ready, cancelled = keys.key(QUEUE, "ready"), keys.key(QUEUE, "cancelled")
    raw.hset(keys.key(QUEUE, "meta"), "cancelled_max", 10 * many)
    victim = make_process("-c", PURGER, url)
    wait_until(lambda: raw.zcard(ready) < many)
    getattr(victim, how)()
    time.sleep(0.2)  # the server may have its last call before it
    left = raw.zcard(ready)
    assert 0 < left < many, "it was to be hurt in the middle"
    heir = make_process("-c", PURGER, url)
    heir.wait_for("'ran', 'task': 'purge'")
    if how == "freeze":
        victim.thaw()
        victim.wait_for("run_lost")
    assert raw.zcard(ready) == 0
    assert set(raw.zrange(cancelled, 0, -1)) == ids
    kept = raw.hmget("qdeck:agent:{qdeck:purge}", "runs", "token", "n:ready_too_old")
    assert kept == [b"1", b"2", str(left).encode()]
    assert raw.hget(keys.key(QUEUE, "meta"), "n:cancelled") == str(many).encode(), "each was cancelled once"


async def test_a_queue_that_refuses_is_told_once(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    make_jobs(client, 1)
    claim(client, lease_ms=20)
    raw.set(keys.key(QUEUE, "attempts"), "not a hash")
    async with run_agent(http=None, maintain_every=0.1) as agent:
        await agent.until(lambda: agent.of("maintain"))
        await asyncio.sleep(1)
        assert len([run for run in agent.of("maintain") if "error" in run and "warned" not in run]) == 1


async def test_looks_at_the_same_time_do_not_mix(run_agent: Callable[..., Any], client: SyncClient) -> None:
    """Everything that an agent looks at, at once, while queues come into being."""
    async with run_agent(health_every=0.1, maintain_every=0.1, history_every=0.1) as agent:
        paths = ["/metrics", "/api/v1/queue/health", "/api/v1/queue/dlq", "/healthz"]
        for turn in range(10):
            await asyncio.to_thread(make_jobs, client, 1, queue=f"q{turn}:s:actions")
            answers = await asyncio.gather(*(agent.ask(path) for path in paths * 3))
            assert {answer.code for answer in answers} == {200}
    assert not [event for event in agent.events if event["event"] in ("failed", "waiting")]


async def test_temporary_queues_whose_time_is_over_are_removed(
    run_agent: Callable[..., Any], client: SyncClient, raw: redis.Redis
) -> None:
    kinds = {"over": (1, None), "waited": (1, 60_000), "living": (3_600_000, None)}
    names = {kind: QueueName.parse(f"shop:callbacks:{kind}") for kind in kinds}
    for kind, (ttl_ms, wait_ms) in kinds.items():
        client.run(
            registry.register(
                str(names[kind]),
                names[kind].type,
                names[kind].service,
                task="t1",
                tier="free",
                ttl_ms=ttl_ms,
                wait_ms=wait_ms,
            )
        )
        raw.rpush(str(names[kind]), "a message")
    raw.rpush("shop:callbacks:nobodys", "a message")
    await asyncio.sleep(0.01)
    settings = Settings(agent=AgentSettings(clean_rules=("expired_queues", "unread_queues")))
    async with run_agent(http=None, clean_every=0.2, settings=settings) as agent:
        await agent.until(lambda: agent.of("clean"))
        runs = int(raw.hget("qdeck:agent:{qdeck:clean}", "runs") or 0)
        await agent.until(lambda: int(raw.hget("qdeck:agent:{qdeck:clean}", "runs") or 0) >= runs + 2)
    assert agent.of("clean")[0]["applied"] == 1
    left = {key.decode() for key in raw.scan_iter("shop:*")}
    assert left == {str(names["waited"]), str(names["living"]), "shop:callbacks:nobodys"}
    assert raw.hget("qdeck:agent:{qdeck:clean}", "n:unread_queues") == b"1"
