"""Jobs that wait for jobs: no end of a parent leaves a child waiting (reliability 43)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._engine.harness import OTHER
from core._engine.model_jobs import RESEND_MS
from qdeck import UnknownDependency
from qdeck._engine import programs, transitions
from qdeck._engine.signatures import DEPENDENCY_GROUPS
from support.programs import answer, feed

if TYPE_CHECKING:
    from core._engine.harness import Rig

DIES_WITH = ("dead", "cancelled", "discarded", "unknown")
ENDS = ("done", "dead", "cancelled", "cancelled running", "discarded", "expired", "crashed")


def end(rig: Rig, job_id: str, how: str) -> str:
    """Brings a job to that end; gives the outcome that dependents are told."""
    if how in ("discarded", "cancelled"):
        rig.change("cancel" if how == "cancelled" else "discard", job_id)
    elif how == "expired":
        rig.tick(10_000)
        rig.claim(1)
    else:
        job = rig.claim_one()
        assert job.id == job_id
        if how == "done":
            rig.ack(job)
        elif how == "dead":
            rig.bury(job)
        elif how == "crashed":
            rig.tick(1_001)
            rig.reap()
            rig.tick(501)
            rig.reap(crash_limit=1)
        else:
            rig.change("cancel", job_id)
            rig.end(job, "cancelled")
    return {"crashed": "dead", "expired": "cancelled", "cancelled running": "cancelled"}.get(how, how)


def parent(rig: Rig, how: str) -> str:
    return rig.add("parent", expires_ms=rig.now + 5_000 if how == "expired" else None)


@pytest.mark.parametrize("how", ENDS)
def test_every_end_of_a_parent_has_its_outcome(rig: Rig, how: str) -> None:
    parent(rig, how)
    rig.add("child", after=["parent"])
    rig.add("anyway", after=["parent"], run_anyway=True)
    assert (rig.state("child"), rig.state("anyway")) == ("blocked", "blocked")
    outcome = end(rig, "parent", how)
    # What looked for work and found it expired takes the dependent at once.
    assert rig.state("anyway") == ("running" if how == "expired" else "ready")
    if how == "done":
        assert rig.state("child") == "ready"
        assert rig.events("child") == []
    else:
        assert rig.state("child") == "dead"
        events = [(event.kind, event.data) for event in rig.events("child")]
        assert events == [("dependency", {"on": "parent", "outcome": outcome})]
    assert rig.picture().hashes["after"] == {}


@pytest.mark.parametrize("how", ["done", "dead", "cancelled"])
def test_a_parent_that_has_ended_already(rig: Rig, how: str) -> None:
    parent(rig, how)
    end(rig, "parent", how)
    rig.add("child", after=["parent"])
    rig.add("anyway", after=["parent"], run_anyway=True)
    assert rig.state("anyway") == "ready"
    assert rig.state("child") == ("ready" if how == "done" else "dead")
    if how != "done":
        assert rig.events("child")[0].data == {"on": "parent", "outcome": how}
    assert rig.picture().hashes["after"] == {}


def test_an_unknown_parent_refuses_the_whole_call(rig: Rig) -> None:
    rig.add("there")
    before = rig.picture()
    jobs = [rig.job("a"), rig.job("b", after=["there", "nobody"]), rig.job("c")]
    with pytest.raises(UnknownDependency, match="nobody") as caught:
        rig.enqueue(*jobs)
    assert caught.value.hint
    assert rig.picture() == before


@pytest.mark.parametrize("refs", [["a"], ["b"]])
def test_no_job_can_wait_for_itself_or_for_a_later_one(rig: Rig, refs: list[str]) -> None:
    """So there is no cycle within a queue."""
    with pytest.raises(UnknownDependency):
        rig.enqueue(rig.job("a", after=refs), rig.job("b"))
    assert rig.sizes() == {}


def test_a_chain_in_one_call(rig: Rig) -> None:
    rig.enqueue(rig.job("a"), rig.job("b", after=["a"]), rig.job("c", after=["b"]))
    for job_id in ("a", "b", "c"):
        rig.work(job_id)
    assert rig.sizes() == {"done": 3}


def test_a_chain_dies_to_its_end(rig: Rig) -> None:
    """Deeper than a call settles: the outbox carries on."""
    rig.add("j0")
    rig.enqueue(*(rig.job(f"j{n}", after=[f"j{n - 1}"]) for n in range(1, 450)))
    rig.bury(rig.claim_one())
    assert rig.sizes() == {"dead": 201, "blocked": 249}
    assert rig.poll().outbox == 1
    rig.check()
    rig.deliver()
    assert rig.sizes() == {"dead": 450}
    assert rig.total("dead") == 450
    assert rig.events("j449")[0].data == {"on": "j448", "outcome": "dead"}


def test_a_child_waits_for_all_its_parents(rig: Rig) -> None:
    rig.add("a")
    rig.add("b")
    rig.add("child", after=["a", "b", "a"])
    rig.work("a")
    assert rig.state("child") == "blocked"
    rig.work("b")
    assert rig.state("child") == "ready"


def test_one_dead_parent_is_enough(rig: Rig) -> None:
    rig.add("a")
    rig.add("b")
    rig.add("child", after=["a", "b"])
    rig.bury(rig.claim_one())
    assert rig.state("child") == "dead"
    rig.work("b")
    assert rig.state("child") == "dead"
    assert len(rig.events("child")) == 1


def test_a_child_that_is_gone_is_not_woken(rig: Rig) -> None:
    rig.add("a")
    rig.add("cancelled", after=["a"])
    rig.add("discarded", after=["a"])
    rig.add("grandchild", after=["cancelled"])
    rig.change("cancel", "cancelled")
    rig.change("discard", "discarded")
    assert rig.state("grandchild") == "dead"
    rig.work("a")
    assert rig.sizes() == {"done": 1, "cancelled": 1, "dead": 1}


def test_an_old_parent_has_no_say_over_a_new_job_of_the_same_id(rig: Rig) -> None:
    rig.add("old", priority=0)
    rig.add("new")
    rig.add("child", after=["old"])
    rig.change("discard", "child")
    rig.tick(RESEND_MS)
    rig.add("child", after=["new"])
    rig.bury(rig.claim_one())
    assert rig.state("child") == "blocked"
    rig.work("new")
    assert rig.state("child") == "ready"


def test_a_child_with_a_delay_waits_for_both(rig: Rig) -> None:
    rig.add("a")
    rig.add("b", after=["a"], delay_ms=100)
    rig.add("c", after=["a"], due_ms=rig.now + 50)
    rig.work("a")
    assert (rig.state("b"), rig.state("c")) == ("delayed", "delayed")
    rig.tick(100)
    assert [job.id for job in rig.claim(5)] == ["c", "b"]


def test_a_child_starts_behind_its_equals(rig: Rig) -> None:
    rig.add("a", priority=0)
    rig.add("child", after=["a"])
    rig.tick()
    rig.add("later")
    rig.tick()
    rig.work("a")
    assert [job.id for job in rig.claim(5)] == ["later", "child"]


@pytest.mark.parametrize("anyway", [False, True])
def test_a_thousand_children_of_one_parent(rig: Rig, anyway: bool) -> None:
    """Two hundred in the step that ends the parent, the rest by the outbox; none forgotten, none twice."""
    rig.add("parent", priority=0)
    ids = []
    for at in range(0, 1_000, 250):
        jobs = [rig.job(f"child{n:04d}", after=["parent"], run_anyway=anyway) for n in range(at, at + 250)]
        ids += [made.id for made in rig.enqueue(*jobs)]
    rig.work("parent") if anyway else rig.bury(rig.claim_one())
    rig.check()
    assert 200 <= 1_000 - rig.sizes()["blocked"] <= 500
    assert rig.poll().outbox == 1
    assert rig.deliver() > 1
    last = "ready" if anyway else "dead"
    assert rig.sizes() == {last: 1_000, "done": 1} if anyway else {last: 1_001}
    if anyway:
        assert sorted(job.id for _ in range(4) for job in rig.claim(250)) == ids


def test_delivery_twice_releases_once(rig: Rig) -> None:
    """A release that is sent again finds nothing more to do."""
    rig.add("parent", priority=0)
    for at in range(0, 600, 200):
        rig.enqueue(*(rig.job(f"child{n:04d}", after=["parent"]) for n in range(at, at + 200)))
    rig.work("parent")
    for _ in range(6):
        rig.call(transitions.release_dependents(rig.queue, "parent", "done", rig.now))
    rig.deliver()
    assert rig.sizes() == {"ready": 600, "done": 1}
    assert len({job.id for _ in range(6) for job in rig.claim(100)}) == 600


def test_waiting_for_a_job_of_this_call_that_was_not_made(rig: Rig) -> None:
    """Its name is held by another job: that is the one to wait for."""
    rig.add("holder", unique="name")
    made = rig.enqueue(rig.job("twin", unique="name"), rig.job("child", after=["twin"]))
    assert [one.id for one in made] == ["holder", "child"]
    rig.work("holder")
    assert rig.state("child") == "ready"


def test_an_enqueue_sent_again_after_its_parent_is_gone(rig: Rig) -> None:
    rig.add("parent")
    child = rig.job("child", after=["parent"])
    rig.enqueue(child)
    rig.work("parent")
    rig.change("discard", "parent")
    assert rig.enqueue(child) == [transitions.EnqueueResult("child", created=False)]
    with pytest.raises(UnknownDependency):
        rig.enqueue(rig.job("other", after=["parent"]))


def test_plans_know_every_group_of_jobs_that_died_with_a_dependency(rig: Rig) -> None:
    for how in ("dead", "cancelled", "discarded"):
        rig.add(how)
        rig.add(f"child-{how}", after=[how])
        end(rig, how, how)
    rig.queues.add(OTHER)
    rig.add("child-unknown", after=[f"nobody@{OTHER}"])
    rig.deliver()
    groups = {(rig.field("attempts", f"child-{how}") or b"").split()[-1] for how in DIES_WITH}
    assert groups == DEPENDENCY_GROUPS


# across queues


@pytest.mark.parametrize("how", ["done", "dead", "cancelled", "discarded"])
@pytest.mark.parametrize("watched", [True, False])
def test_a_parent_on_another_queue(rig: Rig, how: str, watched: bool) -> None:
    """Whether the parent ends before or after the watch has arrived there."""
    parent(rig, how)
    ref = f"parent@{rig.queue}"
    for job_id, anyway in (("child", False), ("anyway", True)):
        rig.add(job_id, queue=OTHER, after=[ref], run_anyway=anyway)
    assert rig.sizes(OTHER) == {"blocked": 2}
    if watched:
        assert rig.deliver(OTHER) == 2
        rig.check()
    outcome = end(rig, "parent", how)
    rig.check()
    rig.deliver(OTHER)
    rig.deliver()
    assert rig.state("anyway", OTHER) == "ready"
    if how == "done":
        assert rig.state("child", OTHER) == "ready"
    else:
        assert rig.state("child", OTHER) == "dead"
        told = "unknown" if how == "discarded" and not watched else outcome
        assert rig.events("child", OTHER)[0].data == {"on": ref, "outcome": told}
    assert rig.picture(OTHER).hashes["after"] == rig.picture().hashes["after"] == {}
    assert rig.picture(OTHER).outbox == rig.picture().outbox == []


def test_an_unknown_parent_on_another_queue(rig: Rig) -> None:
    rig.queues.add(OTHER)
    rig.add("child", after=[f"nobody@{OTHER}"])
    rig.add("anyway", after=[f"nobody@{OTHER}"], run_anyway=True)
    rig.deliver()
    assert (rig.state("child"), rig.state("anyway")) == ("dead", "ready")
    assert rig.events("child")[0].data == {"on": f"nobody@{OTHER}", "outcome": "unknown"}


def test_enqueue_tells_the_other_queue_at_once(rig: Rig) -> None:
    rig.add("parent")
    rig.queues.add(OTHER)
    rig.run(programs.enqueue(OTHER, [rig.job("child", after=[f"parent@{rig.queue}"])], rig.now))
    assert rig.picture().waiting(">") == {"parent": [f"child@{OTHER}"]}
    assert rig.picture(OTHER).outbox == []


def test_a_chain_over_two_queues_dies_to_its_end(rig: Rig) -> None:
    rig.add("a")
    rig.add("b", queue=OTHER, after=[f"a@{rig.queue}"])
    rig.deliver(OTHER)
    rig.add("c", after=[f"b@{OTHER}"])
    rig.deliver()
    rig.bury(rig.claim_one())
    rig.deliver()
    rig.deliver(OTHER)
    assert (rig.state("b", OTHER), rig.state("c")) == ("dead", "dead")
    assert rig.events("c")[0].data == {"on": f"b@{OTHER}", "outcome": "dead"}


def test_parents_on_both_queues(rig: Rig) -> None:
    rig.add("near")
    rig.add("far", queue=OTHER)
    rig.add("child", after=["near", f"far@{OTHER}"])
    rig.deliver()
    rig.work("near")
    assert rig.state("child") == "blocked"
    rig.work("far", queue=OTHER)
    rig.deliver(OTHER)
    assert rig.state("child") == "ready"


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_delivery_cut_off_at_any_moment_is_finished_by_the_next(rig: Rig, cut: int) -> None:
    rig.add("done-parent")
    rig.work("done-parent")
    rig.add("parent")
    rig.queues.add(OTHER)
    rig.add("one", queue=OTHER, after=[f"parent@{rig.queue}", f"done-parent@{rig.queue}"])
    program = programs.deliver(OTHER, rig.now)
    item = next(program)
    for _ in range(cut):
        try:
            item = feed(program, answer(rig.client, item))
        except StopIteration:
            break
    program.close()
    rig.check()
    rig.deliver(OTHER)
    rig.work("parent")
    rig.deliver()
    assert rig.state("one", OTHER) == "ready"


def test_long_waiting_lists_count_against_what_a_call_does(rig: Rig) -> None:
    """Each of 300 jobs waits for 400 others: to settle one means to go through all its list."""
    parents = [rig.job(f"p{n:03}") for n in range(400)]
    rig.enqueue(*parents)
    kids = [rig.job(f"k{n:03}", after=[job.id for job in parents]) for n in range(300)]
    for kid in kids:
        rig.enqueue(kid)
    job = rig.claim_one()
    rig.ack(job)
    # A call settles 200 at most, each with a list of 2 KB: the first one leaves some for the next.
    left = [raw for child, raw in rig.picture().hashes["after"].items() if child[0] == "<" and b"p000 " in raw]
    assert 0 < len(left) < 300
    rig.deliver()
    assert not [raw for child, raw in rig.picture().hashes["after"].items() if child[0] == "<" and b"p000 " in raw]
    rest = rig.claim(399)
    rig.ack(*rest)
    rig.deliver()
    assert rig.sizes() == {"ready": 300, "done": 400}


def test_a_dying_parent_copies_a_bounded_number_of_bytes_at_a_time(rig: Rig) -> None:
    """Handlers get a copy of the payload; a call that buries many with large ones would hold up the server."""
    parent = rig.add()
    body = b'[["' + b"x" * 500_000 + b'"],{}]'
    for n in range(20):
        rig.add(f"kid{n:02}", after=[parent], on_failure="mend", body=body)
    rig.bury(rig.claim_one())
    assert 0 < len(rig.picture().zsets["dead"]) < 12, "some are left for the next calls"
    rig.deliver()
    assert rig.sizes() == {"dead": 21, "ready": 20}


def test_the_rest_of_a_waiting_list_is_kept_in_order(rig: Rig) -> None:
    """A list of several chunks, worked off in parts: each job is settled once, none is left."""
    parent = rig.add()
    for start in range(0, 1_000, 250):
        rig.enqueue(*(rig.job(f"k{n:04}", after=[parent], on_failure="mend") for n in range(start, start + 250)))
    rig.bury(rig.claim_one())
    rig.check()
    while rig.deliver():
        rig.check()
    assert rig.sizes() == {"dead": 1_001, "ready": 1_000}
    assert rig.total("dead") == 1_001
