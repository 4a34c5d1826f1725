"""Applications, workers, agent, operations and deck on a cluster of three servers, whose queues are on all of them."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck._engine import programs, transitions
from qdeck._redis import Endpoint, SyncClient
from qdeck._schedules import store
from qdeck._worker import blocking_wait
from qdeck.adapters import NAMES
from qdeck.admin import AsyncWriter, Writer
from qdeck_console.embedded_cluster import ask
from support.agents import running
from support.beside import Beside
from support.clusters import Cluster, queue_slot
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUES = [f"shop:part{number}:actions" for number in range(6)]


@pytest.fixture
def app(cluster: Cluster) -> Iterator[qdeck.App]:
    made = qdeck.App(cluster.url, queue=QUEUES[0])
    yield made
    made.close()


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Writer]:
    with Writer(cluster.url) as made:
        yield made


def serve(app: qdeck.App, **more: object) -> Beside:
    return Beside(app, dict.fromkeys(QUEUES, 1), **more)


def test_the_queues_are_on_all_servers(cluster: Cluster) -> None:
    assert len({cluster.owner(queue_slot(queue)).port for queue in QUEUES}) == 3


def test_work_of_many_queues_is_done_and_seen_whole(app: qdeck.App, writer: Writer) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    jobs = app.enqueue_many([double.call(n, _queue=QUEUES[n % len(QUEUES)]) for n in range(120)])
    assert {row.name: row.ready for row in writer.snapshot().queues} == dict.fromkeys(QUEUES, 20)
    with serve(app):
        assert [job.result(20) for job in jobs] == [2 * n for n in range(120)]
    seen = writer.snapshot()
    assert seen.server.mode == "cluster"
    assert {row.name: row.done for row in seen.queues} == dict.fromkeys(QUEUES, 20)


def test_an_idle_worker_hears_the_bells_of_all_queues_at_once(app: qdeck.App) -> None:
    @app.task
    def step() -> int:
        return 1

    with serve(app):
        began = time.monotonic()
        for queue in QUEUES * 3:
            assert step.enqueue(_queue=queue).result(20) == 1
        # Looking by itself alone, every five seconds, it would take twice as long.
        assert time.monotonic() - began < 22


def test_an_idle_worker_checks_each_queue_a_few_times_a_second(cluster: Cluster, app: qdeck.App) -> None:
    def checks() -> float:
        stats = b"".join(ask(node, "INFO", "commandstats") for node in cluster.nodes)
        return sum(map(int, re.findall(rb"cmdstat_lpop:calls=(\d+)", stats))) / len(QUEUES)

    with serve(app):
        before = checks()
        wait_until(lambda: checks() > before, why="it checks")
        before, began = checks(), time.monotonic()
        wait_until(lambda: checks() >= before + 8, why="it goes on")
        assert checks() - before <= (time.monotonic() - began) / blocking_wait.CHECK_S + 2


def test_a_job_on_any_server_is_cancelled_soon(app: qdeck.App) -> None:
    @app.task
    async def step() -> None:
        await asyncio.sleep(60)

    with serve(app, lease=60.0, concurrency=2):
        for queue in QUEUES:
            job = step.enqueue(_queue=queue)
            wait_until(lambda job=job: job.state() == "running")  # type: ignore[misc]
            began = time.monotonic()
            assert job.cancel() == "requested"
            wait_until(lambda job=job: job.state() == "cancelled")  # type: ignore[misc]
            # By heartbeats alone it would take ten seconds or more.
            assert time.monotonic() - began < 1.0


def test_of_several_idle_workers_one_gets_the_job(app: qdeck.App) -> None:
    @app.task
    def step(number: int) -> int:
        return number

    with serve(app), serve(app), serve(app):
        for number in range(30):
            assert step.enqueue(number, _queue=QUEUES[number % 6]).result(20) == number


@pytest.mark.slow
def test_an_idle_worker_follows_a_slot_that_moves(cluster: Cluster, app: qdeck.App) -> None:
    @app.task
    def step() -> int:
        return 1

    with serve(app):
        assert step.enqueue().result(20) == 1
        slot = queue_slot(QUEUES[0])
        home = cluster.owner(slot)
        cluster.move_slot(slot, next(node for node in cluster.nodes if node is not home))
        assert step.enqueue().result(20) == 1
        assert step.enqueue().result(20) == 1
        cluster.move_slot(slot, home)


def test_jobs_wait_for_jobs_of_queues_on_other_servers(app: qdeck.App) -> None:
    order: list[int] = []

    @app.task
    def step(number: int) -> None:
        order.append(number)

    calls = qdeck.chain(*(step.call(n, _queue=queue) for n, queue in enumerate(QUEUES)))
    last = app.enqueue_many(calls)[-1]
    with serve(app):
        last.result(20)
    assert order == list(range(len(QUEUES)))


def test_a_failure_runs_its_handler_on_another_server(app: qdeck.App, writer: Writer) -> None:
    @app.task(queue=QUEUES[5])
    def mend(failure: qdeck.Failure) -> str:
        return str(failure)

    @app.task(retries=0, on_failure="mend")
    def breaks() -> None:
        raise ValueError("as always")

    job = breaks.enqueue()
    with serve(app):
        with pytest.raises(qdeck.JobFailed, match="as always"):
            job.result(20)
        wait_until(
            lambda: writer.snapshot().totals.ready == 0 and _count(writer, QUEUES[5], "done") == 1, why="the handler"
        )
    [found] = writer.find(job.id)
    assert (found.queue, found.state) == (QUEUES[0], "dead")


def test_a_verb_over_all_queues_and_its_undo(app: qdeck.App, writer: Writer) -> None:
    @app.task(retries=0)
    def breaks() -> None:
        raise ValueError("once more")

    app.enqueue_many([breaks.call(_queue=queue) for queue in QUEUES * 5])
    with serve(app):
        wait_until(lambda: writer.snapshot().totals.dead == 30, why="all are dead")
    assert sum(group.count for group in writer.groups().groups) == 30
    plan = writer.plan("retry", where="error:ValueError")
    assert writer.apply(plan).applied == 30
    assert (writer.snapshot().totals.dead, writer.snapshot().totals.ready) == (0, 30)
    writer.undo()
    assert (writer.snapshot().totals.dead, writer.snapshot().totals.ready) == (30, 0)
    discard = writer.apply(writer.plan("discard", QUEUES[:2]))
    assert discard.applied == 10


async def test_the_same_in_asyncio(cluster: Cluster) -> None:
    app = qdeck.App(cluster.url, queue=QUEUES[0])

    @app.task
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    jobs = await app.aenqueue_many([double.call(n, _queue=QUEUES[n % len(QUEUES)]) for n in range(60)])
    async with AsyncWriter(cluster.url) as writer:
        assert (await writer.snapshot()).totals.ready == 60
        found = [record.id for queue in QUEUES async for record in writer.jobs(queue)]
        assert sorted(found) == sorted(job.id for job in jobs)
    with serve(app):
        assert await asyncio.gather(*(job.aresult(20) for job in jobs)) == [2 * n for n in range(60)]
    await app.aclose()


async def test_an_agent_takes_back_what_a_dead_worker_held(cluster: Cluster) -> None:
    client = SyncClient(Endpoint(cluster.url))
    for queue in QUEUES:
        client.run(
            programs.enqueue(
                queue, [transitions.NewJob(id=f"job-{queue[8:9]}", priority=1, template="1 0 t", body=b"x")]
            )
        )
        client.run(programs.call(transitions.poll(queue, "gone", 1, free_slots=1, lease_ms=1)))
    async with (
        running(cluster.url, maintain_every=0.1, history_every=0.2, health_every=0.2, clean_every=0.2) as agent,
        AsyncWriter(cluster.url) as writer,
    ):
        async with asyncio.timeout(20):
            while (await writer.snapshot()).totals.ready < len(QUEUES):  # noqa: ASYNC110 - the agent is watched from outside
                await asyncio.sleep(0.05)
        metrics = await agent.ask("/metrics")
        assert all(queue in metrics.text for queue in QUEUES)
        assert (await agent.ask("/api/v1/queue/health")).code == 200
        await agent.until(lambda: agent.of("health"))
        assert not agent.of("health", "failed")
        assert not [told for told in agent.events if told.get("outcome") == "failed"]
    client.close()


def test_schedules_tick_once_beside_their_queues(app: qdeck.App, writer: Writer) -> None:
    @app.task
    def feed() -> None: ...

    for number, queue in enumerate(QUEUES):
        app.schedule(f"feed{number}", feed, cron="* * * * * *", _queue=queue)
    with serve(app), serve(app):
        wait_until(lambda: all(_count(writer, queue, "done") >= 2 for queue in QUEUES), why="two turns of each")
    rows = app.client.run(store.read())
    for row in rows:
        ids = [record.id for record in writer.jobs(row.queue)]
        assert len(ids) == len(set(ids))
        assert row.jobs_made <= len(ids)
    assert Counter(row.queue for row in rows) == Counter(QUEUES)


def test_other_adapters_say_that_they_are_not_on_cluster(cluster: Cluster) -> None:
    with Writer(cluster.url, adapters=("native", "ifdb", "vmpooler")) as writer:
        assert any(notice.startswith("not on Cluster: ifdb, vmpooler") for notice in writer.snapshot().notices)
    with Writer(cluster.url, adapters=("native", *NAMES)) as writer:
        assert not writer.snapshot().notices, "nobody asked for one of them"
    with pytest.raises(qdeck.InvalidOption, match="not on Cluster: lists"):
        Writer(cluster.url, adapters=("lists",))


def test_a_server_of_its_own_is_no_cluster(url: str) -> None:
    with pytest.raises(qdeck.QdeckError, match="not a cluster") as caught:
        Writer(url.replace("redis://", "redis+cluster://")).snapshot()
    assert "redis://" in caught.value.hint


def test_a_plain_url_to_a_cluster_is_told_how_to_write_it(cluster: Cluster) -> None:
    elsewhere = next(queue for queue in QUEUES if cluster.owner(queue_slot(queue)) is not cluster.nodes[0])
    job = qdeck.App(cluster.nodes[0].url, queue=elsewhere).task(print)
    with pytest.raises(qdeck.QdeckError) as caught:
        job.enqueue()
    assert "redis+cluster://" in caught.value.hint


def _count(writer: Writer, queue: str, state: str) -> int:
    return sum(getattr(row, state) or 0 for row in writer.snapshot().queues if row.name == queue)
