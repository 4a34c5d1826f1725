"""The life of temporary queues: registered first, cleaned with their task, expired, found when they are orphans."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck.messages import (
    DomainAction,
    DomainQueueManager,
    Messenger,
    OrphanCleaning,
    Service,
    SyncDomainQueueManager,
    response_to,
)
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages._removal import remove
from qdeck_console.cli.run import run as cli
from support.temporary import OWN, age
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis


def make(client: Messenger, task: str, correlation: str, tier: str = "free") -> str:
    asked = client.new_action("embedding.x", task_id=task, correlation_id=correlation, tenant_tier=tier)
    return str(client.request_callback(asked))


def test_a_queue_is_registered_before_the_action_is_sent(client: Messenger, manager: SyncDomainQueueManager) -> None:
    name = make(client, "t-1", "c-1")
    [found] = manager.task_queues("t-1")
    assert (found.name, found.service, found.type, found.tier, found.task) == (
        name, "ingestion_service", "callbacks", "free", "t-1",
    )  # fmt: skip
    assert found.expires_ms - found.made_ms == 3_600_000
    assert manager.task_queues("t") == manager.task_queues("t-11") == []


def test_ids_with_colons_and_other_characters_are_kept_apart(
    client: Messenger, manager: SyncDomainQueueManager
) -> None:
    make(client, "a:b", "x")
    make(client, "a:b:c", "y")
    make(client, "ä/*", "z")
    assert [len(manager.task_queues(task)) for task in ("a:b", "a:b:c", "ä/*", "a")] == [1, 1, 1, 0]
    assert manager.clean_task_queues("a:b") == 1
    assert len(manager.task_queues("a:b:c")) == 1


def test_the_end_of_a_task_cleans_its_queues_and_counts(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    names = [make(client, "t", f"c-{n}", "enterprise") for n in range(3)]
    raw.rpush(names[0], b"unread", b"unread")
    assert manager.report_task_queues("t").removed == 3
    assert raw.llen(names[0]) == 2
    assert manager.clean_task_queues("t") == 3
    assert manager.clean_task_queues("t") == 0
    assert not raw.exists(*names)
    counts = {(c.event, c.tier): c.count for c in manager.metrics() if c.service == "ingestion_service"}
    assert counts["made", "enterprise"] == counts["cleaned", "enterprise"] == 3
    assert counts["discarded", "enterprise"] == 2
    assert counts["freed", "enterprise"] > 0


async def test_a_queue_that_is_waited_on_is_never_removed(client: Messenger, raw: redis.Redis) -> None:
    manager = DomainQueueManager(client)
    task = asyncio.create_task(
        client.arequest(client.new_action("embedding.x", task_id="t", correlation_id="c"), timeout=10)
    )
    name = f"{OWN}:responses:x:c"
    await until(lambda: raw.zscore("{qdeck:messages}:waiting", name) is not None)
    report = await manager.report_task_queues("t", dry_run=False)
    assert (report.removed, report.in_use) == (0, 1)
    assert report.samples[0].outcome == "in_use"
    asked = DomainAction(action_type="embedding.x", correlation_id="c")
    raw.rpush(name, response_to(asked, data={"still": "here"}).to_json())
    assert (await task).data == {"still": "here"}
    await client.aclose()


def test_nobody_begins_to_wait_on_a_queue_that_is_being_removed(client: Messenger) -> None:
    name = make(client, "t", "c")
    assert client.app.client.run(registry.begin([name])) == ["free"]
    with pytest.raises(qdeck.QdeckError, match="is being removed"):
        client.wait_callback(qdeck.QueueName.parse(name), timeout=0.1)
    client.app.client.run(registry.keep([name]))
    with pytest.raises(qdeck.ResultTimeout):
        client.wait_callback(qdeck.QueueName.parse(name), timeout=0.01)


def test_what_came_lately_is_kept_when_asked_so(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    name = make(client, "t", "c")
    raw.rpush(name, b"fresh")
    report = manager.report_task_queues("t", idle=60, dry_run=False)
    assert (report.removed, report.kept, report.samples[0].outcome) == (0, 1, "recent")
    assert raw.llen(name) == 1
    assert len(manager.task_queues("t")) == 1


def test_a_key_that_holds_something_else_is_left_alone(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    name = make(client, "t", "c")
    raw.set(name, "not ours")
    assert manager.report_task_queues("t", dry_run=False).samples[0].outcome == "foreign"
    assert raw.get(name) == b"not ours"


def test_a_queue_whose_time_is_over_goes_and_use_renews_it(url: str, raw: redis.Redis) -> None:
    client = Messenger(qdeck.App(url, queue=f"{OWN}:actions"), ttl=60)
    manager = SyncDomainQueueManager(client)
    name = make(client, "t", "c")
    raw.rpush(name, b"foreign, without an expiry")
    raw.zadd(registry.QUEUES, {name: 1})  # its time is over
    client.app.client.run(registry.touch([name]))
    assert manager.clean_expired_queues().removed == 0
    [found] = manager.task_queues("t")
    assert found.made_ms + 60_000 <= found.expires_ms < found.made_ms + 120_000
    raw.zadd(registry.QUEUES, {name: 1})
    assert manager.clean_expired_queues().removed == 1
    assert not raw.exists(name)
    assert manager.task_queues("t") == []
    assert ("expired", 1) in {(c.event, c.count) for c in manager.metrics()}
    client.close()


def test_an_expired_name_that_holds_something_else_is_struck_off_and_stays(url: str, raw: redis.Redis) -> None:
    client = Messenger(qdeck.App(url, queue=f"{OWN}:actions"), ttl=0.01)
    manager = SyncDomainQueueManager(client)
    raw.set(make(client, "t", "foreign"), "not ours")
    for n in range(cleaning.SLICE + 20):
        make(client, "t", f"c-{n}")
    time.sleep(0.05)
    # More than a slice, and nothing is left of their lists: the registrations are all that goes.
    assert manager.clean_expired_queues().removed == cleaning.SLICE + 20
    assert manager.task_queues("t") == []
    assert raw.exists(f"{OWN}:callbacks:embedding:foreign")
    client.close()


def test_orphans_are_found_by_age_and_a_missing_owner(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    registered = make(client, "t", "c")
    orphans = [f"{OWN}:responses:get:{n}" for n in range(20)]
    orphans += ["execution:callback:free:13579", "execution:a:b:callbacks:query:rag", "ingestion:responses:c-9"]
    others = ["some:list", f"{OWN}:actions", f"{OWN}:notifications:responses", "a:b:gold:1"]
    others += ["{a:b:free:actions}:wakeup", f"{OWN}:callbacks:x:dead_letter"]
    for name in (registered, *orphans, *others):
        raw.rpush(name, b"x" * 100)
    raw.set(f"{OWN}:responses:text:1", "no list")
    assert manager.clean_orphaned_queues(idle=3600).removed == 0
    age(raw, registered, *orphans, *others)
    raw.rpush(orphans[0], b"used")
    calls: list[int] = []
    plan = manager.clean_orphaned_queues(idle=3600, dry_run=True, progress=lambda r: calls.append(r.scanned))
    assert {one.name for one in plan.samples} == set(orphans[1:])
    assert raw.exists(*orphans) == len(orphans)
    assert calls
    done = manager.clean_orphaned_queues(idle=3600)
    assert (done.removed, done.messages) == (len(orphans) - 1, len(orphans) - 1)
    assert raw.exists(*orphans) == 1
    assert raw.exists(registered, *others) == 1 + len(others)
    counts = {(c.event, c.service, c.type): c.count for c in manager.metrics()}
    assert counts["orphaned", "ingestion_service", "responses"] == 19
    assert counts["orphaned", "execution", "callback"] == 1


def test_queues_of_the_first_generation_go_with_their_task_and_are_no_orphans_before(
    manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    owned = ["execution:agent_run:professional:12345", "execution:callback:professional:12345"]
    orphan = "embedding:generate:enterprise:67890"
    for name in (*owned, orphan, "not:one:of:them"):
        raw.rpush(name, b"x")
    raw.sadd("task_queues:12345", *owned, "not:one:of:them", "execution:gone:free:12345")
    raw.expire("task_queues:12345", 3600)
    age(raw, *owned, orphan, "not:one:of:them")
    assert [one.name for one in manager.clean_orphaned_queues().samples] == [orphan]
    plan = manager.report_task_queues("12345")
    assert {one.name for one in plan.samples if one.outcome == "would_remove"} >= set(owned)
    assert manager.clean_task_queues("12345") == 2
    assert not raw.exists(*owned)
    assert raw.smembers("task_queues:12345") == {b"not:one:of:them"}
    assert raw.llen("not:one:of:them") == 1


def test_an_orphan_that_is_used_after_it_was_found_stays(client: Messenger, raw: redis.Redis) -> None:
    name = f"{OWN}:responses:get:1"
    raw.rpush(name, b"x")
    age(raw, name)
    found = client.app.client.run(OrphanCleaning(dry_run=True).run())
    assert [one.name for one in found.samples] == [name]
    raw.rpush(name, b"y")
    [left] = client.app.client.run(remove([name], idle_s=cleaning.IDLE_S, event="orphaned"))
    assert left.outcome == "recent"
    assert raw.llen(name) == 2


async def test_the_manager_has_the_methods_of_the_document(
    make_service: Callable[..., Service], raw: redis.Redis
) -> None:
    service = make_service("ingestion_service")
    manager = DomainQueueManager(service)
    queue = await manager.enqueue_action(
        "embedding", DomainAction(action_type="embedding.x", data={"n": 1}), tier="free"
    )
    assert queue == manager.queue_name("embedding") == "nooble4:dev:embedding:actions"
    await manager.enqueue_action("embedding", DomainAction(action_type="embedding.x", data={"n": 2}), tier="enterprise")
    first = await manager.dequeue_action("embedding", "enterprise")
    second = await manager.dequeue_action("embedding", "free")
    assert first is not None
    assert second is not None
    assert [first.action.data["n"], second.action.data["n"]] == [2, 1]
    assert await manager.dequeue_action("embedding") is None
    assert await manager.requeue(first)
    assert not await manager.done(first)
    again = await manager.dequeue_action("embedding")
    assert again is not None
    assert again.action == first.action
    assert await manager.done(again)
    assert await manager.fail(second, qdeck.Reject("no"))
    assert raw.zcard(f"{{{queue}}}:dead_letter") == 1
    with pytest.raises(qdeck.UsageError, match="no tier"):
        await manager.enqueue_action("embedding", DomainAction(action_type="embedding.x"), tier="gold")
    with pytest.raises(qdeck.UsageError, match="no action queue of its own"):
        await manager.dequeue_action("embedding", "free", "12345")
    await service.aclose()


def test_both_managers_have_the_same_methods_and_one_of_them_coroutines() -> None:
    methods = [name for name, _ in inspect.getmembers(DomainQueueManager, inspect.iscoroutinefunction)]
    public = [name for name in methods if not name.startswith("_")]
    assert len(public) == 11
    for name in public:
        blocking, awaited = getattr(SyncDomainQueueManager, name), getattr(DomainQueueManager, name)
        assert inspect.signature(blocking) == inspect.signature(awaited)
        assert blocking.__doc__ == awaited.__doc__
        assert (blocking.__name__, inspect.iscoroutinefunction(blocking)) == (name, False)
        assert (awaited.__name__, inspect.iscoroutinefunction(awaited)) == (name, True)


def test_what_is_no_action_is_buried_and_not_delivered(manager: SyncDomainQueueManager, raw: redis.Redis) -> None:
    @manager.app.task(name="embedding.x", queue="nooble4:dev:embedding:actions")
    def other(value: int) -> None: ...

    other.enqueue(7)
    assert manager.dequeue_action("embedding") is None
    assert raw.zcard("{nooble4:dev:embedding:actions}:dead_letter") == 1


def test_the_command_cleans_a_task_and_tells_what_was_in_use(
    client: Messenger, url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    idle, used = make(client, "t:1", "a"), make(client, "t:1", "b")
    client.app.client.run(
        registry.register(used, "callbacks", "ingestion_service", task="t:1", tier="", ttl_ms=60_000, wait_ms=60_000)
    )
    assert cli(["clean", "t:1", "--dry-run", "--url", url]) == 1
    assert "would remove" in capsys.readouterr().out
    assert cli(["clean", "t:1", "--yes", "--url", url]) == 1
    out = capsys.readouterr().out
    assert f"removed      {idle}" in out
    assert f"in use       {used}" in out
    assert "restores 1 queue until" in out
    assert cli(["undo", "--yes", "--url", url]) == 0
    assert [one.name for one in SyncDomainQueueManager(client).task_queues("t:1")] == [idle, used]
    assert cli(["clean", "--url", url]) == 64
    assert cli(["clean", "--orphans", "--url", url, "--json"]) == 0
    assert '"dry_run": true' in capsys.readouterr().out


def test_keys_are_never_listed_at_once(client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis) -> None:
    make(client, "t", "c")
    raw.config_resetstat()
    manager.clean_orphaned_queues(idle=1)
    manager.clean_task_queues("t")
    stats: dict[str, Any] = raw.info("commandstats")
    assert not {"cmdstat_keys", "cmdstat_smembers"} & set(stats)
    assert "cmdstat_scan" in stats


def test_actions_and_cleanings_are_counted_by_service_and_tier(
    manager: SyncDomainQueueManager, url: str, raw: redis.Redis
) -> None:
    for number, tier in enumerate(("professional", "professional", "free")):
        action = DomainAction(action_type="embedding.generate", action_id=f"a{number}", tenant_tier="free")
        for _ in range(2):  # sent twice it is one
            manager.enqueue_action("embedding", action, tier)
    raw.rpush("execution:agent_run:professional:12345", "a message")
    raw.sadd("task_queues:12345", "execution:agent_run:professional:12345")
    assert cli(["clean", "12345", "--idle", "0", "--yes", "--url", url]) == 0
    counts = {(one.event, one.service, one.type, one.tier): one.count for one in manager.metrics()}
    assert counts["enqueued", "embedding", "actions", "professional"] == 2
    assert counts["enqueued", "embedding", "actions", "free"] == 1
    assert counts["cleaned", "execution", "agent_run", "professional"] == 1
