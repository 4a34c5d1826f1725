"""Which job comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys, transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig

CRITICAL, HIGH, NORMAL, LOW = 0, 50, 100, 200
HOUR_MS = 3_600_000


def test_critical_comes_before_low(rig: Rig) -> None:
    """The scheduler page's own example: both enqueued at the same moment, CRITICAL is processed first."""
    rig.add("a-low", priority=LOW)
    rig.add("b-normal", priority=NORMAL)
    rig.add("c-high", priority=HIGH)
    rig.add("d-critical", priority=CRITICAL)
    assert [job.id for job in rig.claim(10)] == ["d-critical", "c-high", "b-normal", "a-low"]


def test_a_low_job_an_hour_old_waits_for_a_fresh_critical_one(rig: Rig) -> None:
    rig.add("old-low", priority=LOW)
    rig.add("old-delayed-low", priority=LOW, delay_ms=5)
    rig.tick(HOUR_MS)
    rig.add("fresh-critical", priority=CRITICAL)
    assert [job.id for job in rig.claim(10)] == ["fresh-critical", "old-low", "old-delayed-low"]


@pytest.mark.parametrize(("first", "second"), [(0, 1), (99, 100), (898, 899)])
def test_one_step_of_priority_outweighs_any_age(rig: Rig, first: int, second: int) -> None:
    rig.add("patient", priority=second)
    rig.tick(20 * 365 * 24 * HOUR_MS)
    rig.add("sooner", priority=first)
    assert [job.id for job in rig.claim(10)] == ["sooner", "patient"]


def test_first_in_first_out_within_a_millisecond(rig: Rig) -> None:
    made = [rig.add() for _ in range(50)]
    made += [one.id for one in rig.enqueue(*(rig.job() for _ in range(50)))]
    assert [job.id for job in rig.claim(30)] == made[:30]
    assert [job.id for job in rig.claim(100)] == made[30:]


@pytest.mark.parametrize("priority", [0, 100, 899])
def test_first_in_first_out_over_milliseconds(rig: Rig, priority: int) -> None:
    """Also when the ids say otherwise: the server's time decides, ids only break ties."""
    for job_id in ("z", "y", "x"):
        rig.add(job_id, priority=priority)
        rig.tick()
    assert [job.id for job in rig.claim(3)] == ["z", "y", "x"]


def test_a_due_job_takes_the_place_of_its_due_time(rig: Rig) -> None:
    rig.add("due-in-10", delay_ms=10)
    rig.tick(5)
    rig.add("at-5")
    rig.tick(10)
    rig.add("at-15")
    assert [job.id for job in rig.claim(3)] == ["at-5", "due-in-10", "at-15"]


def test_a_delay_of_nothing_and_a_past_time_mean_now(rig: Rig) -> None:
    rig.add("a", delay_ms=0)
    rig.add("b", due_ms=rig.now - HOUR_MS)
    rig.add("c")
    assert [job.id for job in rig.claim(3)] == ["a", "b", "c"]


def test_a_job_is_due_at_its_millisecond_and_not_before(rig: Rig) -> None:
    rig.add("later", due_ms=rig.now + 100)
    rig.tick(99)
    reply = rig.poll(free_slots=5)
    assert (reply.jobs, reply.due_ms) == ([], rig.now + 1)
    rig.tick()
    assert [job.id for job in rig.claim(5)] == ["later"]


def test_ten_thousand_jobs_due_in_the_same_millisecond(rig: Rig) -> None:
    """All are promoted, each once, in order (reliability 12 and 13)."""
    due = rig.now + 1_000
    jobs = [rig.job(due_ms=due) for _ in range(10_000)]
    for at in range(0, len(jobs), transitions.SLICE):
        rig.enqueue(*jobs[at : at + transitions.SLICE])
    rig.tick(1_000)
    claimed: list[str] = []
    while (got := rig.claim(200)) or rig.sizes().keys() & {"ready", "delayed"}:
        claimed += [job.id for job in got]
        if len(claimed) == 5_000:
            rig.change("cancel", jobs[7_777].id)
    assert claimed == [job.id for i, job in enumerate(jobs) if i != 7_777]
    assert rig.sizes() == {"running": 9_999, "cancelled": 1}


