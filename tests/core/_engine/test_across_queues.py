"""What one queue does to another, however long the process stands still that carries it, and wherever it dies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._engine.harness import OTHER
from core._engine.model_jobs import RESEND_MS
from qdeck import UnknownDependency
from qdeck._engine import keys, programs, transitions
from qdeck._redis.errors import Late
from qdeck.adapters import Request
from support.programs import answer, feed, go_on, once, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from core._engine.harness import Rig
    from qdeck._redis.commands import Item
    from qdeck.admin import Program


def run_until(rig: Rig, program: Program[Any], stop: Callable[[Item], bool]) -> Item | None:
    """Runs a program up to a request that fits, which is not sent: its process dies or stands still before it."""
    try:
        item = next(program)
        while not stop(item):
            item = feed(program, answer(rig.client, item))
    except StopIteration:
        return None
    return item


def calls(name: str) -> Callable[[Item], bool]:
    """Whether a request calls this script."""
    from qdeck._engine.scripts import load

    return lambda item: load(name).digest in words_of(item)


def forget_done(rig: Rig, queue: str) -> None:
    """Ends what is ready in a queue, and lets a minute pass in which nothing of it is kept."""
    rig.client.run(programs.call(transitions.configure(queue, {"done_max": "0"})))
    while jobs := rig.claim(10, queue=queue):
        rig.ack(*jobs, queue=queue)
    rig.tick(RESEND_MS + 1)
    rig.client.run(programs.call(transitions.trim(queue, rig.now)))
    assert rig.sizes(queue) == {}


# deliveries


def bring_to_outbox(rig: Rig, kind: str) -> None:
    """Something that makes a job in OTHER."""
    if kind == "job":
        rig.add("a", on_failure=f"mend {OTHER}")
        rig.bury(rig.claim_one())
    else:
        rig.add("a")
        rig.act("move", "ready", "a", extra=OTHER)


@pytest.mark.parametrize("kind", ["job", "accept"])
def test_a_deliverer_that_stood_still_delivers_nothing_again(loose_rig: Rig, kind: str) -> None:
    """Another delivered it meanwhile, and the job is done and trimmed."""
    rig = loose_rig
    bring_to_outbox(rig, kind)
    frozen = programs.deliver(rig.queue, rig.now)
    held = run_until(rig, frozen, lambda item: b"EVALSHA" in words_of(item))
    assert isinstance(held, Request)
    rig.deliver()
    assert rig.sizes(OTHER) == {"ready": 1}
    forget_done(rig, OTHER)
    [command] = held.commands
    at = command.index(rig.now - RESEND_MS - 1)  # what the script takes for the server's time
    go_on(rig.client, frozen, held._replace(commands=[(*command[:at], rig.now, *command[at + 1 :])]))
    assert rig.sizes(OTHER) == {}


@pytest.mark.parametrize("kind", ["job", "accept"])
def test_a_deliverer_that_died_before_it_deleted_the_entry(loose_rig: Rig, kind: str) -> None:
    """Hours later another delivers the entry again; the job is done and trimmed."""
    rig = loose_rig
    bring_to_outbox(rig, kind)
    held = run_until(rig, programs.deliver(rig.queue, rig.now), lambda item: b"XDEL" in words_of(item))
    assert held is not None
    assert rig.sizes(OTHER) == {"ready": 1}
    forget_done(rig, OTHER)
    rig.tick(10 * 3_600_000)
    rig.client.run(programs.call(transitions.trim(OTHER, rig.now)))
    assert rig.deliver() == 1
    assert rig.sizes(OTHER) == {}
    assert rig.picture().outbox == []
    rig.tick(RESEND_MS)
    rig.client.run(programs.call(transitions.trim(OTHER, rig.now)))
    assert rig.raw.zcard(keys.key(OTHER, "removed")) == 0, "the place is forgotten once the entry is deleted"


def test_a_deliverer_that_stood_still_looks_again(rig: Rig) -> None:
    """And delivers what is still there."""
    rig.queues.add(OTHER)
    rig.add("a", on_failure=f"mend {OTHER}")
    rig.bury(rig.claim_one())
    frozen = programs.deliver(rig.queue)
    reply = rig.client.run(once(next(frozen)))
    reply[0] = [b"%d" % (int(reply[0][0]) - 31), reply[0][1]]
    assert go_on(rig.client, frozen, frozen.send(reply)) == 1
    assert rig.sizes(OTHER) == {"ready": 1}
    assert rig.picture().outbox == []


def test_an_end_that_arrives_late_is_refused(rig: Rig) -> None:
    op = transitions.resolve_dependent(
        rig.queue, "child", f"parent@{OTHER}", "dead", rig.now, read_ms=rig.now - RESEND_MS
    )
    with pytest.raises(Late):
        rig.call(op)
    assert rig.picture().zsets["removed"] == []
    with pytest.raises(Late):
        rig.call(
            transitions.watch_parents(
                rig.queue, [("parent", f"child@{OTHER}")], rig.now, read_ms=rig.now - RESEND_MS // 2 - 1
            )
        )
    assert rig.call(
        transitions.watch_parents(rig.queue, [("a", "b@c")], rig.now, read_ms=rig.now - RESEND_MS // 2)
    ) == ["unknown"]


# dependencies


def enqueue_child(rig: Rig, *, dies: bool) -> None:
    """A child in OTHER of a parent in the queue of the rig; its producer may die right after."""
    rig.queues.add(OTHER)
    program = programs.enqueue(OTHER, [rig.job("child", after=[f"parent@{rig.queue}"])], rig.now)
    if not dies:
        rig.run(program)
        return
    run_until(rig, program, lambda _: rig.raw.zscore(keys.key(OTHER, "blocked"), "child") is not None)
    program.close()
    assert rig.state("child", OTHER) == "blocked"


def test_a_producer_that_dies_and_a_parent_that_is_done_and_trimmed(rig: Rig) -> None:
    rig.add("parent")
    enqueue_child(rig, dies=True)
    forget_done(rig, rig.queue)
    for queue in (OTHER, rig.queue, OTHER):
        rig.deliver(queue)
    assert rig.state("child", OTHER) == "ready"


def test_a_producer_that_dies_and_a_parent_that_is_moved(loose_rig: Rig) -> None:
    rig = loose_rig
    rig.add("parent")
    enqueue_child(rig, dies=True)
    rig.queues.add("shop:third:actions")
    acted = rig.act("move", "ready", "parent", extra="shop:third:actions")
    assert acted.skipped == [(0, "others_wait", "")]
    rig.deliver(OTHER)
    assert rig.state("child", OTHER) == "blocked"
    rig.work("parent")
    rig.deliver()
    assert rig.state("child", OTHER) == "ready"


@pytest.mark.parametrize("outcome", ["done", "dead", "cancelled", "discarded"])
def test_a_parent_that_ends_while_its_child_is_on_the_way(loose_rig: Rig, outcome: str) -> None:
    """The news of the end arrives before the child does."""
    rig = loose_rig  # the parent is deleted by hand
    rig.add("parent")
    rig.queues.add(OTHER)
    program = programs.enqueue(OTHER, [rig.job("child", after=[f"parent@{rig.queue}"])], rig.now)
    held = run_until(rig, program, calls("enqueue_linked"))
    assert held is not None
    if outcome == "done":
        rig.work("parent")
    elif outcome == "dead":
        rig.bury(rig.claim_one())
    else:
        rig.change("cancel" if outcome == "cancelled" else "discard", "parent")
    rig.deliver()
    assert rig.picture().outbox == []
    rig.raw.delete(*(keys.key(rig.queue, part) for part in ("done", "head", "body")))
    go_on(rig.client, program, held)
    assert rig.state("child", OTHER) == ("ready" if outcome == "done" else "dead")
    if outcome != "done":
        assert rig.events("child", OTHER)[0].data == {"on": f"parent@{rig.queue}", "outcome": outcome}


def test_a_producer_that_stood_still_announces_again(rig: Rig) -> None:
    """The end of the parent would be forgotten by now."""
    rig.add("parent")
    rig.queues.add(OTHER)
    child = rig.job("child", after=[f"parent@{rig.queue}!live"])
    op = transitions.enqueue(OTHER, [child], rig.now, rig.now - RESEND_MS // 2 - 1)
    with pytest.raises(Late):
        rig.call(op)
    assert rig.sizes(OTHER) == {}
    frozen = programs.enqueue(OTHER, [rig.job("child", after=[f"parent@{rig.queue}"])])
    reply = rig.client.run(once(next(frozen)))
    [made] = go_on(rig.client, frozen, frozen.send([[b"%d" % (int(reply[0][0]) - 31), reply[0][1]]]))
    assert (made.created, rig.state("child", OTHER)) == (True, "blocked")
    assert rig.picture().waiting(">") == {"parent": [f"child@{OTHER}"]}, "it is there once"


@pytest.mark.parametrize("outcome", ["done", "dead", "cancelled"])
def test_a_parent_that_has_ended_when_its_child_is_announced(rig: Rig, outcome: str) -> None:
    rig.add("parent")
    if outcome == "done":
        rig.work("parent")
    elif outcome == "dead":
        rig.bury(rig.claim_one())
    else:
        rig.change("cancel", "parent")
    rig.queues.add(OTHER)
    jobs = [rig.job(i, after=[f"parent@{rig.queue}"], run_anyway=i == "anyway") for i in ("child", "anyway")]
    rig.run(programs.enqueue(OTHER, jobs, rig.now))
    assert rig.picture(OTHER).outbox == []
    assert rig.state("child", OTHER) == ("ready" if outcome == "done" else "dead")
    assert rig.state("anyway", OTHER) == "ready"


def test_a_parent_that_nobody_knows(rig: Rig) -> None:
    rig.queues.add(OTHER)
    jobs = [rig.job("first"), rig.job("child", after=[f"gone@{rig.queue}"])]
    with pytest.raises(UnknownDependency, match="gone"):
        rig.run(programs.enqueue(OTHER, jobs, rig.now))
    assert rig.sizes(OTHER) == {}


def test_an_announcement_that_is_sent_again_after_the_parent_is_gone(rig: Rig) -> None:
    rig.add("parent")
    enqueue_child(rig, dies=False)
    rig.change("discard", "parent")
    [made] = rig.run(programs.enqueue(OTHER, [rig.job("child", after=[f"parent@{rig.queue}"])], rig.now))
    assert not made.created


def test_ends_that_no_child_came_for_are_forgotten(rig: Rig) -> None:
    for n in range(450):
        rig.call(transitions.resolve_dependent(rig.queue, f"child{n}", f"parent@{OTHER}", "done", rig.now))
    assert rig.raw.zcard(keys.key(rig.queue, "removed")) == 450
    rig.tick(RESEND_MS)
    for n in range(3):
        rig.call(transitions.resolve_dependent(rig.queue, f"late{n}", f"parent@{OTHER}", "done", rig.now))
    assert rig.raw.zcard(keys.key(rig.queue, "removed")) == 3
