"""The worker's start and end, and what it does about the unexpected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import keys, programs, transitions
from qdeck.admin import Writer
from qdeck.runtime import Worker
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.processes import PythonProcess
    from support.servers import Server

QUEUE = "test:actions"
FAR = "test:far:actions"


def run(app: qdeck.App, op: transitions.Transition[Any]) -> Any:
    return app.client.run(programs.call(op))


def test_stop_lets_what_runs_end_and_gives_back_the_rest(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]
) -> None:
    began, go = threading.Event(), threading.Event()

    @app.task
    async def long(n: int) -> int:
        began.set()
        while not go.is_set():  # noqa: ASYNC110 - the test sets it from its own thread
            await asyncio.sleep(0.01)
        return n

    beside = start(concurrency=1, grace=20)
    first, second = long.enqueue(1), long.enqueue(2)
    wait_until(began.is_set)
    beside.worker.stop()
    wait_until(lambda: beside.told("stopping"))
    time.sleep(0.1)
    assert beside.thread.is_alive()
    go.set()
    beside.thread.join(20)
    assert first.result(1) == 1
    assert second.state() == "ready"
    assert beside.ended_with == "stop"
    assert not raw.hgetall("qdeck:workers")
    assert not raw.hget(keys.key(QUEUE, "attempts"), second.id)


def test_after_the_grace_what_runs_is_given_back(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]
) -> None:
    began = threading.Event()
    free = threading.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(60)

    @app.task
    def stuck() -> None:
        while not free.is_set():
            with contextlib.suppress(BaseException):
                while not free.is_set():
                    time.sleep(0.01)

    beside = start(concurrency=4, grace=0.2)
    jobs = [long.enqueue(), stuck.enqueue()]
    wait_until(lambda: all(job.state() == "running" for job in jobs) and began.is_set())
    beside.end()
    free.set()
    assert [job.state() for job in jobs] == ["ready", "ready"]
    assert not raw.hgetall(keys.key(QUEUE, "attempts"))


def test_stop_twice_does_not_wait(app: qdeck.App, start: Callable[..., Beside]) -> None:
    began = threading.Event()

    @app.task
    async def long() -> None:
        began.set()
        await asyncio.sleep(60)

    beside = start(grace=60)
    job = long.enqueue()
    wait_until(began.is_set)
    beside.worker.stop()
    wait_until(lambda: beside.told("stopping"))
    beside.end(20)
    assert job.state() == "ready"


def test_control_words(
    app: qdeck.App, url: str, raw: redis.Redis, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._worker.heartbeat.IDLE_PRESENCE_S", 0.2)
    monkeypatch.setattr("qdeck._worker.heartbeat.BUSY_PRESENCE_S", 0.2)

    @app.task
    async def step() -> int:
        return 1

    beside = start()
    assert step.enqueue().result(10) == 1
    raw.hset("qdeck:control", beside.worker.id, "quiet")
    wait_until(lambda: beside.told("quiet"))
    job = step.enqueue()
    time.sleep(0.3)
    assert job.state() == "ready"
    assert beside.worker.describe()["state"] == "quiet"
    other = start()
    assert job.result(5) == 1
    raw.hset("qdeck:control", other.worker.id, "quiet")
    wait_until(lambda: other.told("quiet"))
    job = step.enqueue()
    with Writer(url) as writer:
        writer.order_worker(beside.worker.id, "resume")
    assert job.result(10) == 1, "a quiet worker claims jobs again once it is resumed"
    assert beside.told("resumed")
    assert beside.worker.describe()["state"] == "running"
    raw.hset("qdeck:control", beside.worker.id, "stop")
    beside.thread.join(20)
    assert beside.ended_with == "stop"
    assert not raw.hget("qdeck:control", beside.worker.id)
    assert other.thread.is_alive()


PROGRAM = """
import asyncio, os, sys, time, qdeck
from qdeck._worker.worker import Worker
app = qdeck.App(queue="test:actions")
@app.task
async def nap(seconds): await asyncio.sleep(seconds); return 1
print("ended", Worker(app, grace=10, on_event=lambda e: print(e["event"])).run())
"""


@pytest.mark.parametrize(("number", "why"), [(15, "stop"), (2, "stop"), (1, "reload")])
def test_signals(url: str, app: qdeck.App, make_process: Callable[..., PythonProcess], number: int, why: str) -> None:
    @app.task
    async def nap(seconds: float) -> None: ...

    process = make_process("-c", PROGRAM, env={"QDECK_URL": url})
    process.wait_for("started")
    job = nap.enqueue(0.5)
    wait_until(lambda: job.state() == "running")
    process.signal(number)
    assert process.wait() == 0
    assert f"ended {why}" in process.stdout
    assert job.result(1) == 1


@pytest.mark.parametrize("where", ["take", "check", "settle", "listen"])
def test_what_nobody_expected_ends_the_worker_loudly(
    app: qdeck.App, start: Callable[..., Beside], where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError(where)

    @app.task
    async def step() -> None: ...

    targets = {
        "take": "executor.Executor.take", "check": "executor.Executor.check",
        "settle": "worker_queue.WorkerQueue.apply_poll",
        "listen": "blocking_wait.BlockingWait.wait",
    }  # fmt: skip
    monkeypatch.setattr(f"qdeck._worker.{targets[where]}", fails)
    beside = Beside(app)
    step.enqueue()
    beside.thread.join(20)
    assert not beside.thread.is_alive()
    assert isinstance(beside.error, ZeroDivisionError)


def test_a_listener_that_fails_stops_nothing(app: qdeck.App, caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: dict[str, Any]) -> None:
        raise RuntimeError("no ear")

    @app.task(retries=0)
    async def bad() -> None:
        raise ValueError

    worker = Worker(app, on_event=fails)
    thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
    with caplog.at_level(logging.ERROR):
        thread.start()
        with pytest.raises(qdeck.JobFailed):
            bad.enqueue().result(20)
        worker.stop()
        thread.join(20)
    assert not thread.is_alive()
    assert any("on_event failed" in record.getMessage() for record in caplog.records)


def test_a_failing_heartbeat_goes_on(
    app: qdeck.App, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdeck._worker.heartbeat import Heartbeat

    real = Heartbeat._beat
    failed: list[int] = []

    def sometimes(self: Heartbeat, queue: Any, at_once: bool) -> None:
        if len(failed) < 3:
            failed.append(1)
            raise ZeroDivisionError
        real(self, queue, at_once)

    monkeypatch.setattr(Heartbeat, "_beat", sometimes)

    @app.task
    async def blocks() -> int:
        await asyncio.sleep(2.0)
        return 1

    start(lease=0.8)
    assert blocks.enqueue().result(10) == 1
    assert len(failed) == 3


def test_a_suspect_runs_alone_but_not_for_ever_waiting(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._worker.executor.SOLO_WAIT_S", 0.5)
    beside_runs: list[str] = []
    free = threading.Event()

    @app.task
    async def suspect() -> str:
        beside_runs.append("suspect")
        return "fine"

    @app.task
    async def long() -> str:
        while not free.is_set():  # noqa: ASYNC110 - the test sets it from its own thread
            await asyncio.sleep(0.01)
        return "long"

    beside = start()
    held = long.enqueue()
    wait_until(lambda: held.state() == "running")
    job = suspect.enqueue(_delay=0.3)
    raw.hset(keys.key(QUEUE, "attempts"), job.id, "0 3 0")
    wait_until(lambda: beside.told("suspect"))
    assert not beside_runs
    assert job.result(10) == "fine"
    free.set()
    assert held.result(10) == "long"
    assert long.enqueue().result(10) == "long"


def test_wrong_settings_of_a_worker(app: qdeck.App) -> None:
    settings: list[dict[str, Any]] = [{"concurrency": 0}, {"lease": 0.0}, {"grace": -1}, {"queues": {QUEUE: 0}}]
    for wrong in settings:
        with pytest.raises(qdeck.InvalidOption) as caught:
            Worker(app, **wrong)
        assert caught.value.hint
    with pytest.raises(qdeck.InvalidName):
        Worker(app, {"nonsense": 1})


def test_a_process_whose_worker_fails_has_an_exit_code(
    url: str, app: qdeck.App, make_process: Callable[..., PythonProcess]
) -> None:
    @app.task
    async def nap(seconds: float) -> None: ...

    broken = (
        "import qdeck._worker.executor as h\ndef fails(*_): raise ZeroDivisionError('here')\nh.Executor.take = fails\n"
    )
    process = make_process("-c", broken + PROGRAM, env={"QDECK_URL": url})
    process.wait_for("started")
    nap.enqueue(0)
    assert process.wait() == 1
    assert "ZeroDivisionError: here" in process.output


def test_a_server_that_refuses_or_is_not_there_is_told_at_once(make_server: Callable[..., Server]) -> None:
    server = make_server(password="right")
    for url, error in (
        (f"redis://:s3cret@127.0.0.1:{server.port}", qdeck.NotAllowed),
        ("redis://:s3cret@127.0.0.1:1", qdeck.ServerUnreachable),
    ):
        beside = Beside(qdeck.App(url, queue=QUEUE, patience=60.0))
        beside.thread.join(30)
        assert isinstance(beside.error, error)
        assert "s3cret" not in str(beside.error)


def test_a_malformed_entry_of_an_outbox_does_not_end_a_worker(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]
) -> None:
    @app.task
    async def task(n: int) -> int:
        return n

    app.client.run(programs.make_queue(QUEUE))
    raw.xadd(keys.key(QUEUE, "outbox"), {"k": "newkind"})
    raw.xadd(keys.key(QUEUE, "outbox"), {"k": "release", "i": b"\xff", "o": "done"})
    beside = start()
    wait_until(lambda: len(beside.told("quarantined")) == 2)
    assert task.enqueue(3).result(10) == 3
    assert beside.thread.is_alive()


def test_records_that_cannot_be_read_are_buried_and_their_neighbours_run(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]
) -> None:
    ran: list[int] = []

    @app.task
    async def task(n: int) -> None:
        ran.append(n)

    app.client.run(programs.make_queue(QUEUE))
    good = b" 100 3 task"
    heads = {
        # The first 14 bytes are taken for the time: the rest is what a healthy head has there.
        b"short": b"1 0 9 other\nx" + b" " + good[1:],
        b"long": b"9" * 400 + good,
        b"priority": b"1800000000000 9999 3 task",
        b"lease": b"1800000000000 100 3 task\nl" + b"9" * 400,
        b"backoff": b"1800000000000 100 3 task\nbE " + b"9" * 400 + b" 1",
        b"\xff\xfe": b"1800000000000" + good,
    }
    for job_id, head in heads.items():
        raw.hset(keys.key(QUEUE, "head"), job_id, head)
        raw.hset(keys.key(QUEUE, "body"), job_id, b"[[0],{}]")
        raw.zadd(keys.key(QUEUE, "ready"), {job_id: 0})
    raw.hset(keys.key(QUEUE, "claims"), "\n", "x")
    jobs = [task.enqueue(n) for n in range(1, 4)]
    raw.hset(keys.key(QUEUE, "attempts"), jobs[1].id, "9" * 30 + " x")
    raw.zadd(keys.key(QUEUE, "delayed"), {"never": "inf"})
    start()
    wait_until(lambda: raw.zcard(keys.key(QUEUE, "dead")) == len(heads) + 1)
    wait_until(lambda: sorted(ran) == [1, 3])
    for job_id in (*heads, jobs[1].id.encode()):
        event = raw.hget(keys.key(QUEUE, "error"), job_id)
        assert event is not None
        assert b'"class":"UnreadableRecord"' in event
    assert task.enqueue(4).result(10) is None