def test_promotion_takes_a_bounded_slice(rig: Rig) -> None:
    for _ in range(5):
        rig.enqueue(*(rig.job(delay_ms=1) for _ in range(250)))
    rig.tick()
    reply = rig.poll(free_slots=1)
    assert (reply.jobs, reply.due_ms) == ([], rig.now), (
        "what is due and not in order yet may come first: ask again at once"
    )
    assert rig.sizes() == {"ready": 1_000, "delayed": 250}
    rig.claim(1)
    assert rig.sizes() == {"running": 1, "ready": 1_249}


def test_a_critical_job_does_not_wait_behind_thousands_of_due_ones(rig: Rig) -> None:
    for _ in range(0, 20_000, transitions.SLICE):
        rig.enqueue(*(rig.job(priority=LOW, delay_ms=5) for _ in range(transitions.SLICE)))
    rig.add("critical", priority=CRITICAL, delay_ms=6)
    rig.tick(10)
    first: list[str] = []
    for _ in range(30):
        first = first or [job.id for job in rig.claim(10)]
    assert first[:1] == ["critical"]


def test_a_ready_job_of_the_first_priority_does_not_wait_for_what_is_due(rig: Rig) -> None:
    for _ in range(3):
        rig.enqueue(*(rig.job(priority=LOW, delay_ms=5) for _ in range(transitions.SLICE)))
    rig.tick(10)
    rig.add("now", priority=CRITICAL)
    assert [job.id for job in rig.claim(10)] == ["now"]


def test_a_claim_is_bounded_by_bytes(rig: Rig) -> None:
    """The whole server waits for a call: jobs that do not fit into its answer stay where they are."""
    rig.add("small", priority=0)
    rig.enqueue(*(rig.job(f"large{n}", body=b"x" * 8_000_000) for n in range(6)))
    rig.tick(5)
    turns = [rig.poll(free_slots=50) for _ in range(7)]
    sizes = [[len(job.body) for job in reply.jobs] for reply in turns]
    assert max(sum(one) for one in sizes) <= 3 * 8_000_000
    assert max(sum(one) for one in sizes[1:]) == 8_000_000, "one that is larger than the bound goes alone"
    assert turns[0].due_ms == rig.now, "there is more: ask again at once"
    claimed = [job.id for reply in turns for job in reply.jobs]
    assert claimed == ["small", *(f"large{n}" for n in range(6))], "in order, each once"


def test_many_small_jobs_come_in_one_claim(rig: Rig) -> None:
    rig.enqueue(*(rig.job(body=b"x" * 4_000) for _ in range(500)))
    assert len(rig.claim(500)) == 500


def test_given_back_means_the_old_place(rig: Rig) -> None:
    first, second = rig.add(), rig.add(priority=899)
    rig.tick(10)
    held = rig.claim(2)
    rig.add()
    rig.add(priority=899)
    for job in held:
        rig.end(job, "give")
    assert rig.claim_one().id == first
    assert [job.id for job in rig.claim(9)][1] == second
    assert (rig.attempts(first).failed, rig.total("failed"), rig.events(first)) == (0, 0, [])


def test_a_retry_goes_behind_its_equals(rig: Rig) -> None:
    rig.add("a", retries=1)
    rig.add("b")
    rig.tick()
    rig.end(rig.claim_one(), delay_ms=0)
    assert [job.id for job in rig.claim(5)] == ["b", "a"]


def test_reprioritise_keeps_the_time(rig: Rig) -> None:
    rig.add("x", priority=LOW)
    rig.tick()
    rig.add("y", priority=HIGH)
    rig.add("later", delay_ms=5)
    rig.add("child", after=["y"], priority=LOW)
    assert rig.change("reprioritise", "x", "later", "child", "nobody", priority=HIGH) == ["ok", "ok", "ok", "gone"]
    assert rig.head("x").priority == rig.head("child").priority == HIGH
    rig.tick(5)
    assert [job.id for job in rig.claim(5)] == ["x", "y", "later"]
    assert rig.change("reprioritise", "x", priority=LOW) == ["wrong_state running"]


