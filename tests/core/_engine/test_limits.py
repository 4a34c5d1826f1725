"""Pause, concurrency limit and rate limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdeck._engine import transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig


def fill(rig: Rig, count: int) -> None:
    rig.enqueue(*(rig.job() for _ in range(count)))


def test_a_paused_queue_starts_nothing_and_finishes_what_runs(rig: Rig) -> None:
    fill(rig, 3)
    job = rig.claim_one()
    rig.configure(paused="1")
    rig.rings()
    assert rig.claim(5) == []
    assert rig.ack(job).refused == []
    assert not rig.rings(), "nobody is woken in vain"
    rig.add()
    rig.rings()
    rig.configure(paused="")
    assert rig.rings(), "somebody is woken when it goes on"
    assert len(rig.claim(5)) == 3


def test_a_paused_queue_still_puts_due_jobs_in_order(rig: Rig) -> None:
    rig.configure(paused="1")
    rig.add(delay_ms=5)
    rig.tick(5)
    assert rig.poll(free_slots=1).due_ms == 0
    assert rig.sizes() == {"ready": 1}


def test_a_concurrency_limit_holds_over_all_workers(rig: Rig) -> None:
    rig.configure(limit="3")
    fill(rig, 6)
    held = rig.claim(2, "w1") + rig.claim(5, "w2")
    assert len(held) == 3
    rig.rings()
    assert rig.claim(1, "w3") == []
    assert not rig.rings(), "nobody is woken in vain"
    rig.ack(held[0])
    assert rig.rings(), "there is room again"
    assert len(rig.claim(5, "w3")) == 1
    rig.configure(limit="1")
    assert rig.claim(5) == []
    rig.configure(limit="")
    assert len(rig.claim(5)) == 2


def test_a_rate_limit_gives_so_many_at_once_and_then_as_time_goes(rig: Rig) -> None:
    rig.configure(rate="4 1000")
    fill(rig, 10)
    first = rig.poll(free_slots=10)
    assert (len(first.jobs), first.wait_ms) == (4, 250)
    rig.tick(249)
    assert (len(rig.claim(10)), rig.poll(free_slots=10).wait_ms) == (0, 1)
    rig.tick()
    again = rig.poll(free_slots=10)
    assert (len(again.jobs), again.wait_ms) == (1, 250)
    rig.tick(60_000)
    assert len(rig.claim(10)) == 4, "what was not used does not pile up"


def test_a_rate_limit_does_not_ring_before_its_time(rig: Rig) -> None:
    rig.configure(rate="1 1000")
    fill(rig, 3)
    rig.claim(5)
    rig.rings()
    assert rig.claim(5) == []
    assert not rig.rings()
    rig.configure(rate="")
    assert len(rig.claim(5)) == 2


def test_a_claim_within_the_rate_does_not_wait(rig: Rig) -> None:
    rig.configure(rate="100 1000")
    fill(rig, 3)
    assert rig.poll(free_slots=2).wait_ms == 0
    assert rig.rings(), "one is left and may start"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    count=st.integers(1, 40),
    per_ms=st.integers(1, 5_000),
    steps=st.lists(st.tuples(st.integers(0, 700), st.integers(1, 30)), min_size=1, max_size=12),
)
def test_no_rate_is_ever_exceeded(rig: Rig, count: int, per_ms: int, steps: list[tuple[int, int]]) -> None:
    """In no window of the period do more start than twice the count, and a fresh bucket gives exactly the count."""
    rig.raw.flushall()
    rig.configure(rate=f"{count} {per_ms}")
    fill(rig, 400)
    singles = sum(len(rig.claim(1)) for _ in range(count + 3))
    assert singles == count
    start, started = rig.now, singles
    for ms, free_slots in steps:
        rig.tick(ms)
        reply = rig.poll(free_slots=free_slots)
        started += len(reply.jobs)
        assert started <= count + (rig.now - start) * count / per_ms + 0.01 * count
        if len(reply.jobs) < free_slots and rig.sizes().get("ready"):
            assert reply.wait_ms > 0
            rig.tick(reply.wait_ms)
            got = len(rig.claim(1))
            assert got == 1, "the wait that was told is enough"
            started += got


def test_a_turn_is_bounded_before_it_pops(rig: Rig) -> None:
    """A room over what `unpack` takes must not lose what was popped."""
    for _ in range(10):
        fill(rig, 500)
    assert len(rig.claim(5_000)) == 500
    assert rig.sizes() == {"ready": 4_500, "running": 500}


def test_a_turn_with_too_many_endings_is_refused_whole(rig: Rig) -> None:
    for _ in range(10):
        fill(rig, 500)
    jobs = [job for _ in range(10) for job in rig.claim(500)]
    before = rig.picture()
    with pytest.raises(ValueError, match="POLL"):
        rig.ack(*jobs)
    assert rig.picture() == before
    assert rig.ack(*jobs[:3_000]).refused == []
    assert rig.sizes() == {"done": 3_000, "running": 2_000}


def test_the_largest_slices_fit(rig: Rig) -> None:
    """500 of each kind in one call: no limit of `unpack` is near."""
    parents = [rig.add(priority=0) for _ in range(3)]
    rig.enqueue(*(rig.job(unique=f"n{n}", after=parents, on_failure="mend", tags=("a",)) for n in range(500)))
    rig.ack(*rig.claim(3))
    while rig.deliver():
        pass
    jobs = rig.claim(500)
    assert len(jobs) == 500
    rig.call(transitions.renew_leases(rig.queue, [(job.id, job.token) for job in jobs], rig.now))
    endings = [transitions.Ending(kind="done", id=job.id, token=job.token, result=b"1", log=b"x") for job in jobs]
    assert rig.poll(endings=endings).refused == []
    assert rig.sizes() == {"done": 503}
    assert rig.picture().hashes["unique"] == {}
    assert rig.change("discard", *(job.id for job in jobs)) == ["ok"] * 500


@pytest.mark.parametrize("back_ms", [3_600_000, 1_000_000_000_000])
def test_a_clock_that_is_set_back_holds_a_rate_limited_queue_up_for_one_period(rig: Rig, back_ms: int) -> None:
    rig.configure(rate="4 1000")
    fill(rig, 10)
    assert len(rig.claim(10)) == 4
    rig.tick(-back_ms)
    reply = rig.poll(free_slots=10)
    assert (reply.jobs, reply.wait_ms) == ([], 250)
    rig.tick(reply.wait_ms)
    assert len(rig.claim(10)) == 1
    rig.tick(1_000)
    assert len(rig.claim(10)) == 4


def test_a_rate_that_was_slower_before_does_not_hold_the_queue_up(rig: Rig) -> None:
    rig.configure(rate="1 3600000")
    fill(rig, 3)
    assert len(rig.claim(3)) == 1
    rig.configure(rate="10 1000")
    reply = rig.poll(free_slots=3)
    assert (reply.jobs, reply.wait_ms) == ([], 100)
    rig.tick(200)
    assert len(rig.claim(3)) == 2
