"""Handlers that run in child processes: what they return, how they fail, and what their death costs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, keys
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

QUEUE = "test:actions"
REF = "core._worker.process_jobs:app"


def kinds_of(raw: redis.Redis, job: qdeck.Job) -> list[str]:
    text = raw.hget(keys.key(QUEUE, "error"), job.id)
    return [event.kind for event in codec.read_events(text if isinstance(text, bytes) else None)]


def run(jobs: Any, start: Callable[..., Beside], **more: Any) -> Beside:
    return start(jobs.app, app_ref=REF, processes=2, **more)


def test_results_logs_and_errors_come_back(jobs: Any, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    beside = run(jobs, start)
    first = jobs.pid.enqueue()
    child = first.result(30)
    assert child != os.getpid()
    assert raw.hget(keys.key(QUEUE, "log"), first.id) == b"in %d\n" % child
    async_job = jobs.apid.enqueue()
    assert async_job.result(10) != os.getpid()
    assert b"from a child" in (raw.hget(keys.key(QUEUE, "log"), async_job.id) or b"")
    about = jobs.about.enqueue(_name="N", _tags=["t"])
    assert about.result(10) == [about.id, QUEUE, "about", 1, 3, "N", ["t"], beside.worker.id]
    assert jobs.retries.enqueue().result(10) == 3
    for what, name, times in (("error", "ValueError", 2), ("exit", "SystemExit", 2), ("reject", "Reject", 1)):
        job = jobs.fails.enqueue(what)
        with pytest.raises(qdeck.JobFailed, match=name):
            job.result(10)
        assert kinds_of(raw, job) == ["failed"] * times
    with pytest.raises(qdeck.JobFailed, match="PayloadNotSerializable"):
        jobs.fails.enqueue("nan").result(10)
    assert jobs.fails.enqueue("nothing").result(10) is None
    assert jobs.on_loop.enqueue().result(10) == os.getpid()
    assert jobs.terminated.enqueue().result(10) == -15, "the child ignores SIGTERM and what it starts does not"


def test_a_child_that_dies(jobs: Any, raw: redis.Redis, start: Callable[..., Beside], tmp_path: Path) -> None:
    beside = run(jobs, start)
    assert jobs.dies_once.enqueue(str(tmp_path / "mark")).result(30) == "crashes 1"
    poison = jobs.dies.enqueue(3, _on_failure="cure")
    with pytest.raises(qdeck.JobFailed, match="exit_code 3"):
        poison.result(30)
    assert kinds_of(raw, poison) == ["crashed"] * 5
    ids = [str(i, "ascii") for i in raw.hkeys(keys.key(QUEUE, "head")) if isinstance(i, bytes)]
    [handler] = [i for i in ids if i.startswith(f"{poison.id}-f")]
    assert qdeck.Job(jobs.app, QUEUE, handler).result(10) == ["dies", [3], None, "crashed", 5]
    assert beside.thread.is_alive()
    assert jobs.pid.enqueue().result(10)


def test_a_time_limit_and_a_cancel_kill_the_child(jobs: Any, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    run(jobs, start, lease=1.0)
    jobs.pid.enqueue().result(30)
    job = jobs.pid.enqueue(60, _time_limit=0.3, _retries=0)
    with pytest.raises(qdeck.JobFailed, match="TimeLimitExceeded"):
        job.result(20)
    assert kinds_of(raw, job) == ["timeout"]
    job = jobs.pid.enqueue(60)
    wait_until(lambda: job.state() == "running")
    assert job.cancel() == "requested"
    with pytest.raises(qdeck.JobFailed, match="cancelled"):
        job.result(20)
    assert jobs.pid.enqueue().result(30)


def test_a_child_that_cannot_start(jobs: Any, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    start(jobs.app, app_ref="core._worker.process_jobs:nothing", processes=1)
    job = jobs.pid.enqueue(_retries=0)
    with pytest.raises(qdeck.JobFailed, match="exit_code 1"):
        job.result(60)
    assert jobs.on_loop.enqueue().result(10) == os.getpid()


def test_no_more_at_once_than_processes(jobs: Any, start: Callable[..., Beside]) -> None:
    beside = run(jobs, start, concurrency=8)
    made = jobs.app.enqueue_many([jobs.pid.call(0.05) for _ in range(12)])
    assert len({job.result(30) for job in made}) == 2
    assert beside.worker._executor is not None
    wait_until(lambda: beside.worker._executor is not None and beside.worker._executor.count == 0)


def test_busy_processes_hold_up_no_other_queue(jobs: Any, start: Callable[..., Beside]) -> None:
    far = "test:far:actions"
    beside = start(jobs.app, queues={QUEUE: 1, far: 1}, app_ref=REF, processes=1, concurrency=10)
    jobs.pid.enqueue().result(30)
    slow = jobs.app.enqueue_many([jobs.pid.call(3.0) for _ in range(5)])
    wait_until(lambda: beside.worker.queues[0].lacks_processes, why="more jobs came than processes are free")
    quick = jobs.app.enqueue_many([jobs.on_loop.call(_queue=far) for _ in range(20)])
    assert [job.result(2) for job in quick] == [os.getpid()] * 20
    assert [job.state() for job in slow].count("running") == 1
    for job in slow:
        job.cancel()


def test_jobs_without_a_free_process_are_left_to_other_workers(jobs: Any, start: Callable[..., Beside]) -> None:
    for _ in range(2):
        start(jobs.app, app_ref=REF, processes=1, concurrency=8)
    made = jobs.app.enqueue_many([jobs.pid.call(0.4) for _ in range(4)])
    assert len({job.result(30) for job in made}) == 2
    made = jobs.app.enqueue_many([jobs.pid.call(0.01) for _ in range(20)])
    assert len({job.result(30) for job in made}) <= 2


def test_processes_need_to_know_the_app(jobs: Any) -> None:
    beside = Beside(jobs.app)
    assert isinstance(beside.error, qdeck.UsageError)
    assert "app_ref" in beside.error.hint
