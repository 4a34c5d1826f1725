"""What commands say of a missing option, a plan, an undo that restores nothing, and a name that is not one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from core._operations.yard import QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)


def test_a_move_names_its_queue(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.add()
    ran = qdeck("jobs", "move", QUEUE, "--dry-run")
    assert ran.code == 64
    assert "--to is missing: name the queue to move the jobs to" in ran.err
    assert "[required]" in qdeck("jobs", "move", "--help").out


@pytest.mark.parametrize(
    ("given", "told"),
    [("5", "5/s (about 6s)"), ("5/s", "5/s (about 6s)"), ("300/m", "5/s (about 6s)"), ("6/h", "6/h (about 5h 00m)")],
)
def test_a_plan_has_the_rate_and_the_command_that_applies_it(
    qdeck: Callable[..., Ran], yard: Yard, own_state: Path, given: str, told: str
) -> None:
    yard.bulk_dead(30)
    ran = qdeck("dead", "retry", QUEUE, "--rate", given, "--dry-run")
    assert f"would retry 30 jobs from {QUEUE} at {told}" in ran.out
    rate = told.partition(" ")[0]
    [plan] = (own_state / "qdeck" / "plans").glob("*.jsonl")
    assert f"to apply it: qdeck dead retry --apply {plan.stem} --rate {rate} (valid until " in ran.out


def test_an_undo_of_jobs_that_are_dead_again_restores_nothing(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(2)
    assert qdeck("dead", "retry", QUEUE, "--yes").code == 0
    first, second = yard.claim(2)
    yard.end(first, "failed")
    assert "restores up to 0 jobs" not in qdeck("undo", "--dry-run").out
    yard.end(second, "failed")
    shown = qdeck("undo", "--dry-run")
    assert "nothing to undo: the 2 jobs are dead letters again" in shown.out
    assert "restores" not in shown.out
    assert qdeck("undo", "--yes").err.count("it has died since") == 2


def test_a_retry_whose_jobs_died_again_offers_no_undo(qdeck: Callable[..., Ran], yard: Yard) -> None:
    yard.bulk_dead(2)
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.01):
            for job in yard.claim(2):
                yard.end(job, "failed")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        ran = qdeck("dead", "retry", QUEUE, "--yes", "--sample", "2", "--rate", "50/s")
    finally:
        over.set()
        worker.join()
    assert "the 2 jobs are dead letters again" in ran.out
    assert "undoes" not in ran.out
    assert "stopped: 2 of 2 sampled jobs died again" in ran.err


def test_a_url_without_a_scheme_is_told_so(qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("status", "--url", "localhost")
    assert ran.code == 64
    assert "has no scheme such as redis://" in ran.err


def test_a_refused_connection_is_said_in_two_words(qdeck: Callable[..., Ran]) -> None:
    ran = qdeck("status", "--url", "redis://127.0.0.1:1")
    assert ran.code == 69
    assert "cannot be reached: connection refused" in ran.err
    assert ran.err.count("127.0.0.1:1") == 1
