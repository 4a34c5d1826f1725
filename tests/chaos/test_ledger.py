"""The books have teeth: each kind of fault that the chaos tests look for is found when it is made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chaos.jobs import NOTES, QUEUE
from qdeck._engine import keys

if TYPE_CHECKING:
    from chaos.fleet import Fleet


def _note(fleet: Fleet, kind: str, job: str, pid: int) -> None:
    fields: dict[Any, Any] = {
        "kind": kind,
        "id": job,
        "worker": f"host.{pid}.abc",
        "pid": pid,
        "attempt": 1,
        "word": "",
    }
    fleet.books.notebook.xadd(NOTES, fields)


@pytest.fixture
def job(fleet: Fleet) -> str:
    """A job that a worker ran."""
    made = fleet.add("aquick")[0]
    worker = fleet.start()
    fleet.books.drain()
    assert fleet.books.check().runs == 1
    fleet.kill(worker)
    fleet.books.killed.clear()
    return made


def test_finds_a_lost_job(fleet: Fleet, job: str) -> None:
    fleet.books.submitted["never-made"] = "done"
    with pytest.raises(AssertionError, match="1 jobs are lost"):
        fleet.books.check()


def test_finds_a_job_too_many(fleet: Fleet, job: str) -> None:
    del fleet.books.submitted[job]
    with pytest.raises(AssertionError, match="nobody submitted"):
        fleet.books.check()


def test_finds_a_job_in_two_states(fleet: Fleet, job: str) -> None:
    fleet.books.raw.zadd(keys.key(QUEUE, "dead"), {job: 1})
    with pytest.raises(AssertionError, match="in two states"):
        fleet.books.check()


def test_finds_another_end(fleet: Fleet, job: str) -> None:
    fleet.books.submitted[job] = "dead"
    with pytest.raises(AssertionError, match="ended otherwise"):
        fleet.books.check()


def test_finds_a_second_run(fleet: Fleet, job: str) -> None:
    _note(fleet, "start", job, 42)
    with pytest.raises(AssertionError, match="ran again while their worker lived"):
        fleet.books.check()


def test_finds_two_runs_at_once(fleet: Fleet) -> None:
    for pid in (41, 42):
        _note(fleet, "start", "some-job", pid)
    assert fleet.books.tale().at_once == ["some-job"]
    fleet.books.killed = {41}
    tale = fleet.books.tale()
    assert (tale.at_once, tale.double, tale.reruns) == ([], [], 1)


def test_finds_a_crash_of_a_living_worker(fleet: Fleet, job: str) -> None:
    event = b'1 crashed {"worker":"host.42.abc","crashes":1}'
    fleet.books.raw.hset(keys.key(QUEUE, "error"), job, event)
    with pytest.raises(AssertionError, match="were killed"):
        fleet.books.check()
