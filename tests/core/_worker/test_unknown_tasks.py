"""A task that a worker does not have: its job is requeued, uncounted, and a worker with the task gets it at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, keys
from qdeck_console.presenters.line_parts import PLAIN
from support.ended_jobs import events_of
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.beside import Beside

QUEUE = "test:actions"


@pytest.fixture
def newer(url: str) -> Iterator[qdeck.App]:
    """The next version of the app: it declares one task more."""
    app = qdeck.App(url, queue=QUEUE)

    @app.task(retries=0)
    def fresh(number: int) -> int:
        return number

    yield app
    app.close()


def parked(raw: Any) -> int:
    return int(raw.zcard(keys.key(QUEUE, "unknown_tasks")))


def test_it_goes_back_to_delayed_and_counts_no_attempt(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    job = newer.tasks["fresh"].enqueue(1)
    old = start()
    wait_until(lambda: old.told("unknown_task") and job.state() == "delayed")
    due = raw.zscore(keys.key(QUEUE, "delayed"), job.id)
    assert due is not None
    assert 3_000 < due - time.time() * 1000 <= 5_100
    assert raw.hget(keys.key(QUEUE, "attempts"), job.id) is None
    [event] = events_of(raw, job)
    assert (event.kind, event.data) == ("unknown_task", {"worker": old.worker.id})
    assert raw.hget(keys.key(QUEUE, "meta"), "n:failed") is None
    [told] = old.told("unknown_task")
    assert (told["task"], told["id"]) == ("fresh", job.id)


def hold_back(raw: Any, job: qdeck.Job) -> bool:
    """Make a job that waits for a worker that has its task due an hour later; return whether it waits."""
    with raw.pipeline(transaction=True) as both:
        for name in ("delayed", "unknown_tasks"):
            both.zadd(keys.key(QUEUE, name), {job.id: 3_600_000}, xx=True, incr=True)
        return both.execute()[0] is not None


def test_a_worker_that_joins_gets_it_at_once(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    old = start()
    jobs = [newer.tasks["fresh"].enqueue(i) for i in range(30)]
    wait_until(lambda: parked(raw) == 30)
    assert all(hold_back(raw, job) for job in jobs)
    start(newer)
    assert [job.result(timeout=30) for job in jobs] == list(range(30))
    assert parked(raw) == 0
    assert raw.hget(keys.key(QUEUE, "meta"), "unknown_tasks") is None
    assert len(old.told("unknown_task")) <= 2, "a worker refuses a task once, and is given no more of it"


def test_a_worker_that_waited_already_gets_it_at_once(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside], idle: Callable[[int], None]
) -> None:
    """Idle workers wait in a row; the wake-up for the job may reach those first that do not know it."""
    others = [start(qdeck.App(str(app.endpoint.url), queue=QUEUE), queues={QUEUE: 1}) for _ in range(3)]
    knows = start(newer)
    idle(4)
    for number in range(20):
        job = newer.tasks["fresh"].enqueue(number)
        wait_until(lambda: hold_back(raw, job) or job.state() == "done")  # noqa: B023 - called at once
        assert job.result(timeout=30) == number
    assert knows.worker.describe()["done"] == 20
    assert sum(len(one.told("unknown_task")) for one in others) <= 20


def test_what_the_worker_knows_runs_on_beside_many_that_it_does_not_know(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    @app.task
    def steady(number: int) -> int:
        return number

    strange = newer.enqueue_many([newer.tasks["fresh"].call(i) for i in range(500)])
    known = app.enqueue_many([steady.call(i) for i in range(20)])
    start(concurrency=2)
    assert [job.result(timeout=20) for job in known] == list(range(20))
    wait_until(lambda: parked(raw) == 500)
    assert {job.state() for job in strange} == {"delayed"}


def test_a_failure_handler_that_is_not_known(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    seen: list[str] = []

    @newer.task
    def mend(failure: qdeck.Failure) -> None:
        seen.append(failure.id)

    @newer.task(retries=0, on_failure=mend)
    def breaks() -> None:
        raise ValueError

    @app.task(name="breaks", retries=0)
    def old_breaks() -> None:
        raise ValueError

    job = newer.tasks["breaks"].enqueue()
    start()
    wait_until(lambda: job.state() == "dead" and parked(raw) == 1)
    start(newer)
    wait_until(lambda: seen == [job.id])


def test_a_handler_that_itself_asks_for_an_unknown_task_fails(
    app: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    @app.task(retries=0)
    def asks() -> None:
        app.enqueue("nothing")

    job = asks.enqueue()
    start()
    wait_until(lambda: job.state() == "dead")
    assert events_of(raw, job)[-1].data["class"] == "UnknownTask"


def test_a_cancel_reaches_a_job_that_was_handed_back(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    job = newer.tasks["fresh"].enqueue(1)
    start()
    wait_until(lambda: parked(raw) == 1)
    job.cancel()
    wait_until(lambda: job.state() == "cancelled" and parked(raw) == 0)


def test_workers_register_what_they_know(newer: qdeck.App, raw: Any, start: Callable[..., Beside]) -> None:
    beside = start(newer)
    wait_until(lambda: raw.hget(keys.TASKS, beside.worker.id))
    assert codec.decode_json(raw.hget(keys.TASKS, beside.worker.id)) == ["fresh"]
    beside.end()
    assert not raw.hexists(keys.TASKS, beside.worker.id)


def health(app: qdeck.App) -> Any:
    from qdeck.admin import Writer

    with Writer(str(app.endpoint.url)) as writer:
        return writer.snapshot()


def test_health_names_the_task_until_a_worker_knows_it(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    start()
    newer.tasks["fresh"].enqueue(1)
    wait_until(lambda: parked(raw) == 1)
    texts = [reason.text for reason in health(app).findings]
    assert f"no worker has task fresh, 1 job of {QUEUE} waiting" in texts
    start(newer)
    wait_until(lambda: parked(raw) == 0)
    assert not [reason for reason in health(app).findings if "knows task" in reason.text]


def test_a_process_that_does_not_know_it(
    newer: qdeck.App, url: str, raw: Any, start: Callable[..., Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The children import the files of now, which may be older or newer than those of their worker."""
    monkeypatch.setenv("QDECK_URL", url)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    @newer.task(process=True, retries=0)
    def only_here() -> None: ...

    @newer.task(process=True, retries=0)
    def pid() -> None: ...

    job = only_here.enqueue()
    start(newer, app_ref="core._worker.process_jobs:app", processes=1)
    wait_until(lambda: parked(raw) == 1)
    due = raw.zscore(keys.key(QUEUE, "delayed"), job.id)
    other = newer.tasks["pid"].enqueue()
    wait_until(lambda: other.state() == "done")
    assert raw.zscore(keys.key(QUEUE, "delayed"), job.id) == due, "its worker took it again"
    assert not raw.hexists(keys.key(QUEUE, "attempts"), job.id)


def test_the_command_stuck_and_the_page_of_the_job_say_why(
    app: qdeck.App, newer: qdeck.App, raw: Any, start: Callable[..., Beside]
) -> None:
    from qdeck.admin import Writer
    from qdeck_console.presenters.job_detail import job_lines

    old = start()
    job = newer.tasks["fresh"].enqueue(1)
    wait_until(lambda: parked(raw) == 1)
    with Writer(str(app.endpoint.url)) as writer:
        [found] = writer.stuck(())
        seen = writer.job(QUEUE, job.id)
    assert (found.id, found.why.code, found.worker, found.task) == (
        job.id, "unknown_task", old.worker.id, "fresh"
    )  # fmt: skip
    text = "\n".join("".join(part for part, _ in line) for line in job_lines(seen, 100, now_ms=0, naming=PLAIN))
    assert "has task fresh" in text
    assert f"returned: {old.worker.id} does not have its task" in text
