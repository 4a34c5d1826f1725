"""What a worker holds: kept while it lives, told when it is lost or cancelled, found again when its worker died."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import keys, programs, transitions
from support.proxy import Side
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.beside import Beside
    from support.proxy import FaultProxy

QUEUE = "test:actions"
FAR = "test:far:actions"


def run(app: qdeck.App, op: transitions.Transition[Any]) -> Any:
    return app.client.run(programs.call(op))


def test_a_handler_that_blocks_the_loop_keeps_its_job(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]
) -> None:
    runs = []

    @app.task
    async def blocks() -> str:
        runs.append(1)
        time.sleep(2.5)
        return "mine"

    @app.task
    def other() -> None: ...

    first = start(lease=0.6)
    job = blocks.enqueue()
    wait_until(lambda: runs)
    second = start(lease=0.6)
    assert other.enqueue().result(10) is None
    assert job.result(10) == "mine"
    assert len(runs) == 1
    assert not first.told("lease_lost")
    assert not second.told("reaped")
    assert not raw.hget(keys.key(QUEUE, "attempts"), job.id)


@pytest.mark.parametrize("kind", ["async", "sync", "looks"])
def test_a_running_job_can_be_cancelled(app: qdeck.App, start: Callable[..., Beside], kind: str) -> None:
    seen: list[str] = []

    @app.task(name="async")
    async def on_loop() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("told")
            raise

    @app.task(name="sync")
    def in_thread() -> None:
        try:
            while True:
                time.sleep(0.01)
        except qdeck.JobCancelled:
            seen.append("told")
            raise

    @app.task(name="looks")
    def looks() -> str:
        seen.append("began")
        while not qdeck.current_job().cancelled.is_set():
            time.sleep(0.01)
        return "too late to be cancelled"

    start(lease=1.0)
    job = app.enqueue(kind)
    wait_until(lambda: job.state() == "running")
    assert job.cancel() == "requested"
    wait_until(lambda: job.state() in ("cancelled", "done"))
    if kind != "looks":
        assert seen == ["told"]
        assert job.state() == "cancelled"
        with pytest.raises(qdeck.JobFailed, match="cancelled"):
            job.result(5)


def test_a_job_that_was_told_to_stop_before_it_began_does_not_begin(
    app: qdeck.App, start: Callable[..., Beside]
) -> None:
    ran: list[int] = []

    @app.task
    async def step(n: int) -> None:
        ran.append(n)

    beside = start(concurrency=1)
    executor = beside.worker._executor
    assert executor is not None
    began = threading.Event()

    @app.task
    async def holds() -> None:
        began.set()
        while not ran and not executor._async.waiting:  # noqa: ASYNC110 - the test sets it from its own thread
            await asyncio.sleep(0.001)
        for run in list(executor._async.waiting):
            executor.stop_attempt(run, "cancelled")

    # Both in one batch, because quick jobs are claimed ahead.
    executor.free_slots = lambda ends_per_poll: max(0, 2 - executor.count)  # type: ignore[method-assign]  # as if they were quick
    jobs = app.enqueue_many([holds.call(), step.call(1)])
    wait_until(lambda: jobs[1].state() == "cancelled")
    assert not ran


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_lost_lease_is_told_and_not_counted(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], kind: str
) -> None:
    told = threading.Event()
    again = threading.Event()

    @app.task(name="async", retries=0)
    async def on_loop() -> str:
        if again.is_set():
            return "second"
        again.set()
        job = qdeck.current_job()
        try:
            await asyncio.sleep(60)
        finally:
            if job.lease_lost.is_set():
                told.set()
        return "first"

    @app.task(name="sync", retries=0)
    def in_thread() -> str:
        if again.is_set():
            return "second"
        again.set()
        job = qdeck.current_job()
        try:
            job.lease_lost.wait(30)
        finally:  # the handler is interrupted as well, maybe before it can look
            if job.lease_lost.is_set():
                told.set()
        return "first"

    beside = start(lease=1.0)
    job = app.enqueue(kind)
    wait_until(again.is_set)
    # Another's now: as if this worker had been away for long.
    lease = raw.hget(keys.key(QUEUE, "lease"), job.id)
    assert isinstance(lease, bytes)
    raw.hset(keys.key(QUEUE, "lease"), job.id, b"somebody:1 " + lease.split(b" ", 1)[1])
    wait_until(told.is_set)
    wait_until(lambda: beside.told("lease_lost"))
    assert job.state() == "running"
    assert not raw.hget(keys.key(QUEUE, "error"), job.id)


def test_jobs_of_the_dead_come_back_under_a_backlog(
    app: qdeck.App, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._worker.claim_loop.LEASE_CHECK_S", 0.3)
    stop = threading.Event()
    ran: list[str] = []

    @app.task
    async def step(name: str) -> None:
        ran.append(name)
        await asyncio.sleep(0.001)
        if name == "more" and not stop.is_set():
            await step.aenqueue("more")

    lost = step.enqueue("lost", _priority="CRITICAL")
    run(app, transitions.poll(QUEUE, "dead-worker", 1, free_slots=1, lease_ms=200))
    app.enqueue_many([step.call("more") for _ in range(50)])
    start(concurrency=2)
    try:
        wait_until(lambda: lost.state() == "done", 15)
    finally:
        stop.set()
    assert "lost" in ran


def test_an_answer_that_took_longer_than_the_lease_costs_no_job(
    app: qdeck.App, url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy], start: Callable[..., Beside]
) -> None:
    proxy = make_proxy(url)
    runs: list[int] = []
    through = qdeck.App(proxy.url, queue=QUEUE)

    @through.task
    async def step(n: int) -> int:
        runs.append(n)
        if n == 0:
            # The turn that tells of this job's end and claims the next ones is held up on its way.
            proxy.blackhole()
        await asyncio.sleep(0.05)
        return n

    producer = qdeck.App(url, queue=QUEUE)
    producer.task(name="step")(step.function)
    jobs = [producer.enqueue("step", n) for n in range(3)]
    beside = start(through, concurrency=1, lease=1.0)
    wait_until(lambda: runs)
    time.sleep(2.0)
    proxy.heal()
    # The first may have been lost meanwhile; the others were claimed by the late turn and must simply run.
    assert [job.result(20) for job in jobs[1:]] == [1, 2]
    assert runs.count(1) == runs.count(2) == 1
    assert not [lost for lost in beside.told("lease_lost") if lost["id"] != jobs[0].id]
    assert not raw.hget(keys.key(QUEUE, "attempts"), jobs[1].id)
    producer.close()


def test_a_claim_whose_answer_came_after_its_lease_runs_nothing(
    url: str, make_proxy: Callable[[str], FaultProxy], start: Callable[..., Beside]
) -> None:
    """Another worker runs the job by then: this one has to ask for its lease before it starts the handler."""
    proxy = make_proxy(url)
    runs: list[tuple[str, int]] = []

    def app_at(address: str, worker: str) -> qdeck.App:
        made = qdeck.App(address, queue=QUEUE)

        @made.task(name="step")
        async def step(n: int) -> int:
            runs.append((worker, n))
            if n == 0:
                # Its end is reported and the next job is claimed; the reply does not arrive.
                proxy.blackhole(Side.TO_CLIENT)
            return n

        return made

    first, second = app_at(proxy.url, "first"), app_at(url, "second")
    jobs = [second.enqueue("step", n) for n in range(2)]
    beside = start(first, concurrency=1, lease=1.0)
    wait_until(lambda: ("first", 0) in runs)
    start(second, concurrency=1, lease=1.0)
    assert jobs[1].result(20) == 1
    proxy.heal()
    later = second.enqueue("step", 2)
    assert later.result(20) == 2
    beside.end()
    assert [worker for worker, n in runs if n == 1] == ["second"]
