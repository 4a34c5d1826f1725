"""A job that runs is stopped when an operator or a caller requests it, without waiting for the next heartbeat.

Heartbeats are so far apart here that a job which is stopped within a test's waits was not stopped by one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from qdeck._engine import keys, programs, transitions
from qdeck._worker.heartbeat import Heartbeat
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    import qdeck
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.worker_queue import WorkerQueue
    from support.beside import Beside

QUEUE = "test:actions"
FAR = "test:far:actions"
LEASE_S = 300.0  # a heartbeat every 75 s, longer than any wait here


def running(job: qdeck.Job) -> qdeck.Job:
    """Wait until a job runs."""
    wait_until(lambda: job.state() == "running")
    return job


def cancelled(job: qdeck.Job) -> None:
    """Wait until a job was cancelled."""
    wait_until(lambda: job.state() == "cancelled")


def cancel(job: qdeck.Job) -> None:
    """Cancel a job that runs."""
    assert job.cancel() == "requested"
    cancelled(job)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_cancelled_job_stops_soon(app: qdeck.App, start: Callable[..., Beside], kind: str, slots: int) -> None:
    @app.task(name="async")
    async def on_loop() -> None:
        await asyncio.sleep(60)

    @app.task(name="sync")
    def in_thread() -> None:
        for _ in range(6000):
            time.sleep(0.01)

    start(queues={QUEUE: 1, FAR: 1}, concurrency=slots, lease=LEASE_S)
    for queue in (QUEUE, FAR):
        cancel(running(app.enqueue(kind, _queue=queue)))
    waiting = [app.enqueue(kind) for _ in range(4)]
    wait_until(lambda: [job.state() for job in waiting].count("running") == min(4, slots))
    for job in waiting[:slots]:
        cancel(job)


def test_a_cancelled_process_ends_soon(jobs: Any, start: Callable[..., Beside]) -> None:
    start(jobs.app, app_ref="core._worker.process_jobs:app", processes=1, lease=LEASE_S)
    jobs.pid.enqueue().result(30)
    cancel(running(jobs.pid.enqueue(60.0)))


@pytest.mark.parametrize("verb", ["requeue", "bury"])
def test_a_job_that_is_taken_from_its_worker_stops_soon(
    app: qdeck.App, start: Callable[..., Beside], verb: str
) -> None:
    stopped = threading.Event()

    @app.task
    async def step() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    beside = start(concurrency=1, lease=LEASE_S)
    job = running(step.enqueue())
    pump = beside.worker._claim_loop
    assert pump is not None
    pump.is_claiming = False
    assert app.client.run(programs.call(transitions.change_jobs(QUEUE, verb, [(job.id, "running")]))) == ["ok"]
    assert stopped.wait(30)
    wait_until(lambda: beside.told("lease_lost"))


def test_other_workers_are_not_disturbed(
    app: qdeck.App, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.task
    async def step() -> None:
        await asyncio.sleep(60)

    looked: list[str] = []

    def check_now(self: Heartbeat, queue: WorkerQueue[Attempt], real: Any = Heartbeat.check_now) -> None:
        looked.append(queue.worker)
        real(self, queue)

    monkeypatch.setattr(Heartbeat, "check_now", check_now)
    workers = [start(concurrency=1, lease=LEASE_S).worker.id for _ in range(2)]
    made = [running(step.enqueue()) for _ in workers]
    for job in made:
        cancel(job)
    assert sorted(looked) == sorted(workers)


def test_many_requests_take_little_room(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task
    async def step() -> None:
        await asyncio.sleep(60)

    start(concurrency=1, lease=LEASE_S)
    name = keys.key(QUEUE, "stop_requests")
    for _ in range(3):
        job = running(step.enqueue())
        for _ in range(100):
            job.cancel()
        cancelled(job)
    assert 0 < raw.xlen(name) <= 100
    assert 0 < raw.pttl(name) <= 600_000


def test_a_cut_connection_is_mended(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task
    async def step() -> None:
        await asyncio.sleep(60)

    start(concurrency=1, lease=LEASE_S)
    job = step.enqueue()

    def waits() -> list[Any]:
        return [line for line in raw.client_list() if line["cmd"] == "xread" and "b" in line["flags"]]

    wait_until(waits)
    for line in waits():
        raw.client_kill_filter(_id=line["id"])
    wait_until(waits)
    cancel(job)


def test_an_idle_worker_waits_on_one_connection(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._worker.blocking_wait.LONGEST_S", 0.2)

    @app.task
    async def step() -> int:
        return 1

    start()
    assert step.enqueue().result(10) == 1
    wait_until(lambda: not [line for line in raw.client_list() if line["cmd"] == "xread" and "b" in line["flags"]])
