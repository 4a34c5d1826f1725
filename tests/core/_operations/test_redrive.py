"""A redrive goes back slowly, a few first, and stops by itself when they die again; and tells what became of them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from core._operations.yard import QUEUE, Yard
from qdeck._operations import redrive
from qdeck.admin import Outcomes, Stop, StopCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qdeck._engine.transitions import ClaimedJob
    from qdeck.admin import Writer


@pytest.fixture
def work(url: str, yard: Yard) -> Iterator[Callable[[Callable[[ClaimedJob], str]], None]]:
    """Starts a worker that ends each job as it is told."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def start(kind: Callable[[ClaimedJob], str]) -> None:
        other = Yard(url, yard.raw)

        def run() -> None:
            while not over.wait(0.01):
                for job in other.claim(50):
                    other.end(job, kind(job))

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    over.set()
    for thread in threads:
        thread.join()


def test_it_stops_when_the_first_ones_die_again(writer: Writer, yard: Yard, work: Callable[..., None]) -> None:
    yard.bulk_dead(500)
    work(lambda _: "failed")
    plan = writer.plan("retry", QUEUE)
    result, outcomes = writer.redrive(plan, rate=1000.0, sample=5)
    assert result.applied == 5
    assert result.stopped == Stop(code=StopCode.DIED_AGAIN, count=5, ended=5, left=495, is_sample=True)
    assert str(result.stopped) == "5 of 5 sampled jobs died again; 495 not retried"
    assert outcomes == Outcomes(total=5, dead_again=5)
    assert len(yard.ids("dead")) == 500


def test_it_stops_on_the_way(writer: Writer, yard: Yard, work: Callable[..., None]) -> None:
    """The first ones fare well, then the service that they call goes down."""
    yard.bulk_dead(5000)
    ended: list[str] = []

    def kind(job: ClaimedJob) -> str:
        ended.append(job.id)
        return "done" if len(ended) <= 100 else "failed"

    work(kind)
    plan = writer.plan("retry", QUEUE)
    result, outcomes = writer.redrive(plan, rate=500.0, sample=10)
    assert 10 < result.applied < 5000
    assert "died again" in str(result.stopped)
    assert result.stopped is not None
    assert result.stopped.left == plan.count - result.applied
    assert outcomes.dead_again > outcomes.total / 10
    assert [entry.outcome for entry in writer.activity()] == ["stopped"]


def test_all_goes_well(writer: Writer, yard: Yard, work: Callable[..., None]) -> None:
    yard.bulk_dead(300)
    work(lambda _: "done")
    result, outcomes = writer.redrive(writer.plan("retry", QUEUE), rate=1000.0, sample=3)
    assert (result.applied, result.stopped, result.error) == (300, None, None)
    assert outcomes.total == 300
    assert outcomes.dead_again == 0


def test_it_keeps_to_the_rate(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(150)
    start = time.monotonic()
    result, _ = writer.redrive(writer.plan("retry", QUEUE), rate=100.0)
    assert result.applied == 150
    assert 1.0 < time.monotonic() - start < 12


def test_nobody_works(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(10)
    plan = writer.plan("retry", QUEUE)
    result, outcomes = writer.redrive(plan, sample=3, patience_s=0.2)
    assert (result.applied, outcomes.waiting) == (3, 3)
    assert "check that a worker runs" in str(result.stopped)
    assert redrive.ENOUGH > 3


def test_what_became_of_them(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(6)
    plan = writer.plan("retry", QUEUE, ids=yard.ids("dead")[:5])
    writer.apply(plan)
    held = yard.claim(3)
    yard.end(held[0], "done")
    yard.end(held[1])
    outcomes = writer.outcomes(plan)
    assert (outcomes.total, outcomes.done, outcomes.dead_again, outcomes.running, outcomes.waiting) == (5, 1, 1, 1, 2)
    writer.undo()
    assert writer.outcomes(plan).total == 3, "what was put back is as if it had not been touched"


def test_what_the_first_ones_died_of_is_told_without_its_secrets(writer: Writer, yard: Yard) -> None:
    yard.die()
    plan = writer.plan("retry", QUEUE)
    writer.apply(plan)
    [job] = yard.claim()
    yard.end(job, message="refused, token=abc123")
    [one] = writer.sample_outcomes(plan, 5)
    assert (one.outcome, one.error, one.message) == ("dead_again", "pkg.TimeoutError", "refused, token=***")
