"""Edges of the scripts that small changes of them, tried by `mutate.py`, found untested."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from core._engine.harness import LEASE_MS, OTHER
from core._engine.model_jobs import RESEND_MS
from qdeck._engine import batch_transitions, keys, transitions
from qdeck._engine.codec import BAND

if TYPE_CHECKING:
    from core._engine.harness import Rig


def test_a_running_job_without_a_lease_is_no_other_worker(loose_rig: Rig) -> None:
    """One worker's jobs that expire together are no outage, whatever is broken beside them."""
    rig = loose_rig
    ids = [rig.add() for _ in range(3)]
    rig.claim(3)
    rig.raw.hdel(keys.key(rig.queue, "lease"), ids[0])
    rig.crash()
    assert [rig.attempts(job_id).crashes for job_id in ids[1:]] == [1, 1]
    assert [rig.attempts(job_id).outages for job_id in ids] == [0, 0, 0]


def test_very_long_waiting_lists_count_more(loose_rig: Rig) -> None:
    """A list of 7 KB costs as much as one job more."""
    rig = loose_rig  # its rules take long to check for so many
    parents = [f"p{n:02}" + "x" * 120 for n in range(60)]
    rig.enqueue(*(rig.job(parent) for parent in parents))
    for n in range(150):
        rig.add(f"k{n:03}", after=parents)
    rig.ack(rig.claim_one())
    left = [
        raw for child, raw in rig.picture().hashes["after"].items() if child[0] == "<" and parents[0].encode() in raw
    ]
    assert len(left) == 50, "200 are settled in a call, or 100 of these"
    rig.deliver()


def test_undo_tells_of_all_calls_however_often_it_is_asked(rig: Rig) -> None:
    """One job may come back later, when its parent does; the other never."""
    rig.add("parent", priority=0)
    for job_id in ("later", "never"):
        rig.add(job_id, after=["parent"])
    rig.act("discard", "blocked", "later", "never", batch="b")
    rig.act("discard", "ready", "parent", batch="p")
    rig.tick(RESEND_MS)
    rig.add("never")
    reasons = [("later", "parent_ended", ""), ("never", "already_there", "")]
    for _ in range(3):
        undone = rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
        assert (undone.restored, sorted(undone.skipped)) == (0, reasons)
    rig.call(batch_transitions.undo_slice(rig.queue, "p", 1, rig.now))
    for _ in range(2):
        undone = rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
        assert (undone.restored, undone.skipped) == (1, [("never", "already_there", "")])
    assert rig.state("later") == "blocked"


def test_dependents_in_other_queues_are_told_some_at_a_time(rig: Rig) -> None:
    near = "a:b"  # a short name, so that more than 200 are in one piece of the list
    rig.queues.add(near)
    rig.add("parent")
    rig.call(transitions.watch_parents(rig.queue, [("parent", f"k{n:03}@{near}") for n in range(400)], rig.now))
    rig.work("parent")
    kinds = Counter(entry["k"] for entry in rig.picture().outbox)
    assert kinds == {b"resolve": 200, b"release": 1}
    rig.deliver()
    assert rig.picture().outbox == []
    assert rig.picture().hashes["after"] == {}
    assert len(rig.picture(near).zsets["removed"]) == 400, "they come before the jobs do"


def test_undo_wakes_a_worker_for_one_job(rig: Rig) -> None:
    rig.add("a")
    rig.act("discard", "ready", "a", batch="b")
    assert rig.rings()
    rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now))
    assert rig.rings()


def test_an_act_without_room_for_undo_says_so_however_often_it_is_sent(rig: Rig) -> None:
    rig.add("a")
    seen = [("a", str(100 * BAND + rig.now))]
    op = batch_transitions.apply_slice(
        rig.queue, "discard", "ready", seen, batch="b", offset=0, event=b"{}", keep_bytes=1, now=rig.now
    )
    assert [rig.call(op).kept for _ in range(2)] == [False, False]
    assert rig.call(batch_transitions.undo_slice(rig.queue, "b", 1, rig.now)).skipped == [("", "undo_not_kept", "1")]


