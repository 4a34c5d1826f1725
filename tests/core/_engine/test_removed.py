"""An enqueue that is sent again finds the id of a job that was removed meanwhile, for `RESEND_MS` and from wherever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._engine.harness import OTHER
from core._engine.model_jobs import RESEND_MS
from qdeck._engine import batch_transitions, keys, programs

if TYPE_CHECKING:
    from core._engine.harness import Rig
    from qdeck.admin import NewJob


def bring(rig: Rig, job: NewJob, state: str) -> None:
    """Makes a job and brings it into a state."""
    rig.enqueue(job)
    if state in ("done", "dead"):
        [claimed] = rig.claim()
        rig.ack(claimed) if state == "done" else rig.bury(claimed)
    elif state == "cancelled":
        rig.change("cancel", job.id)


def is_made(rig: Rig, job: NewJob, queue: str = "") -> bool:
    return rig.enqueue(job, queue=queue)[0].created


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("state", ["ready", "delayed", "done", "dead", "cancelled"])
def test_after_a_discard(rig: Rig, state: str, linked: bool) -> None:
    rig.add("other", priority=899, delay_ms=10**9)
    job = rig.job("a", delay_ms=50 if state == "delayed" else None, due_ms=rig.now if linked else None)
    bring(rig, job, state)
    rig.tick(100)
    assert rig.act("discard", state, "a").skipped == []
    assert rig.state("a") == "gone"
    rig.tick(RESEND_MS - 1)
    assert not is_made(rig, job)
    assert not is_made(rig, rig.job("a"))
    assert [one.created for one in rig.enqueue(rig.job("a"), rig.job("b"))] == [False, True], "also in a batch"
    rig.tick(1)
    assert is_made(rig, job), "the time is over: the id may be used again"


def test_after_a_discard_by_the_application(rig: Rig) -> None:
    """Without a plan."""
    job = rig.job("a")
    bring(rig, job, "done")
    assert rig.change("discard", "a") == ["ok"]
    assert not is_made(rig, job)


def test_after_a_dead_letter_was_dropped(rig: Rig) -> None:
    rig.configure(dead_max="0")
    job = rig.job("a")
    bring(rig, job, "dead")
    rig.tick(5)
    assert (rig.trim(), rig.state("a")) == (1, "gone")
    rig.tick(RESEND_MS - 1)
    assert not is_made(rig, job)


def test_after_a_move(loose_rig: Rig) -> None:
    """The same id is not in two queues."""
    rig = loose_rig  # a job that was moved away is not counted as gone
    job = rig.job("a")
    bring(rig, job, "ready")
    rig.act("move", "ready", "a", extra=OTHER)
    assert not is_made(rig, job), "on its way"
    rig.queues.add(OTHER)
    rig.deliver()
    assert not is_made(rig, job)
    assert rig.state("a", OTHER) == "ready"
    rig.tick(RESEND_MS - 1)
    assert not is_made(rig, job)


def test_a_move_there_and_back_within_the_time(loose_rig: Rig) -> None:
    rig = loose_rig
    job = rig.job("a")
    bring(rig, job, "ready")
    rig.queues.add(OTHER)
    for _ in range(3):
        rig.act("move", "ready", "a", extra=OTHER)
        rig.deliver()
        assert rig.state("a", OTHER) == "ready"
        rig.act("move", "ready", "a", queue=OTHER, extra=rig.queue)
        rig.deliver(OTHER)
        assert rig.state("a") == "ready"
    assert not is_made(rig, job)
    assert not is_made(rig, job, OTHER)
    assert rig.picture().zsets["removed"] == [], "it is here"
    assert [job_id for job_id, _ in rig.picture(OTHER).zsets["removed"]] == ["a"]


def test_undo_of_a_discard_takes_the_id_off_the_list(rig: Rig) -> None:
    job = rig.job("a")
    bring(rig, job, "dead")
    rig.act("discard", "dead", "a", batch="b")
    assert rig.picture().zsets["removed"] == [("a", float(rig.now))]
    assert rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now)).restored == 1
    assert rig.state("a") == "dead"
    assert rig.picture().zsets["removed"] == []
    assert not is_made(rig, job)


def test_ids_of_old_jobs_take_no_memory(rig: Rig) -> None:
    """For a job that was made long ago no call is sent again: a purge of a million keeps no id of them."""
    ids = [one.id for one in rig.enqueue(*(rig.job() for _ in range(100)))]
    rig.tick(RESEND_MS + 1)
    rig.act("discard", "ready", *ids)
    assert rig.picture().zsets["removed"] == []
    assert rig.total("discarded") == 100


def test_ids_are_dropped_when_the_time_is_over(rig: Rig) -> None:
    for n in range(450):
        rig.raw.zadd(keys.key(rig.queue, "removed"), {f"old{n}": rig.now - RESEND_MS})
    rig.raw.zadd(keys.key(rig.queue, "removed"), {"new": rig.now - RESEND_MS + 1})
    rig.add("a")
    rig.act("discard", "ready", "a")
    assert len(rig.picture().zsets["removed"]) == 450 - 201 + 2, "some by each discard"
    assert rig.trim() == 200
    assert rig.trim() == 49
    assert [job_id for job_id, _ in rig.picture().zsets["removed"]] == ["new", "a"]


def test_what_is_known_of_removed_jobs_is_no_job(rig: Rig) -> None:
    rig.add("a")
    rig.change("discard", "a")
    assert rig.run(programs.exists(rig.queue, ["a"])) == [False]
