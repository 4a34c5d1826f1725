"""Time limits of jobs, and the limits of a queue."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, keys, programs, transitions
from qdeck._worker.attempt import Attempt
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.beside import Beside


QUEUE = "test:actions"
FAR = "test:far:actions"
WOKEN_S = 20.0  # sooner than a worker finds jobs without a wake-up: it sleeps for 30 s at most


def run(app: qdeck.App, op: transitions.Transition[Any]) -> Any:
    return app.client.run(programs.call(op))


def test_time_limits(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task(name="async", retries=0, time_limit=0.2)
    async def on_loop() -> None:
        await asyncio.sleep(60)

    @app.task(name="sync", retries=0, time_limit=0.2)
    def in_thread() -> None:
        while True:
            time.sleep(0.01)

    @app.task(name="swallows", retries=0, time_limit=0.2)
    async def swallows() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "finished all the same"

    @app.task
    async def after() -> bool:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    start(concurrency=1)
    for name in ("async", "sync"):
        with pytest.raises(qdeck.JobFailed, match="TimeLimitExceeded"):
            app.enqueue(name).result(10)
    assert app.enqueue("swallows").result(10) == "finished all the same"
    assert after.enqueue().result(10) is True


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_handler_that_does_not_stop_loses_its_place(
    app: qdeck.App, start: Callable[..., Beside], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._worker.executor.STOP_TIMEOUT_S", 0.2)
    free = threading.Event()

    @app.task(name="async", retries=0, time_limit=0.1)
    async def on_loop() -> None:
        while not free.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
                continue

    @app.task(name="sync", retries=0, time_limit=0.1)
    def in_thread() -> None:
        while not free.is_set():
            with contextlib.suppress(Exception):
                time.sleep(0.01)

    def stubborn() -> None:
        while not free.is_set():
            with contextlib.suppress(BaseException):
                while not free.is_set():
                    time.sleep(0.01)

    async def astubborn() -> None:
        while not free.is_set():
            with contextlib.suppress(BaseException):
                while not free.is_set():  # noqa: ASYNC110 - the test sets it from its own thread
                    await asyncio.sleep(0.01)

    app.task(name="stubborn", retries=0, time_limit=0.1)(stubborn if kind == "sync" else astubborn)

    @app.task
    async def fine() -> int:
        return 1

    @app.task
    def fine_too() -> int:
        return 2

    beside = start(concurrency=1)
    try:
        with pytest.raises(qdeck.JobFailed, match="did not stop"):
            app.enqueue("stubborn").result(10)
        assert beside.told("stuck_handler")
        assert (fine.enqueue().result(10), fine_too.enqueue().result(10)) == (1, 2)
        assert fine.enqueue().result(10) == 1
    finally:
        free.set()


def test_interruptions_hit_nobody_else(app: qdeck.App, start: Callable[..., Beside]) -> None:
    """Limits that end about when the handler does: every job ends, and the next one on the thread is not hit."""

    @app.task(name="edge", retries=0)
    def edge(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pass

    @app.task(retries=0)
    def bystander() -> int:
        return sum(range(2000))

    beside = start(concurrency=4)
    executor = beside.worker._executor
    assert executor is not None
    loop = beside.worker._loop
    assert loop is not None

    def hunt() -> None:
        for queue in beside.worker.queues:
            for held in list(queue.held.values()):
                if (
                    held.spec.head.task == "edge"
                    and held.thread is not None
                    and time.monotonic() - held.started > 0.0009
                ):
                    executor.stop_attempt(held, "timeout")
        if not done.is_set():
            loop.call_later(0.0002, hunt)

    done = threading.Event()
    loop.call_soon_threadsafe(hunt)
    calls: list[qdeck.Call] = []
    for _ in range(400):
        calls += [edge.call(0.001), bystander.call()]
    jobs = app.enqueue_many(calls)
    try:
        wait_until(lambda: executor.done + executor.failed >= 800, 40)
    finally:
        done.set()
    states = [job.state() for job in jobs]
    assert set(states[1::2]) == {"done"}
    assert set(states[::2]) <= {"done", "dead"}


def test_a_handler_that_has_ended_is_not_interrupted(
    app: qdeck.App, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit strikes while the result is written: whatever comes then would hit the worker's own code."""

    @app.task(retries=0)
    def step() -> int:
        return 1

    beside = start(concurrency=1)
    executor = beside.worker._executor
    assert executor is not None
    real = Attempt.success

    def late(self: Attempt, value: Any) -> Any:
        executor.stop_attempt(self, "timeout")
        return real(self, value)

    monkeypatch.setattr(Attempt, "success", late)
    for _ in range(20):
        assert step.enqueue().result(10) == 1


def test_pause_and_resume_wake_at_once(
    app: qdeck.App, start: Callable[..., Beside], idle: Callable[[int], None]
) -> None:
    @app.task
    async def step() -> None: ...

    start(queues={QUEUE: 1, FAR: 1})
    step.enqueue().result(10)
    run(app, transitions.configure(QUEUE, {"paused": "1"}))
    job = step.enqueue()
    step.enqueue(_queue=FAR).result(WOKEN_S)  # the worker takes what came later
    assert job.state() == "ready"
    idle(1)
    run(app, transitions.configure(QUEUE, {"paused": ""}))
    job.result(WOKEN_S)


def test_a_concurrency_limit_holds_over_workers(
    app: qdeck.App, start: Callable[..., Beside], idle: Callable[[int], None]
) -> None:
    lock, now, most = threading.Lock(), [0], [0]

    @app.task
    async def step() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        await asyncio.sleep(0.005)
        with lock:
            now[0] -= 1

    run(app, transitions.init(QUEUE))
    run(app, transitions.configure(QUEUE, {"limit": "3"}))
    for _ in range(3):
        start(queues={QUEUE: 1, FAR: 1}, concurrency=5)
    jobs = app.enqueue_many([step.call() for _ in range(150)])
    wait_until(lambda: all(job.state() == "done" for job in jobs), WOKEN_S)
    assert most[0] == 3
    run(app, transitions.configure(QUEUE, {"limit": "0"}))
    job = step.enqueue()
    for other in app.enqueue_many([step.call(_queue=FAR) for _ in range(30)]):  # all workers take what came later
        other.result(WOKEN_S)
    assert job.state() == "ready"
    idle(3)
    run(app, transitions.configure(QUEUE, {"limit": ""}))
    job.result(WOKEN_S)


def test_a_rate_limit_holds(app: qdeck.App, raw: Any, start: Callable[..., Beside]) -> None:
    """Jobs are claimed at the rate, by the clock of the server: handlers may start later, on a busy machine."""
    claimed: list[int] = []

    @app.task
    async def step() -> None:
        lease = raw.hget(keys.key(QUEUE, "lease"), qdeck.current_job().id)
        claimed.append(codec.read_lease(lease).claimed_ms)

    run(app, transitions.init(QUEUE))
    run(app, transitions.configure(QUEUE, {"rate": "10 500"}))
    start()
    start()
    app.enqueue_many([step.call() for _ in range(30)])
    wait_until(lambda: len(claimed) == 30, WOKEN_S)
    claimed.sort()
    assert claimed[29] - claimed[0] >= 850
    for first in claimed:
        assert sum(1 for at in claimed if first <= at < first + 400) <= 21