def test_an_act_wakes_a_worker_for_one_job(rig: Rig) -> None:
    rig.add("a")
    rig.bury(rig.claim_one())
    rig.rings()
    rig.act("retry", "dead", "a")
    assert rig.rings()


def test_a_name_that_need_not_be_unique_stops_no_retry(rig: Rig) -> None:
    rig.enqueue(*(rig.job(i, name="name") for i in ("a", "b")))
    for job in rig.claim(2):
        rig.bury(job)
    assert rig.act("retry", "dead", "a", "b").skipped == []
    assert rig.picture().hashes["unique"] == {}


def test_a_score_is_compared_as_a_number(rig: Rig) -> None:
    """However a server or a client writes it."""
    rig.add("a", delay_ms=5)
    seen = [("a", f"{rig.now + 5}.0")]
    op = batch_transitions.apply_slice(rig.queue, "run", "delayed", seen, batch="b", offset=0, event=b"{}", now=rig.now)
    assert rig.call(op).skipped == []
    assert rig.state("a") == "ready"


def test_what_undo_keeps_in_another_queue_expires(rig: Rig) -> None:
    rig.add("parent")
    rig.add("child", queue=OTHER, after=[f"parent@{rig.queue}"])
    rig.deliver(OTHER)
    rig.act("bury", "ready", "parent", batch="b")
    rig.deliver()
    assert rig.state("child", OTHER) == "dead"
    assert 0 < rig.raw.pttl(keys.undo_key(OTHER, "b")) <= batch_transitions.UNDO_TTL_MS


def test_a_job_that_is_given_back_is_in_ready_alone(rig: Rig) -> None:
    rig.add("a")
    job = rig.claim_one()
    rig.end(job, "give")
    assert rig.state("a") == "ready"
    assert rig.picture().hashes["lease"] == {}
    assert rig.ack(job).refused == ["a"]
    assert rig.state("a") == "ready"


@pytest.mark.parametrize("state", ["ready", "blocked"])
def test_the_id_of_a_job_whose_record_is_lost_is_kept(loose_rig: Rig, state: str) -> None:
    rig = loose_rig
    rig.add("parent", priority=0)
    job = rig.job("a", after=["parent"] if state == "blocked" else [])
    rig.enqueue(job)
    rig.raw.hdel(keys.key(rig.queue, "head"), "a")
    rig.work("parent")
    assert [one.id for one in rig.claim(5)] == []
    assert rig.total("missing") == 1
    assert not rig.enqueue(job)[0].created


def test_a_cancellation_names_each_worker_once(rig: Rig) -> None:
    for _ in range(3):
        rig.add()
    one, two, other = *rig.claim(2, "w1"), rig.claim_one("w2")
    raw: Any = rig.raw  # its replies have too many types
    stops = keys.key(rig.queue, "stop_requests")
    rig.change("cancel", other.id)
    assert [fields for _, fields in raw.xrange(stops)] == [{b"w": b"w2"}]
    seen = [(job.id, job.token.strip()) for job in (one, two)]
    rig.call(
        batch_transitions.apply_slice(
            rig.queue, "cancel", "running", seen, batch="b", offset=0, event=b"{}", now=rig.now
        )
    )
    assert raw.xrevrange(stops, count=1)[0][1] == {b"w": b"w1"}
    assert 0 < rig.raw.pttl(stops) <= 600_000


def test_a_full_claim_does_not_look_at_what_comes_next(rig: Rig) -> None:
    """The worker polls again at once anyway."""
    for _ in range(2):
        rig.add()
    rig.add(delay_ms=50)
    full = rig.poll(free_slots=2)
    assert (full.due_ms, full.deadline_ms) == (0, 0)
    rest = rig.poll(free_slots=2)
    assert (rest.due_ms, rest.deadline_ms) == (rig.now + 50, rig.now + LEASE_MS)