def test_run_now(rig: Rig) -> None:
    rig.add("ready")
    rig.add("later", delay_ms=HOUR_MS)
    rig.rings()
    assert rig.change("run", "later", "ready", "nobody") == ["ok", "wrong_state ready", "gone"]
    assert rig.rings()
    assert [job.id for job in rig.claim(5)] == ["later", "ready"]


def test_a_change_skips_what_was_seen_in_another_state(rig: Rig) -> None:
    rig.add("a")
    assert rig.change("cancel", "a", seen="delayed") == ["moved ready"]
    assert rig.change("cancel", "a", seen="ready", event=b'{"by":"me"}') == ["ok"]
    assert rig.change("cancel", "a") == ["wrong_state cancelled"]
    assert [(event.kind, event.data) for event in rig.events("a")] == [("cancelled", {"by": "me"})]
    assert rig.change("discard", "a") == ["ok"]
    assert rig.state("a") == "gone"
    assert (rig.total("cancelled"), rig.total("discarded")) == (1, 1)


def test_the_bell_has_one_token_and_rings_for_work(rig: Rig) -> None:
    rig.add()
    rig.add()
    assert rig.rings()
    assert not rig.rings()
    rig.claim(1)
    assert rig.rings(), "a full claim leaves work: the next worker is woken"
    rig.claim(1)
    assert not rig.rings(), "no work is left"
    rig.add(delay_ms=50)
    assert rig.rings(), "a new first due time has to be told"
    rig.add(delay_ms=90)
    assert not rig.rings(), "a later one has not"
    rig.add(after=[rig.add("p", delay_ms=10)])
    rig.rings()
    rig.tick(10)
    parent = rig.claim_one()
    rig.ack(parent)
    assert rig.rings(), "the dependent is ready"


def test_the_bell_rings_again_after_a_worker_died_with_its_token(rig: Rig) -> None:
    rig.add()
    assert rig.rings()
    rig.reap()
    assert rig.rings()


@pytest.mark.parametrize("delay_ms", [None, 0])
def test_the_same_id_twice_in_one_call_is_one_job(rig: Rig, delay_ms: int | None) -> None:
    first, twin, other = (rig.job(job_id, delay_ms=delay_ms, body=job_id.encode()) for job_id in ("a", "a", "b"))
    assert [made.created for made in rig.enqueue(first, twin, other)] == [True, False, True]
    assert [job.id for job in rig.claim(5)] == ["a", "b"]
    assert rig.total("enqueued") == 2


def test_an_enqueue_of_known_jobs_does_not_ring(rig: Rig) -> None:
    one, two = rig.job(), rig.job(delay_ms=9)
    assert [made.created for made in rig.enqueue(one)] == [True]
    assert [made.created for made in rig.enqueue(two)] == [True]
    rig.rings()
    assert [made.created for made in rig.enqueue(one)] == [False]
    assert [made.created for made in rig.enqueue(two)] == [False]
    assert not rig.rings()
    assert rig.total("enqueued") == 2


def test_a_turn_tells_when_to_look_again(rig: Rig) -> None:
    assert (rig.poll(free_slots=1).due_ms, rig.poll(free_slots=1).deadline_ms) == (0, 0)
    rig.add()
    rig.add(delay_ms=70)
    full = rig.poll(free_slots=1, lease_ms=500)
    assert (full.due_ms, full.deadline_ms, len(full.jobs)) == (0, 0, 1)
    idle = rig.poll("w2", free_slots=1)
    assert (idle.due_ms, idle.deadline_ms, idle.outbox, idle.wait_ms) == (rig.now + 70, rig.now + 500, 0, 0)


def test_a_claim_brings_all_that_a_worker_needs(rig: Rig) -> None:
    rig.add("a", body=b"\x00\xff any bytes", retries=2, tags=("x", "y"), limit_ms=9)
    rig.end(rig.claim_one(), delay_ms=0)
    job = rig.claim_one()
    assert (job.id, job.body, job.attempts) == ("a", b"\x00\xff any bytes", b"1 0 0")
    assert job.head == rig.raw.hget(keys.key(rig.queue, "head"), "a")
