"""Who holds a job, and what becomes of it when its worker does not come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from core._engine.harness import LEASE_MS
from qdeck import LayoutMismatch
from qdeck._engine import codec, keys, programs, transitions

if TYPE_CHECKING:
    from core._engine.harness import Rig


def kinds(rig: Rig, job_id: str) -> list[str]:
    return [event.kind for event in rig.events(job_id)]


def test_an_expired_lease_is_warned_once_and_then_taken_back(rig: Rig) -> None:
    rig.add("a", priority=50)
    job = rig.claim_one()
    rig.tick(LEASE_MS)
    assert rig.reap().warned == 0, "not before its last millisecond is over"
    rig.tick()
    first = rig.reap()
    assert (first.warned, first.requeued, first.deadline_ms) == (1, 0, rig.now + LEASE_MS // 2)
    assert codec.read_lease(rig.field("lease", "a") or b"").expired_once
    rig.tick(LEASE_MS // 2)
    assert rig.reap().requeued == 0
    rig.tick()
    rig.rings()
    second = rig.reap()
    assert (second.warned, second.requeued, second.buried, second.deadline_ms) == (0, 1, 0, 0)
    assert rig.rings()
    assert rig.state("a") == "ready"
    assert rig.attempts("a") == codec.Attempts(0, 1, 0)
    assert [(event.kind, event.data) for event in rig.events("a")] == [("crashed", {"worker": "w1", "crashes": 1})]
    assert rig.total("crashed") == 1
    assert rig.ack(job).refused == ["a"]


def test_a_suspended_worker_renews_in_its_grace(rig: Rig) -> None:
    """A laptop that slept past the lease: no second run while the worker lives (reliability 48)."""
    rig.add("a")
    job = rig.claim_one()
    rig.tick(10 * LEASE_MS)
    assert rig.reap().warned == 1
    rig.tick(LEASE_MS // 2 - 1)
    assert rig.reap().requeued == 0
    assert (rig.beat(job).lost, rig.beat(job).cancels) == ([], [])
    assert not codec.read_lease(rig.field("lease", "a") or b"").expired_once
    rig.tick(LEASE_MS)
    assert rig.reap() == transitions.ReapReply(rig.now, 0, 0, 0, rig.now)
    assert rig.ack(job).refused == []
    assert (rig.state("a"), rig.attempts("a"), rig.total("crashed")) == ("done", codec.Attempts(), 0)


def test_a_job_may_end_in_its_grace(rig: Rig) -> None:
    rig.add("a")
    job = rig.claim_one()
    rig.tick(LEASE_MS + 1)
    rig.reap()
    assert rig.ack(job).refused == []
    assert rig.state("a") == "done"


@pytest.mark.parametrize("kind", ["done", "failed", "timeout", "crashed", "give", "cancelled"])
def test_a_worker_that_lost_its_lease_changes_nothing(rig: Rig, kind: str) -> None:
    """Fencing: the second holder alone decides, and the late end is counted (reliability 3)."""
    rig.add("a")
    late = rig.claim_one("w1")
    rig.crash()
    now = rig.claim_one("w2")
    before = rig.picture()
    assert rig.end(late, kind, result=b"1", log=b"late").refused == ["a"]
    assert rig.beat(late).lost == ["a"]
    after = rig.picture()
    assert after.zsets == before.zsets
    assert after.hashes["lease"] == before.hashes["lease"]
    assert (after.hashes["result"], after.hashes["log"]) == ({}, {})
    assert rig.total("refused") == 1
    assert rig.beat(now).lost == []
    assert rig.ack(now, worker="w2").refused == []
    assert rig.total("done") == 1


def test_tokens_of_the_same_worker_differ_by_turn(rig: Rig) -> None:
    """Turn 1 and turn 11 of one worker: the shorter token is no prefix of the longer one."""
    rig.add("a")
    job = rig.claim_one(number=11)
    assert job.token == "w1:11 "
    assert rig.beat(job._replace(token="w1:1 ")).lost == ["a"]
    assert rig.ack(job._replace(token="w1:1 "), number=12).refused == ["a"]


def test_a_heartbeat_renews_by_the_lease_of_the_job(rig: Rig) -> None:
    rig.add("own", lease_ms=60_000)
    rig.add("queue")
    held = rig.claim(2)
    leases = {job_id: codec.read_lease(raw).lease_ms for job_id, raw in rig.picture().hashes["lease"].items()}
    assert leases == {"own": 60_000, "queue": LEASE_MS}
    rig.tick(900)
    rig.beat(*held)
    assert dict(rig.picture().zsets["running"]) == {"own": rig.now + 60_000, "queue": rig.now + LEASE_MS}


def test_a_claim_sent_twice_is_one(rig: Rig) -> None:
    rig.enqueue(*(rig.job() for _ in range(5)))
    first = rig.poll(number=7, free_slots=2)
    again = rig.poll(number=7, free_slots=2)
    assert again.jobs == first.jobs
    assert len(first.jobs) == 2
    assert rig.sizes() == {"running": 2, "ready": 3}
    rig.ack(first.jobs[0], number=8)
    assert [job.id for job in rig.poll(number=8, free_slots=0).jobs] == []
    assert rig.total("done") == 1
    rig.ack(first.jobs[0], number=9)
    assert rig.poll(number=9).refused == [first.jobs[0].id]
    assert rig.total("refused") == 1


def test_a_claim_sent_twice_gives_only_what_is_still_held(rig: Rig) -> None:
    rig.enqueue(rig.job("a"), rig.job("b", lease_ms=60_000))
    rig.poll(number=7, free_slots=2)
    rig.crash()
    assert [job.id for job in rig.poll(number=7, free_slots=2).jobs] == ["b"]
    rig.claim_one("w2")
    assert [job.id for job in rig.poll(number=7, free_slots=2).jobs] == ["b"]


def test_a_turn_sent_again_after_the_sweep_is_still_known(rig: Rig) -> None:
    rig.enqueue(rig.job("a"), rig.job("b"))
    held = rig.poll(number=1, free_slots=1).jobs
    acks = [(held[0].id, held[0].token)]
    rig.poll(number=2, free_slots=1, acks=acks)
    rig.crash()
    assert rig.poll(number=2, free_slots=1, acks=acks).refused == []
    assert (rig.total("refused"), rig.state("b")) == (0, "ready")


def test_8001_expired_leases_and_eight_sweepers(rig: Rig) -> None:
    """Each crash is counted exactly once (reliability 10 and 13)."""
    count = 8_001
    for at in range(0, count, transitions.SLICE):
        rig.enqueue(*(rig.job() for _ in range(min(transitions.SLICE, count - at))))
    while rig.claim(500):
        pass
    assert rig.sizes() == {"running": count}

    def sweep(_: int) -> tuple[int, int]:
        warned = back = 0
        while True:
            done = rig.client.run(programs.call(transitions.reap(rig.queue, now=rig.now)))
            warned, back = warned + done.warned, back + done.requeued
            if not done.warned and not done.requeued:
                rig.client.close()
                return warned, back

    with ThreadPoolExecutor(8) as pool:
        rig.tick(LEASE_MS + 1)
        assert sum(warned for warned, _ in pool.map(sweep, range(8))) == count
        rig.tick(LEASE_MS)
        assert sum(back for _, back in pool.map(sweep, range(8))) == count
    assert rig.sizes() == {"ready": count}
    assert set(rig.picture().hashes["attempts"].values()) == {b"0 1 0"}
    assert rig.total("crashed") == count


def test_a_lease_deleted_by_hand(rig: Rig) -> None:
    """A job is never running for ever (reliability 8): one sweep after its deadline it is back, and blames nobody."""
    rig.add("a")
    rig.claim_one()
    rig.raw.hdel(keys.key(rig.queue, "lease"), "a")
    rig.tick(LEASE_MS + 1)
    assert rig.reap().requeued == 1
    assert (rig.state("a"), rig.attempts("a")) == ("ready", codec.Attempts())
    assert rig.rings()


def test_a_lease_without_its_place_in_running(rig: Rig) -> None:
    """The other half is missing: the next sweep puts it back, and the lease runs out as any other."""
    ids = [rig.add() for _ in range(3)]
    rig.claim(3)
    rig.raw.zrem(keys.key(rig.queue, "running"), *ids[:2])
    assert rig.reap().warned == 2
    assert rig.sizes() == {"running": 3}
    rig.tick(LEASE_MS // 2 + 1)
    rig.reap()
    assert rig.sizes() == {"running": 1, "ready": 2}


def test_many_leases_without_their_place_in_running(rig: Rig) -> None:
    for _ in range(6):
        rig.enqueue(*(rig.job(lease_ms=50) for _ in range(200)))
        rig.claim(200)
    rig.raw.delete(keys.key(rig.queue, "running"))
    warned = sum(rig.reap(500).warned for _ in range(40))
    assert warned == 1_200
    assert rig.sizes() == {"running": 1_200}


def test_a_poison_pill_dies_after_five_crashes_and_its_siblings_stay(rig: Rig) -> None:
    """Crashes are counted apart from attempts (reliability 6; asynq#1015)."""
    rig.add("poison", priority=0, retries=0, unique="pill")
    rig.enqueue(*(rig.job(priority=100) for _ in range(3)))
    siblings = rig.claim(4, "steady")
    poison = siblings.pop(0)
    rig.end(poison, "give", worker="steady")
    for life in range(5):
        assert rig.claim_one(f"w{life}").id == "poison"
        rig.tick(LEASE_MS + 1)
        rig.beat(*siblings)
        rig.reap()
        rig.tick(LEASE_MS // 2 + 1)
        rig.beat(*siblings)
        last = rig.reap()
    assert (last.requeued, last.buried) == (0, 1)
    assert rig.state("poison") == "dead"
    assert rig.attempts("poison") == codec.Attempts(failed=0, crashes=5, outages=0)
    assert kinds(rig, "poison") == ["crashed"] * 5
    assert rig.events("poison")[-1].data == {"worker": "w4", "crashes": 5}
    assert rig.picture().hashes["unique"] == {}
    assert (rig.total("crashed"), rig.total("dead"), rig.total("failed")) == (5, 1, 0)
    assert rig.ack(*siblings).refused == []


def test_a_crash_that_the_worker_tells_counts_the_same(rig: Rig) -> None:
    """A child process that died took only its own job with it."""
    rig.add("a", retries=9)
    for crashes in range(1, 6):
        rig.end(rig.claim_one(), "crashed", event=b'{"worker":"w1"}')
        assert rig.attempts("a") == codec.Attempts(0, crashes, 0)
    assert rig.state("a") == "dead"
    assert rig.total("crashed") == 5
    assert kinds(rig, "a") == ["crashed"] * 5


def test_a_crash_costs_no_attempt(rig: Rig) -> None:
    rig.add("a", retries=1)
    rig.claim_one()
    rig.crash()
    rig.end(rig.claim_one(), delay_ms=0)
    rig.claim_one()
    rig.crash()
    job = rig.claim_one()
    assert codec.read_attempts(job.attempts) == codec.Attempts(1, 2, 0)
    rig.end(job, delay_ms=0)
    assert (rig.state("a"), rig.attempts("a")) == ("dead", codec.Attempts(2, 2, 0))


def test_when_a_whole_fleet_dies_nobody_is_quarantined(rig: Rig) -> None:
    """Ten times over, more than the crash limit (reliability 7)."""
    ids = [rig.add() for _ in range(6)]
    for _ in range(10):
        for worker in ("w1", "w2", "w3"):
            rig.claim(2, worker)
        rig.crash()
        rig.tick(600_000)
    assert sum(rig.sizes().values()) == 6
    assert set(rig.sizes()) <= {"ready", "delayed"}
    assert {rig.attempts(job_id) for job_id in ids} == {codec.Attempts(0, 0, 10)}
    assert set(kinds(rig, ids[0])) == {"outage"}
    assert rig.total("dead") == 0


def test_two_poison_jobs_do_not_hide_behind_each_other(rig: Rig) -> None:
    """Each kills its worker at once; both at the same moment look like an outage, until they run apart."""
    rig.enqueue(rig.job("p1"), rig.job("p2"))
    killed = dict.fromkeys(("p1", "p2"), 0)
    for second in range(900):
        for job in rig.claim(1, f"w{second}a") + rig.claim(1, f"w{second}b"):
            killed[job.id] += 1
        rig.tick(1_000)
        rig.reap()
    assert rig.sizes() == {"dead": 2}
    assert max(killed.values()) <= 13, "8 outages, then 5 crashes of its own"


def test_outages_have_a_limit_of_their_own(rig: Rig) -> None:
    rig.add("a")
    rig.add("b")
    for _ in range(25):
        rig.claim(1, "w1")
        rig.claim(1, "w2")
        rig.crash()
        rig.tick(60_000)
    assert rig.sizes() == {"dead": 2}
    assert rig.attempts("a") == codec.Attempts(0, 0, 25)


@pytest.mark.parametrize(("dying", "living", "outage"), [(1, 0, False), (2, 2, True), (2, 3, False), (4, 3, True)])
def test_what_counts_as_an_outage(rig: Rig, dying: int, living: int, outage: bool) -> None:
    """At least half of what runs, under more than one worker."""
    for number in range(dying):
        rig.add(f"dying{number}")
        rig.claim_one(f"w{number}")
    alive = []
    for number in range(living):
        rig.add(f"living{number}")
        alive.append(rig.claim_one(f"v{number}"))
    for ms in (LEASE_MS + 1, LEASE_MS // 2 + 1):
        rig.tick(ms)
        rig.beat(*alive)
        rig.reap()
    expected = codec.Attempts(0, 0, 1) if outage else codec.Attempts(0, 1, 0)
    assert {rig.attempts(f"dying{number}") for number in range(dying)} == {expected}


def test_an_outage_with_long_leases(rig: Rig) -> None:
    """The grace is longer than an outage is remembered: it is seen anew when the jobs are taken back."""
    for worker in ("w1", "w2"):
        rig.add()
        rig.claim_one(worker, lease_ms=60_000)
    rig.crash(60_000)
    assert {codec.read_attempts(raw) for raw in rig.picture().hashes["attempts"].values()} == {codec.Attempts(0, 0, 1)}


def test_an_outage_is_seen_whoever_expired_last(rig: Rig) -> None:
    """One worker held the first of the overdue jobs, another the last twenty and more."""
    rig.add("first")
    rig.claim_one("w1")
    rig.tick()
    rig.enqueue(*(rig.job() for _ in range(30)))
    rig.claim(30, "w2")
    rig.crash()
    assert rig.attempts("first") == codec.Attempts(0, 0, 1)


def test_the_last_ones_of_an_outage_are_part_of_it(rig: Rig) -> None:
    """Sweeps take slices: when the most are back already, the rest is still the same outage, for ten seconds."""
    for worker in ("w1", "w2"):
        rig.enqueue(*(rig.job() for _ in range(10)))
        rig.claim(10, worker)
    rig.tick(LEASE_MS + 1)
    alive = []
    for _ in range(40):
        rig.add(lease_ms=100_000)
        alive.append(rig.claim_one("steady"))
    rig.raw.hset(keys.key(rig.queue, "meta"), "outage", rig.now + 10_000)
    while rig.reap(3).warned:
        pass
    rig.tick(LEASE_MS // 2 + 1)
    while rig.reap(3).requeued:
        pass
    counts = {codec.read_attempts(raw) for raw in rig.picture().hashes["attempts"].values()}
    assert counts == {codec.Attempts(0, 0, 1)}
    rig.ack(*alive, worker="steady")
    rig.claim(1, "w3")
    rig.tick(20_000)
    rig.reap()
    rig.tick(20_000)
    rig.reap()
    assert codec.Attempts(0, 1, 1) in {codec.read_attempts(raw) for raw in rig.picture().hashes["attempts"].values()}


@pytest.mark.parametrize("count", [1, 120])
def test_a_clock_that_is_set_back_does_not_keep_dead_workers_leases(rig: Rig, count: int) -> None:
    """Their deadlines are an hour ahead then; no lease ends later than its length from now."""
    rig.enqueue(*(rig.job() for _ in range(count)), rig.job("own", lease_ms=300_000))
    rig.claim(count + 1)
    rig.tick(-3_600_000)
    for _ in range(4):
        assert rig.poll(free_slots=0).deadline_ms <= rig.now + 60_000, "a worker looks again in a minute"
        assert rig.reap().deadline_ms <= rig.now + 60_000
    assert max(score for _, score in rig.picture().zsets["running"]) == rig.now + 300_000
    rig.crash()
    assert rig.sizes() == {"ready": count, "running": 1}


def test_a_deadline_that_never_comes_is_capped(rig: Rig) -> None:
    rig.add("a")
    rig.claim_one()
    rig.raw.zadd(keys.key(rig.queue, "running"), {"a": "inf"})
    rig.reap()
    rig.crash()
    assert rig.state("a") == "ready"


def test_an_outage_that_was_seen_before_the_clock_was_set_back_is_over(rig: Rig) -> None:
    rig.run(programs.make_queue(rig.queue))
    rig.raw.hset(keys.key(rig.queue, "meta"), "outage", rig.now + 3_600_000)
    rig.add("a")
    rig.add("b")
    rig.claim_one("w1", lease_ms=100_000)
    rig.claim_one("w2")
    rig.crash()
    assert rig.attempts("b") == codec.Attempts(0, 1, 0)


@pytest.mark.parametrize("state", ["delayed", "blocked"])
def test_a_due_time_that_never_comes_buries_the_job(rig: Rig, state: str) -> None:
    rig.add("parent", priority=899)
    rig.add("a", **({"delay_ms": 5} if state == "delayed" else {"after": ["parent"]}))
    rig.add("child", after=["a"])
    rig.raw.zadd(keys.key(rig.queue, state), {"a": "inf"})
    assert rig.poll().due_ms == 0
    rig.reap()
    assert (rig.state("a"), rig.state("child")) == ("dead", "dead")
    assert rig.events("a")[-1].data["message"] == "its due time cannot be read"


def test_a_sweep_takes_a_bounded_slice(rig: Rig) -> None:
    rig.enqueue(*(rig.job() for _ in range(10)))
    rig.claim(10)
    rig.tick(LEASE_MS + 1)
    assert [rig.reap(4).warned for _ in range(4)] == [4, 4, 2, 0]


def test_a_queued_id_without_its_head(rig: Rig) -> None:
    """Counted and passed over, in every state in which it may wait; the queue drains (reliability 32)."""
    ids = [rig.add(retries=1) for _ in range(4)]
    ids += [rig.add(delay_ms=5) for _ in range(2)]
    rig.add("child", after=ids[:1])
    rig.add("delayed-child", after=ids[4:5], run_anyway=True)
    rig.raw.hdel(keys.key(rig.queue, "head"), ids[0], ids[2], ids[4])
    rig.tick(5)
    claimed = []
    for _ in range(10):
        got = rig.claim(10)
        claimed += [job.id for job in got]
        rig.ack(*got)
    assert sorted(claimed) == ["delayed-child", ids[1], ids[3], ids[5]]
    assert rig.total("missing") == 3
    assert rig.state("child") == "dead"
    assert rig.events("child")[0].data == {"on": ids[0], "outcome": "unknown"}


def test_a_running_job_without_its_head(rig: Rig) -> None:
    rig.add("a")
    rig.add("child", after=["a"])
    rig.claim_one()
    rig.raw.hdel(keys.key(rig.queue, "head"), "a")
    rig.crash()
    assert (rig.state("a"), rig.state("child"), rig.total("missing")) == ("gone", "dead", 1)


def test_a_blocked_job_without_its_head(rig: Rig) -> None:
    rig.add("a")
    rig.add("child", after=["a"])
    rig.add("grandchild", after=["child"])
    rig.raw.hdel(keys.key(rig.queue, "head"), "child")
    rig.work("a")
    assert (rig.state("child"), rig.state("grandchild"), rig.total("missing")) == ("gone", "dead", 1)


def test_an_operator_and_a_ghost(rig: Rig) -> None:
    """Nothing is made up for a job whose record is gone; it can be thrown away."""
    rig.add("a")
    rig.raw.hdel(keys.key(rig.queue, "head"), "a")
    assert rig.change("reprioritise", "a", priority=0) == ["no_record"]
    assert rig.change("cancel", "a") == ["no_record"]
    assert rig.change("discard", "a") == ["ok"]


def test_cancel_of_a_running_job_is_asked_and_told(rig: Rig) -> None:
    rig.add("a")
    job = rig.claim_one()
    assert rig.change("cancel", "a") == rig.change("cancel", "a") == ["requested"]
    assert rig.beat(job).cancels == ["a"]
    rig.end(job, "cancelled", event=b'{"by":"op"}')
    assert (rig.state("a"), rig.total("cancelled")) == ("cancelled", 1)
    assert [(event.kind, event.data) for event in rig.events("a")] == [("cancelled", {"by": "op"})]


@pytest.mark.parametrize("kind", ["failed", "timeout", "crashed", "give"])
def test_a_job_that_was_to_be_cancelled_does_not_run_again(rig: Rig, kind: str) -> None:
    rig.add("a", retries=5)
    job = rig.claim_one()
    rig.change("cancel", "a")
    rig.end(job, kind, delay_ms=0)
    assert rig.state("a") == "cancelled"
    assert rig.events("a")[-1].data == {"reason": "requested while it ran"}
    assert rig.total("cancelled") == 1


def test_a_job_that_ends_well_before_it_learns_of_the_cancel_is_done(rig: Rig) -> None:
    rig.add("a")
    rig.add("b")
    one, two = rig.claim(2)
    rig.change("cancel", "a", "b")
    rig.ack(one)
    rig.end(two, "done", result=b"1")
    assert rig.sizes() == {"done": 2}


@pytest.mark.parametrize("warned_first", [True, False])
def test_a_crashed_job_that_was_to_be_cancelled_is_cancelled(rig: Rig, warned_first: bool) -> None:
    rig.add("a", unique="n")
    rig.add("child", after=["a"])
    job = rig.claim_one()
    if not warned_first:
        rig.change("cancel", "a")
    rig.tick(LEASE_MS + 1)
    rig.reap()
    if warned_first:
        rig.change("cancel", "a")
    assert rig.beat(job).cancels == ["a"]
    assert sum(swept.requeued for swept in rig.crash()) == 1
    assert (rig.state("a"), rig.state("child")) == ("cancelled", "dead")
    assert rig.events("a")[-1].data == {"reason": "requested while it ran"}
    assert rig.attempts("a") == codec.Attempts()
    assert (rig.total("cancelled"), rig.total("crashed")) == (1, 0)
    assert rig.picture().hashes["unique"] == {}


def test_a_running_job_is_not_discarded_under_its_worker(rig: Rig) -> None:
    rig.add("a")
    job = rig.claim_one()
    assert rig.change("discard", "a") == ["wrong_state running"]
    assert rig.beat(job).lost == []
    assert rig.ack(job).refused == []
    assert rig.change("discard", "a") == ["ok"]


def test_cancel_without_a_lease_is_told(rig: Rig) -> None:
    rig.add("a")
    rig.claim_one()
    rig.raw.hdel(keys.key(rig.queue, "lease"), "a")
    assert rig.change("cancel", "a") == ["no_lease"]
    rig.tick(LEASE_MS + 1)
    rig.reap()


@pytest.mark.parametrize("part", ["error", "attempts", "dead"])
def test_a_key_that_became_foreign_loses_no_job(loose_rig: Rig, part: str) -> None:
    """Row 30: Lua has no rollback, so a job is written where it goes before it is taken from where it was."""
    rig = loose_rig
    rig.add("a", retries=0)
    job = rig.claim_one()
    rig.raw.delete(keys.key(rig.queue, part))
    rig.raw.set(keys.key(rig.queue, part), "of another program")
    with pytest.raises(LayoutMismatch):
        rig.bury(job)
    assert rig.raw.zscore(keys.key(rig.queue, "running"), "a") is not None
    rig.raw.delete(keys.key(rig.queue, part))
    rig.bury(job)
    assert rig.raw.zscore(keys.key(rig.queue, "dead"), "a") is not None
    assert rig.raw.zscore(keys.key(rig.queue, "running"), "a") is None
