"""Messages between services whose queues are on several servers, and across a change of the master."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck.admin import Writer
from qdeck.messages import DomainAction, DomainQueueManager, Messenger, Service, SyncDomainQueueManager, TaskCleaning
from qdeck.messages import _registry as registry
from qdeck_console.embedded_cluster import ask
from support.clusters import MASTER, wait_for
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from support.clusters import Cluster, Trio


@contextlib.asynccontextmanager
async def serving(*services: Service) -> AsyncIterator[None]:
    """Runs services beside the test."""
    works = []
    for service in services:
        started = asyncio.Event()

        def told(event: dict[str, Any], started: asyncio.Event = started) -> None:
            if event["event"] == "started":
                started.set()

        works.append(asyncio.create_task(service.serve(on_event=told, grace=1.0)))
        await asyncio.wait_for(started.wait(), 20)
    try:
        yield
    finally:
        for service in services:
            service.stop()
        await asyncio.wait_for(asyncio.gather(*works), 30)
        for service in services:
            await service.aclose()


@pytest.fixture
def make(cluster: Cluster) -> Callable[[str], Service]:
    return lambda name: Service(qdeck.App(cluster.url, queue=f"nooble4:dev:{name}:actions"))


def echoing(service: Service) -> Service:
    @service.on_action("embedding.echo")
    async def echo(action: DomainAction) -> dict[str, Any]:
        return {"n": action.data["n"]}

    return service


async def test_requests_and_callbacks_find_their_way_on_a_cluster(
    cluster: Cluster, make: Callable[[str], Service]
) -> None:
    embedding, ingestion = echoing(make("embedding")), make("ingestion_service")
    got: list[str] = []

    @ingestion.on_callback("embedding", "embedding.done", ends_task=True)
    async def done(action: DomainAction) -> None:
        got.append(str(action.task))

    @ingestion.on_notification("catalogue", "changed")
    async def changed(event: DomainAction) -> None:
        got.append("changed")

    catalogue, blocking = make("catalogue"), Messenger(qdeck.App(cluster.url, queue="nooble4:dev:client:actions"))
    async with serving(embedding, ingestion):
        answers = await asyncio.gather(
            *(ingestion.arequest(ingestion.new_action("embedding.echo", {"n": n}), timeout=20) for n in range(30))
        )
        assert [answer.data for answer in answers] == [{"n": n} for n in range(30)]
        asked = blocking.new_action("embedding.echo", {"n": 7})
        assert (await asyncio.to_thread(blocking.request, asked, timeout=20)).data == {"n": 7}
        for n in range(5):
            action = ingestion.new_action("embedding.echo", {"n": n}, task_id=f"t-{n}")
            await ingestion.arequest_callback(action, callback_action_type="embedding.done")
        await catalogue.anotify("changed", catalogue.new_action("catalogue.changed"))
        await until(lambda: sorted(got) == ["changed", *(f"t-{n}" for n in range(5))])
        manager = DomainQueueManager(ingestion)
        for n in range(5):
            async with asyncio.timeout(15):
                while await manager.task_queues(f"t-{n}"):  # noqa: ASYNC110 - the other side ends the task
                    await asyncio.sleep(0.05)
    await catalogue.aclose()
    blocking.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_who_waits_for_an_answer_gets_it_from_the_new_master(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio()
    embedding = echoing(Service(qdeck.App(trio.url, queue="nooble4:dev:embedding:actions")))
    client = Messenger(qdeck.App(trio.url, queue="nooble4:dev:client:actions"))
    async with serving(embedding):
        answer = await client.arequest(client.new_action("embedding.echo", {"n": 1}), timeout=20)
        assert answer.data == {"n": 1}
        old = trio.master()
        waiting = asyncio.create_task(
            client.arequest(client.new_action("embedding.nobody"), service="later", timeout=60)
        )
        await until(lambda: _length(trio, "{nooble4:dev:later:actions}:ready") == 1)
        ask(trio.sentinels[1], "SENTINEL", "FAILOVER", MASTER)
        await asyncio.to_thread(wait_for, lambda: trio.master() is not old, "new master")
        later = Service(qdeck.App(trio.url, queue="nooble4:dev:later:actions"))

        @later.on_action("embedding.nobody")
        async def at_last(action: DomainAction) -> dict[str, Any]:
            return {"from": "the new master"}

        async with serving(later):
            assert (await waiting).data == {"from": "the new master"}
        assert (await client.arequest(client.new_action("embedding.echo", {"n": 2}), timeout=30)).data == {"n": 2}
    await client.aclose()


def _length(trio: Trio, key: str) -> int:
    with trio.master().client() as raw:
        return int(raw.zcard(key))


def test_orphans_are_found_on_all_servers_of_a_cluster(cluster: Cluster) -> None:
    app = qdeck.App(cluster.url, queue="nooble4:dev:client:actions")
    manager = SyncDomainQueueManager(app)
    for n in range(60):
        app.client.run(_push(f"nooble4:dev:client:responses:get:{n}"))
    time.sleep(2.1)
    plan = manager.clean_orphaned_queues(idle=1, dry_run=True)
    assert plan.removed == 60
    report = manager.clean_orphaned_queues(idle=1, undo=True)
    assert (report.removed, report.undoable) == (60, 60)
    assert manager.clean_orphaned_queues(idle=1, dry_run=True).removed == 0
    app.close()


def test_the_lists_of_a_task_are_cleaned_and_come_back_on_a_cluster(cluster: Cluster) -> None:
    app = qdeck.App(cluster.url, queue="nooble4:dev:client:actions")
    names = [f"execution:step_{n}:free:77" for n in range(20)]
    for name in names:
        app.client.run(_push(name))
    app.client.run(_register("task_queues:77", names))
    with Writer(cluster.url) as writer:
        report = writer.clean(TaskCleaning("77", idle_s=0))
        assert (report.removed, report.undoable, report.kept) == (20, 20, 0)
        assert app.client.run(_count("task_queues:77", names)) == 0
        assert writer.undo(report.batch).restored == 20
        assert app.client.run(_count("task_queues:77", names)) == 40
        assert writer.run(TaskCleaning("77", idle_s=0, dry_run=True).run()).removed == 20
    app.close()


def test_a_purge_takes_queues_of_all_servers_of_a_cluster_once_and_undoes_them(cluster: Cluster) -> None:
    app = qdeck.App(cluster.url, queue="nooble4:dev:client:actions")
    names = [f"nooble4:dev:client:callbacks:embedding:{n}" for n in range(40)]
    for name in names:
        registering = registry.register(name, "callbacks", "client", task="t", tier="free", ttl_ms=1)
        app.client.run(registering)
    for name in names[:30]:
        app.client.run(_push(name))
    with Writer(cluster.url) as writer:
        plan = writer.plan_purge(["expired_queues", "unread_queues"])
        assert plan.tail.rules == {"expired_queues": 10, "unread_queues": 30}
        report = writer.apply(plan)
        assert (report.applied, report.undoable, report.skipped) == (40, 40, ())
        again = writer.apply(plan)
        assert (again.applied, again.skipped) == (40, ())
        assert app.client.run(_there(names)) == 0
        assert writer.undo(report.batch).restored == 40
        assert app.client.run(_there(names)) == 30
    app.close()


def _register(key: str, names: list[str]) -> Any:
    yield (b"SADD", key, *names)


def _count(key: str, names: list[str]) -> Any:
    """How many of the lists are there, and how many of their names in the set."""
    there = yield [(b"EXISTS", name) for name in names]
    listed = yield (b"SMISMEMBER", key, *names)
    return sum(there) + sum(listed)


def _there(names: list[str]) -> Any:
    there = yield [(b"EXISTS", name) for name in names]
    return sum(there)


def _push(name: str) -> Any:
    yield (b"RPUSH", name, b"x")
