"""Several queues with weights, and how soon work starts on a worker that idles."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import programs, transitions
from qdeck._redis import AsyncClient, SyncClient
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.adapters import Request
    from support.beside import Beside


QUEUE = "test:actions"
FAR = "test:far:actions"
WOKEN_S = 20.0  # sooner than a worker finds jobs without a wake-up: it sleeps for 30 s at most


def run(app: qdeck.App, op: transitions.Transition[Any]) -> Any:
    return app.client.run(programs.call(op))


def test_weights_share_the_worker(app: qdeck.App, start: Callable[..., Beside]) -> None:
    order: list[str] = []

    @app.task
    async def step(name: str) -> None:
        order.append(name)
        await asyncio.sleep(0.001)

    app.enqueue_many([step.call("a") for _ in range(300)] + [step.call("b", _queue=FAR) for _ in range(300)])
    start(concurrency=2, queues={QUEUE: 3, FAR: 1})
    wait_until(lambda: len(order) >= 200)
    share = order[:200].count("a") / 200
    assert 0.65 < share < 0.85, share


def test_a_queue_that_rested_does_not_catch_up(app: qdeck.App, start: Callable[..., Beside]) -> None:
    order: list[str] = []

    @app.task
    async def step(name: str) -> None:
        order.append(name)
        await asyncio.sleep(0.001)

    start(concurrency=2, queues={QUEUE: 1, FAR: 1})
    app.enqueue_many([step.call("a") for _ in range(600)])
    wait_until(lambda: len(order) >= 400)
    app.enqueue_many([step.call("b", _queue=FAR) for _ in range(200)] + [step.call("a") for _ in range(300)])
    wait_until(lambda: "b" in order)
    began = order.index("b")
    wait_until(lambda: len(order) >= began + 100)
    share = order[began : began + 100].count("b") / 100
    assert 0.3 < share < 0.7, share


def test_a_burst_on_a_quiet_queue_beside_a_busy_one_starts_soon(app: qdeck.App, start: Callable[..., Beside]) -> None:
    stop = threading.Event()
    started: list[str] = []
    ran: list[str] = []

    @app.task
    async def busy() -> None:
        ran.append(qdeck.current_job().id)
        await asyncio.sleep(0.002)
        if not stop.is_set():
            await busy.aenqueue()

    @app.task(queue=FAR)
    async def rare() -> None:
        started.append(qdeck.current_job().id)

    start(concurrency=4, queues={QUEUE: 1, FAR: 1})
    app.enqueue_many([busy.call() for _ in range(40)])
    wait_until(lambda: len(ran) > 100)
    try:
        for _ in range(5):
            before = len(started)
            rare.enqueue()
            wait_until(lambda: len(started) > before, WOKEN_S)  # noqa: B023 - called at once
    finally:
        stop.set()


def test_a_delayed_job_starts_on_time(app: qdeck.App, start: Callable[..., Beside]) -> None:
    started: dict[str, float] = {}

    @app.task
    async def step() -> None:
        started[qdeck.current_job().id] = time.time()

    start()
    step.enqueue().result(10)
    late = []
    for delay in (0.3, 0.55, 0.7, 0.35, 0.9):
        asked = time.time()
        job = step.enqueue(_delay=delay)
        late.append((job, asked + delay))
    wait_until(lambda: all(job.id in started for job, _ in late), WOKEN_S)
    off = sorted(started[job.id] - due for job, due in late)
    assert off[0] > -0.01, off


def test_work_wakes_an_idle_worker(app: qdeck.App, start: Callable[..., Beside], idle: Callable[[int], None]) -> None:
    @app.task
    async def step() -> None: ...

    start(queues={QUEUE: 1, FAR: 1})
    for i in range(21):
        idle(1)
        step.enqueue(_queue=FAR if i % 2 else QUEUE).result(WOKEN_S)


def test_several_idle_workers_share_a_burst(
    app: qdeck.App, start: Callable[..., Beside], idle: Callable[[int], None]
) -> None:
    """No job ends before all of them run, which takes all workers."""
    ran_on: list[str] = []

    @app.task
    async def step() -> None:
        ran_on.append(qdeck.current_job().worker)
        while len(ran_on) < 8:  # noqa: ASYNC110 - the others run in other threads
            await asyncio.sleep(0.005)

    for _ in range(4):
        start(concurrency=2)
    idle(4)
    app.enqueue_many([step.call() for _ in range(8)])
    wait_until(lambda: len(ran_on) == 8, WOKEN_S)
    assert len(set(ran_on)) == 4


def test_a_cut_bell_line_is_mended(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task
    async def step() -> int:
        return 1

    start()
    assert step.enqueue().result(10) == 1

    def waiting() -> list[dict[str, Any]]:
        return [client for client in raw.client_list() if client["cmd"] == "blpop"]

    wait_until(waiting)
    for client in waiting():
        raw.client_kill_filter(_id=client["id"])
    assert step.enqueue().result(5) == 1
    wait_until(waiting)
    assert step.enqueue().result(5) == 1


def test_a_ring_that_comes_to_one_who_leaves_is_passed_on(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task
    async def step() -> int:
        return 1

    for _ in range(15):
        leaving, staying = start(), start()
        time.sleep(0.02)
        leaving.worker.stop()
        for _ in range(3):
            assert step.enqueue().result(5) == 1
        leaving.end()
        staying.end()


@pytest.mark.slow
def test_an_idle_worker_costs_next_to_nothing(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    for client in (SyncClient, AsyncClient):

        def counted(self: Any, request: Request, real: Any = client._exchange) -> Any:
            asked.append(len(request.commands))
            return real(self, request)

        monkeypatch.setattr(client, "_exchange", counted)

    @app.task
    async def step() -> int:
        return 1

    start()
    step.enqueue().result(10)
    time.sleep(1)

    def all_calls() -> int:
        return sum(v["calls"] for k, v in raw.info("commandstats").items() if "info" not in k and "client" not in k)

    asked.clear()
    before, began = all_calls(), time.monotonic()
    time.sleep(32)  # longer than a worker sleeps at most
    seconds = time.monotonic() - began
    rate, with_scripts = sum(asked) / seconds, (all_calls() - before) / seconds
    assert 0 < rate <= 0.5, rate
    assert with_scripts <= 2.5, with_scripts
    step.enqueue().result(WOKEN_S)
