"""How handlers of each kind are run, and how their ends are told."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, keys
from support.ended_jobs import ended, events_of, log_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.beside import Beside

QUEUE = "test:actions"


def test_async_on_the_loop_sync_in_threads(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task
    async def on_loop() -> int:
        return threading.get_ident()

    @app.task
    def in_thread() -> int:
        return threading.get_ident()

    beside = start()
    assert on_loop.enqueue().result(10) == beside.thread.ident
    assert in_thread.enqueue().result(10) not in (beside.thread.ident, threading.get_ident())


def test_arguments_results_and_nothing(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    @app.task
    def echo(*args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]

    @app.task
    def nothing() -> None: ...

    @app.task(keep_result=0)
    def forgets() -> int:
        return 5

    start()
    given = [1, "ä", None, [1.5, True], {"a": {}}]
    assert echo.enqueue(*given, k=[]).result(10) == [given, {"k": []}]
    assert nothing.enqueue().result(10) is None
    assert forgets.enqueue().result(10) is None
    assert raw.hlen(keys.key(QUEUE, "result")) == 1
    assert nothing.enqueue(_keep_result=7200).result(10) is None


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        BaseException("base"),
        StopAsyncIteration("stop"),
        RecursionError("deep"),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "lone \udfff surrogate"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_whatever_a_handler_raises_is_its_own_error(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], kind: str, error: BaseException
) -> None:
    def fails() -> None:
        raise error

    async def afails() -> None:
        raise error

    task = app.task(name="task", retries=0)(fails if kind == "sync" else afails)

    @app.task
    async def fine() -> int:
        return 1

    @app.task
    def fine_too() -> int:
        return 2

    beside = start(concurrency=1)
    job = task.enqueue()
    assert ended(job) == ["dead"]
    [event] = events_of(raw, job)
    assert (event.kind, event.data["class"], event.data["attempt"]) == ("failed", type(error).__name__, 1)
    assert "raise error" in event.data["traceback"]
    assert event.data["worker"] == beside.worker.id
    assert 0 <= event.data["ran_ms"] < 60_000
    assert (fine.enqueue().result(10), fine_too.enqueue().result(10)) == (1, 2)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unreadable:
    """A value whose class gets in the way of the encoder."""

    @property
    def __dataclass_fields__(self) -> Any:
        raise RuntimeError("no fields")


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_what_cannot_be_told_is_told_all_the_same(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], kind: str
) -> None:
    def do(what: str) -> Any:
        match what:
            case "error":
                raise Unspeakable
            case "retry":
                raise qdeck.Retry("x", delay="soon")  # type: ignore[arg-type]  # wrong on purpose
            case "nan":
                raise qdeck.Retry("x", delay=float("nan"))
            case "object":
                return object()
            case "unreadable":
                return Unreadable()
            case "bytes":
                return b"raw"
            case "not a number":
                return [float("nan")]
            case "large":
                return "x" * (codec.MAX_PAYLOAD + 1)
            case "printed bytes":
                try:
                    sys.stdout.write(b"raw")  # type: ignore[arg-type]  # wrong on purpose
                except TypeError:
                    print("refused")  # noqa: T201 - what is tested
                return 1
        return 2

    async def ado(what: str) -> Any:
        return do(what)

    task = app.task(name="task", retries=0)(do if kind == "sync" else ado)
    start(concurrency=1)
    words = ["error", "retry", "nan", "object", "unreadable", "bytes", "not a number", "large"]
    jobs = [task.enqueue(word) for word in words]
    assert ended(*jobs) == ["dead"] * len(jobs)
    classes = [events_of(raw, job)[-1].data["class"] for job in jobs]
    assert classes == ["Unspeakable", "Retry", "Retry", *["PayloadNotSerializable"] * 4, "PayloadTooLarge"]
    printed = task.enqueue("printed bytes")
    assert printed.result(10) == 1
    assert log_of(raw, printed) == "refused\n"
    assert task.enqueue("fine").result(10) == 2


def test_retries_backoff_retry_and_reject(app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    runs: dict[str, list[float]] = {}

    @app.task(retries=3, retry_delay=0.1)
    async def flaky(key: str, good: int) -> int:
        times = runs.setdefault(key, [])
        times.append(time.monotonic())
        job = qdeck.current_job()
        assert (job.attempt, job.retries) == (len(times), 3)
        if len(times) < good:
            raise ValueError(key)
        return len(times)

    @app.task(retries=3)
    async def again() -> int:
        if qdeck.current_job().attempt < 3:
            raise qdeck.Retry("later", delay=0.05)
        return qdeck.current_job().attempt

    @app.task(retries=3)
    async def rejects() -> None:
        raise qdeck.Reject("never")

    start()
    good, bad = flaky.enqueue("good", 4), flaky.enqueue("bad", 9, _backoff="fixed", _retry_delay=0.02)
    assert again.enqueue().result(10) == 3
    assert good.result(10) == 4
    steps = [b - a for a, b in zip(runs["good"], runs["good"][1:], strict=False)]
    assert steps[0] >= 0.07
    assert steps[1] >= 0.15
    assert steps[2] >= 0.3
    assert ended(bad) == ["dead"]
    assert len(runs["bad"]) == 4
    assert [e.kind for e in events_of(raw, bad)] == ["failed"] * 4
    rejected = rejects.enqueue()
    with pytest.raises(qdeck.JobFailed, match="Reject: never"):
        rejected.result(10)
    assert len(events_of(raw, rejected)) == 1


def test_the_longest_delay_is_the_longest(app: qdeck.App) -> None:
    from qdeck._task_options import retry_delay_ms

    assert retry_delay_ms("E 1000 60000", 40, 1.0) <= 60_000
    assert retry_delay_ms("E 1000 60000", 1, 0.0) == 750
    assert retry_delay_ms("E 1000 60000", 1, 1.0) == 1250
    assert retry_delay_ms("F 1000 60000", 9, 1.0) == 1000
    assert retry_delay_ms("E 1000 3600000", 10_000, 1.0) <= 3_600_000


def test_what_cannot_be_run(app: qdeck.App, url: str, raw: redis.Redis, start: Callable[..., Beside]) -> None:
    producer = qdeck.App(url, queue=QUEUE)

    @producer.task(name="known", retries=0)
    def other(*args: int) -> None: ...

    @app.task(retries=0)
    def known(a: int) -> None: ...

    jobs = [other.enqueue(), *[known.enqueue(1, _delay=0.3) for _ in range(4)]]
    bodies = [b"\x80\x04raw bytes", b"[]", b"[1,2]", b""]
    for job, body in zip(jobs[1:], bodies, strict=True):
        raw.hset(keys.key(QUEUE, "body"), job.id, body)
    start()
    assert ended(*jobs) == ["dead"] * 5
    classes = [events_of(raw, job)[-1].data["class"] for job in jobs]
    assert classes == ["TypeError", *["ValueError"] * 4]
    producer.close()


@pytest.mark.parametrize(
    "head", [b"garbage", b"1795004856117 100 0 known\nbX", b"1795004856117 100 0 known\nmlong", b""]
)
def test_a_record_that_cannot_be_read_takes_no_worker_down(
    app: qdeck.App, raw: redis.Redis, start: Callable[..., Beside], head: bytes
) -> None:
    @app.task
    def known() -> int:
        return 1

    job = known.enqueue()
    raw.hset(keys.key(QUEUE, "head"), job.id, head)
    beside = start()
    assert known.enqueue().result(10) == 1
    assert ended(job) == ["dead"]
    assert beside.told("unreadable")
    assert beside.thread.is_alive()


def test_expired_jobs_do_not_start(app: qdeck.App, start: Callable[..., Beside]) -> None:
    ran = []

    @app.task(expires=0.05)
    def late() -> None:
        ran.append(1)

    jobs = [late.enqueue(), late.enqueue(_delay=0.01)]
    time.sleep(0.1)
    start()
    assert ended(*jobs) == ["cancelled", "cancelled"]
    with pytest.raises(qdeck.JobFailed, match="expired"):
        jobs[0].result(10)
    assert not ran
    assert late.enqueue().result(10) is None


def test_priorities(app: qdeck.App, start: Callable[..., Beside]) -> None:
    order: list[str] = []

    @app.task
    async def step(name: str) -> None:
        order.append(name)

    jobs = [step.enqueue(f"{p}{i}", _priority=p) for p in ("LOW", "NORMAL", "HIGH", "CRITICAL") for i in range(3)]
    start(concurrency=1)
    assert set(ended(*jobs)) == {"done"}
    assert order == [f"{p}{i}" for p in ("CRITICAL", "HIGH", "NORMAL", "LOW") for i in range(3)]


@pytest.mark.parametrize("kind", ["async", "sync", "mixed"])
def test_never_more_at_once_than_allowed(app: qdeck.App, start: Callable[..., Beside], kind: str) -> None:
    lock = threading.Lock()
    now: dict[str, int] = {"sync": 0, "async": 0}
    most: dict[str, int] = {"sync": 0, "async": 0, "all": 0}

    def count(kind: str, by: int) -> None:
        with lock:
            now[kind] += by
            most[kind] = max(most[kind], now[kind])
            most["all"] = max(most["all"], sum(now.values()))

    # The first ones go on when as many run as may, so that it is seen on any machine.
    @app.task
    def sync(seconds: float) -> None:
        count("sync", 1)
        while most["all"] < 4:
            time.sleep(0.001)
        time.sleep(seconds)
        count("sync", -1)

    @app.task
    async def on_loop(seconds: float) -> None:
        count("async", 1)
        while most["all"] < 4:  # noqa: ASYNC110 - some of the others run in threads
            await asyncio.sleep(0.001)
        await asyncio.sleep(seconds)
        count("async", -1)

    start(concurrency=4)
    calls = []
    for i in range(300):
        seconds = 0.0 if i % 50 else 0.05
        is_sync = kind == "sync" or (kind == "mixed" and i % 2 == 0)
        calls.append(sync.call(seconds) if is_sync else on_loop.call(seconds))
    jobs = app.enqueue_many(calls)
    assert set(ended(jobs[-1], *jobs[::50])) == {"done"}
    assert most["all"] <= 4, most
    if kind != "mixed":
        assert most[kind] == 4


def test_a_pid_of_its_own_is_not_needed_for_threads(app: qdeck.App, start: Callable[..., Beside]) -> None:
    @app.task
    def pid() -> int:
        return os.getpid()

    start()
    assert pid.enqueue().result(10) == os.getpid()
