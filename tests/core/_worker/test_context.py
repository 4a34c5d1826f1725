"""What surrounds a run: its output, its context, its failure handler, and the jobs that wait for it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import keys
from support.ended_jobs import ended, log_of
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.beside import Beside

QUEUE = "test:actions"


def test_output_is_captured_for_each_job_apart(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    log = logging.getLogger("some.library")

    async def deeper(n: int) -> None:
        await asyncio.sleep(0.01)
        print("task", n)  # noqa: T201 - what is tested

    @app.task
    async def talks(n: int) -> None:
        print("out", n)  # noqa: T201 - what is tested
        await asyncio.sleep(0.01)
        print("err", n, file=sys.stderr)  # noqa: T201 - what is tested
        log.warning("logged %d", n)
        await asyncio.gather(deeper(n), asyncio.create_task(deeper(n)))
        await asyncio.to_thread(print, "nested", n)

    @app.task
    def shouts(n: int) -> None:
        print("out", n)  # noqa: T201 - what is tested
        time.sleep(0.01)
        print("err", n, file=sys.stderr)  # noqa: T201 - what is tested
        log.warning("logged %d", n)
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(print, "nested", n))
        thread.start()
        thread.join()

    @app.task
    def silent() -> None: ...

    start()
    jobs = [talks.enqueue(i) for i in range(20)] + [shouts.enqueue(i) for i in range(20)]
    quiet = silent.enqueue()
    assert set(ended(quiet, *jobs)) == {"done"}
    for i, job in enumerate(jobs):
        lines = log_of(raw, job).splitlines()
        assert [line.split()[-1] for line in lines] == [str(i % 20)] * len(lines), lines
        words = [line.split()[0] for line in lines]
        assert words[:2] == ["out", "err"]
        assert words[3:] == (["task", "task", "nested"] if i < 20 else ["nested"])
        assert lines[2].endswith(f"WARNING some.library: logged {i % 20}")
    assert log_of(raw, quiet) == ""


def test_output_is_bounded_and_once(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task
    def floods(text: str, times: int) -> None:
        for _ in range(times):
            sys.stdout.write(text)
            sys.stdout.write("")
        sys.stdout.write("the end")

    @app.task
    def once() -> None:
        print("once")  # noqa: T201 - what is tested

    before = sys.stdout
    start()
    second = start(concurrency=1)
    assert once.enqueue().result(10) is None
    jobs = [
        floods.enqueue("x" * 1000, 2000),
        floods.enqueue("ä€😀", 100_000),
        floods.enqueue("\ud800".encode("utf-8", "backslashreplace").decode(), 5),
    ]
    assert ended(*jobs, timeout_s=40) == ["done"] * 3
    for job in jobs[:2]:
        text = log_of(raw, job)
        assert text.endswith("the end")
        assert text.startswith("[what was written before this was dropped]\n")
        assert 130_000 < len(text.encode()) <= 131_072 + 50
    job = once.enqueue()
    job.result(10)
    assert log_of(raw, job) == "once\n"
    second.end()
    job = once.enqueue()
    job.result(10)
    assert log_of(raw, job) == "once\n", "the capture went with the first of two workers"
    assert sys.stdout is not before


def test_current_job(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task(retries=2)
    async def about() -> list[Any]:
        job = qdeck.current_job()
        same = await asyncio.to_thread(qdeck.current_job)
        return [
            job.id,
            job.queue,
            job.task,
            job.attempt,
            job.retries,
            job.name,
            list(job.tags),
            job.worker,
            same is job,
        ]

    @app.task(retries=2)
    def about_too() -> list[Any]:
        job = qdeck.current_job()
        assert job is qdeck.current_job()
        assert not job.cancelled.is_set()
        assert not job.lease_lost.is_set()
        assert abs(job.enqueued_ms / 1000 - time.time()) < 60
        return [job.id, job.queue, job.task, job.attempt, job.retries, job.name, list(job.tags), job.worker, True]

    beside = start()
    for task in (about, about_too):
        job = task.enqueue(_name="N", _tags=["a"])
        assert job.result(10) == [job.id, QUEUE, task.name, 1, 2, "N", ["a"], beside.worker.id, True]
    with pytest.raises(qdeck.QdeckError) as caught:
        qdeck.current_job()
    assert caught.value.hint


def test_failure_handlers(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task(retries=0)
    def cure(failure: qdeck.Failure) -> dict[str, Any]:
        return {name: getattr(failure, name) for name in failure.__slots__}

    @app.task(queue="test:far:actions", retries=0)
    async def far_cure(failure: qdeck.Failure) -> str:
        return failure.id

    @app.task(retries=0)
    def bad_cure(failure: qdeck.Failure) -> None:
        raise RuntimeError("the handler too")

    @app.task(retries=1, retry_delay=0.01, on_failure="cure")
    async def fails(a: int, *, b: str) -> None:
        raise KeyError("x")

    start(queues={QUEUE: 1, "test:far:actions": 1})

    def handlers_of(job: qdeck.Job, queue: str) -> list[qdeck.Job]:
        ids = [str(i, "ascii") for i in raw.hkeys(keys.key(queue, "head")) if isinstance(i, bytes)]
        return [qdeck.Job(app, queue, i) for i in ids if i.startswith(f"{job.id}-f")]

    job = fails.enqueue(1, b="2", _name="N")
    assert ended(job) == ["dead"]
    [handler] = handlers_of(job, QUEUE)
    told = handler.result(10)
    assert told["args"] == [1]
    assert told["kwargs"] == {"b": "2"}
    assert (told["id"], told["queue"], told["task"], told["name"]) == (job.id, QUEUE, "fails", "N")
    assert (told["attempts"], told["crashes"], told["reason"]) == (2, 0, "failed")
    assert (told["error_class"], told["error_message"]) == ("KeyError", "'x'")
    assert "raise KeyError" in told["traceback"]
    assert told["failed_ms"] >= told["enqueued_ms"] > 0

    job = fails.enqueue(1, b="2", _on_failure=far_cure)
    assert ended(job) == ["dead"]
    wait_until(lambda: handlers_of(job, "test:far:actions"))
    [handler] = handlers_of(job, "test:far:actions")
    assert handler.result(10) == job.id

    job = fails.enqueue(1, b="2", _on_failure="bad_cure", _retries=0)
    assert ended(job) == ["dead"]
    [handler] = handlers_of(job, QUEUE)
    wait_until(lambda: handler.state() in ("dead", "delayed"))
    assert not handlers_of(handler, QUEUE)


def test_chains_and_groups_to_their_end(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    order: list[str] = []

    @app.task(retries=0)
    async def step(name: str, *, fail: bool = False) -> str:
        order.append(name)
        if fail:
            raise ValueError(name)
        return name

    far = "test:far:actions"
    start(queues={QUEUE: 1, far: 1})
    jobs = app.enqueue_many(
        qdeck.chain(step.call("1"), step.call("2", _queue=far), step.call("3"), step.call("4", _queue=far))
    )
    assert [job.result(20) for job in jobs] == ["1", "2", "3", "4"]
    assert order == ["1", "2", "3", "4"]
    order.clear()
    members = [step.call(str(i), _queue=far if i % 2 else QUEUE) for i in range(20)]
    jobs = app.enqueue_many(qdeck.group(members, step.call("last")))
    assert jobs[-1].result(20) == "last"
    assert order[-1] == "last"
    assert len(order) == 21
    # One that dies takes those that wait with it, in its own queue and beyond, unless they run anyway.
    bad = step.call("bad", fail=True)
    near, away = step.call("n", _after=bad), step.call("f", _after=bad, _queue=far)
    anyway = step.call("a", _after=bad, _run_anyway=True, _queue=far)
    jobs = app.enqueue_many([bad, near, away, anyway])
    assert ended(*jobs) == ["dead", "dead", "dead", "done"]
    for job in jobs[1:3]:
        with pytest.raises(qdeck.JobFailed, match="outcome dead"):
            job.result(10)
