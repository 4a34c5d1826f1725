"""Each job runs in a context of its own, and what a handler does to its asyncio task reaches no other job."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._worker.handler_contexts import first_step, further_steps
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUEUE = "test:actions"
BASE: ContextVar[str] = ContextVar("base", default="unset")


@pytest.fixture
def jobs(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the jobs, in this process and, by the environment, in the child processes."""
    monkeypatch.setenv("QDECK_URL", url)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    module = importlib.reload(importlib.import_module("core._worker.isolation_jobs"))
    yield module
    logging.getLogger("isolation").filters.clear()
    module.app.close()


@pytest.mark.parametrize(
    "count",
    [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
def test_no_job_sees_the_context_of_another(jobs: Any, start: Callable[..., Beside], count: int) -> None:
    beside = start(jobs.app, app_ref="core._worker.isolation_jobs:app", processes=2, concurrency=8)
    kinds = (jobs.on_loop, jobs.in_thread, jobs.in_process)
    for first in range(0, count, 500):
        jobs.app.enqueue_many([kinds[n % 3].call(n) for n in range(first, min(first + 500, count))])
    executor = beside.worker._executor
    assert executor is not None
    wait_until(lambda: executor.done + executor.failed >= count, timeout_s=280)
    leaks = [event["message"] for event in beside.told("failed")]
    assert not leaks, f"{len(leaks)} of {count}, such as {leaks[:3]}"
    assert executor.done == count


def test_a_context_spans_all_of_a_job_and_its_tasks(app: qdeck.App, start: Callable[..., Beside]) -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="none")

    async def part() -> str:
        await asyncio.sleep(0)
        return tenant.get() + qdeck.current_job().id

    @app.task
    async def step() -> list[object]:
        tenant.set("mine")
        await asyncio.sleep(0.001)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(part()) for _ in range(2)]
        called: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: called.set_result(tenant.get()))
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            pass
        in_thread = await asyncio.to_thread(tenant.get)
        return [tenant.get(), *(task.result() for task in tasks), await called, in_thread]

    start(concurrency=2)
    job = step.enqueue()
    assert job.result(10) == ["mine", f"mine{job.id}", f"mine{job.id}", "mine", "mine"]


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_job_starts_with_what_the_application_set(app: qdeck.App, kind: str) -> None:
    @contextlib.asynccontextmanager
    async def beside() -> Any:
        BASE.set("by the application")
        yield

    @app.task(name="async")
    async def on_loop() -> str:
        return BASE.get()

    @app.task(name="sync")
    def in_thread() -> str:
        return BASE.get()

    app.beside.append(beside)
    worker: list[Beside] = []
    copy_context().run(lambda: worker.append(Beside(app)))
    try:
        assert app.enqueue(kind).result(10) == "by the application"
    finally:
        worker[0].end()
        app.close()


def test_what_a_handler_awaits_and_raises_passes_through(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task
    async def chained() -> str:
        value: str = await _Later()
        return value

    @app.task(retries=0)
    async def raises_later() -> None:
        await asyncio.sleep(0)
        raise StopIteration("as it is")

    start()
    assert chained.enqueue().result(10) == "later"
    with pytest.raises(qdeck.JobFailed, match="StopIteration"):
        raises_later.enqueue().result(10)


class _Later:
    def __await__(self) -> Any:
        yield from asyncio.sleep(0.001).__await__()
        BASE.set("set inside")
        return "later"


def test_any_awaitable_runs_in_its_context() -> None:
    class Handler:
        def function(self) -> type[_Later]:
            return _Later

    async def outside() -> tuple[str, str]:
        context = copy_context()
        handler: Any = Handler()
        coroutine, waits_for = context.run(first_step, handler, [], {})
        assert coroutine is not None
        value: str = await further_steps(context, coroutine, waits_for)
        assert context[BASE] == "set inside"
        return value, BASE.get()

    assert asyncio.run(outside()) == ("later", "unset")


def _cancel_self() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


def test_a_job_that_cancels_itself_fails_and_its_slot_survives(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task(retries=0, time_limit=1)
    async def suicidal(how: str) -> None:
        if how == "child":
            task = asyncio.create_task(asyncio.sleep(60))
            task.cancel()
            await task
        elif how == "raises":
            raise asyncio.CancelledError
        _cancel_self()
        if how == "twice":
            _cancel_self()
        await asyncio.sleep(60)

    @app.task
    async def after() -> bool:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        return task is not None and task.cancelling() == 0

    beside = start(concurrency=2)
    for _ in range(2):
        for how in ("once", "twice", "child", "raises"):
            with pytest.raises(qdeck.JobFailed, match="CancelledError: the handler was cancelled, and not by"):
                suicidal.enqueue(how).result(10)
    assert [after.enqueue().result(10) for _ in range(4)] == [True] * 4
    beside.end()
    assert beside.error is None


@pytest.mark.parametrize("swallowed", ["before an await", "without an await"])
def test_a_swallowed_cancellation_does_not_reach_the_next_job(
    app: qdeck.App, start: Callable[..., Beside], swallowed: str
) -> None:
    @app.task(retries=0)
    async def swallows() -> str:
        _cancel_self()
        if swallowed == "before an await":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        return "went on"

    @app.task(retries=0)
    async def after() -> int:
        task = asyncio.current_task()
        count = -1 if task is None else task.cancelling()
        await asyncio.sleep(0.001)
        return count

    start(concurrency=1)
    for _ in range(3):
        jobs = app.enqueue_many([swallows.call(), after.call(), after.call()])
        assert [job.result(10) for job in jobs] == ["went on", 0, 0]


def test_a_time_limit_holds_after_a_job_cancelled_itself(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task(retries=0, time_limit=0.2)
    async def goes_on() -> None:
        _cancel_self()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    start(concurrency=1)
    for _ in range(2):
        with pytest.raises(qdeck.JobFailed, match="TimeLimitExceeded"):
            goes_on.enqueue().result(10)


def test_a_cancellation_that_comes_after_its_job_costs_no_slot(app: qdeck.App, start: Callable[..., Beside]) -> None:
    cancelled = threading.Event()

    @app.task(retries=0)
    async def leaves_a_timer() -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def late() -> None:
            task.cancel()
            loop.call_soon(cancelled.set)

        loop.call_later(0.05, late)

    @app.task(retries=0)
    async def after() -> str:
        await asyncio.sleep(0)
        return "ran"

    beside = start(concurrency=1)
    for _ in range(3):
        cancelled.clear()
        leaves_a_timer.enqueue().result(10)
        assert cancelled.wait(10)
        assert after.enqueue().result(10) == "ran"
    assert beside.error is None
