"""Undo brings back those that died only because of what was done to another, in whatever queue they wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._operations.test_undo import assert_same
from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._engine import keys, programs

if TYPE_CHECKING:
    from qdeck.admin import BatchResult, Writer


def do(writer: Writer, verb: str, *ids: str, queue: str = QUEUE) -> BatchResult:
    return writer.apply(writer.plan(verb, queue, ids=ids))


def deliver(yard: Yard) -> None:
    while yard.client.run(programs.deliver(yard.queue)):
        pass


def family(yard: Yard) -> tuple[str, dict[str, str]]:
    """A parent, and those that wait for it and for one another."""
    parent = yard.add("parent", unique="parent")
    kids = {"child": yard.add("child", after=[parent], unique="child", on_failure="mend")}
    kids["grandchild"] = yard.add("grandchild", after=[kids["child"], parent], priority=3)
    kids["late"] = yard.add("late", after=[parent], delay_ms=10**7)
    return parent, kids


@pytest.mark.parametrize("verb", ["discard", "cancel", "bury"])
def test_a_family_is_put_back(writer: Writer, yard: Yard, verb: str) -> None:
    parent, kids = family(yard)
    before = yard.dump()
    result = do(writer, verb, parent)
    assert set(kids.values()) <= set(yard.ids("dead"))
    back = writer.undo()
    assert (back.restored, back.dependents, back.skipped, back.error) == (1, 3, (), None)
    after = yard.dump()
    assert_same(after, before)
    yard.forget_undo(result.batch)
    again = writer.undo(result.batch)
    assert (again.restored, again.dependents) == (1, 3), "sent again it reports the same"
    assert yard.dump() == after


def test_they_go_on_as_if_nothing_had_been(writer: Writer, yard: Yard) -> None:
    parent, kids = family(yard)
    do(writer, "cancel", parent)
    writer.undo()
    for expected in (parent, kids["child"], kids["grandchild"]):
        [job] = yard.claim()
        assert job.id == expected
        yard.end(job, "done")
    assert yard.ids("delayed") == [kids["late"]]


@pytest.mark.parametrize("delivered", [True, False])
def test_across_queues_and_back(writer: Writer, yard: Yard, delivered: bool) -> None:
    other = Yard(yard.url, yard.raw, OTHER)
    parent = yard.add("parent")
    far = other.add("far", after=[f"{parent}@{QUEUE}"], unique="far")
    home = yard.add("home again", after=[f"{far}@{OTHER}"])
    before = yard.dump(), other.dump()
    do(writer, "discard", parent)
    if delivered:  # as an agent would; else undo has to
        deliver(other)
    assert (other.ids("dead"), yard.ids("dead")) == ([far], [home] if delivered else [])
    back = writer.undo()
    assert (back.restored, back.dependents, back.skipped) == (1, 2, ())
    for now, old in zip((yard.dump(), other.dump()), before, strict=True):
        assert_same(now, old)
    for there in (yard, other, yard):
        [job] = there.claim()
        there.end(job, "done")
        deliver(there)
    assert yard.ids("dead") == other.ids("dead") == []


def test_undo_before_the_news_arrived(writer: Writer, yard: Yard) -> None:
    """What another queue was not told yet is told first, so that it does not come after the undo."""
    other = Yard(yard.url, yard.raw, OTHER)
    parent = yard.add("parent")
    far = other.add("far", after=[f"{parent}@{QUEUE}"])
    plan = writer.plan("discard", QUEUE)
    outbox = yard.key("outbox")
    writer.apply(plan)
    yard.raw.xadd(outbox, {"k": "resolve", "q": OTHER, "i": far, "r": f"{parent}@{QUEUE}", "o": "discarded"})
    writer.undo()
    assert other.ids("blocked") == [far]
    assert yard.raw.xlen(outbox) == 0


def test_more_than_one_call_settles(writer: Writer, yard: Yard) -> None:
    parent = yard.add("parent")
    kids = [yard.add(n, after=[parent]) for n in range(450)]
    result = do(writer, "discard", parent)
    assert set(yard.ids("dead")) == set(kids)
    fields = yard.raw.hgetall(keys.undo_key(QUEUE, result.batch))
    assert int(fields[b"died"]) >= 3, "a call settles a bounded number"
    back = writer.undo()
    assert (back.dependents, back.skipped) == (450, ())
    assert set(yard.ids("blocked")) == set(kids)
    assert yard.raw.hlen(yard.key("groups")) == 0


def test_those_that_run_anyway_wait_again(writer: Writer, yard: Yard) -> None:
    one, two = yard.add("one"), yard.add("two")
    both = yard.add("both", after=[one, two], run_anyway=True)
    single = yard.add("single", after=[one], run_anyway=True)
    later = yard.add("later", after=[two], run_anyway=True, delay_ms=10**7)
    before = yard.dump()
    do(writer, "discard", one, two)
    assert set(yard.ids("ready")) == {both, single}
    back = writer.undo()
    assert (back.restored, back.skipped) == (2, ())
    assert set(yard.ids("blocked")) == {both, single, later}
    assert_same(yard.dump(), before)


def test_what_went_on_since_stays(writer: Writer, yard: Yard) -> None:
    parent = yard.add("parent")
    retried = yard.add("retried", after=[parent])
    again = yard.add("again", after=[parent])
    anyway = yard.add("anyway", after=[parent], run_anyway=True)
    result = do(writer, "discard", parent)
    do(writer, "retry", retried)
    do(writer, "discard", again)
    for job in yard.claim(2):
        yard.end(job, "done")
    back = writer.undo(result.batch)
    assert (back.restored, back.dependents) == (1, 0)
    assert {skip.id: skip.why for skip in back.skipped} == {
        retried: "is done now",
        again: "is gone",
        anyway: "is done now",
    }


def test_a_dependent_that_is_retried_waits_for_nobody(writer: Writer, yard: Yard) -> None:
    """The stated outcome: it runs at once, and goes on so when its parent comes back."""
    parent = yard.add("parent", delay_ms=10**7)
    child = yard.add("child", after=[parent])
    result = do(writer, "cancel", parent)
    do(writer, "retry", child)
    assert yard.ids("ready") == [child]
    back = writer.undo(result.batch)
    assert [(skip.id, skip.why) for skip in back.skipped] == [(child, "is ready now")]
    assert yard.ids("ready") == [child]


def test_no_parent_no_children(writer: Writer, yard: Yard) -> None:
    parent, kids = family(yard)
    do(writer, "discard", parent)
    twin = yard.add("another", unique="parent")
    back = writer.undo()
    assert (back.restored, back.dependents) == (0, 0)
    reasons: dict[str, Any] = {skip.id: skip.why for skip in back.skipped}
    assert reasons.pop(parent) == f"its unique name is held by {twin}"
    assert reasons == dict.fromkeys(kids.values(), "a job that it waited for has ended")
    assert set(kids.values()) <= set(yard.ids("dead"))
    assert yard.ids("blocked") == []


def test_a_chain_inside_one_slice_whatever_its_order(writer: Writer, yard: Yard) -> None:
    """Blocked jobs are taken newest due first; one that is due early may wait for one that is due late."""
    first = yard.add("first", delay_ms=10**7)
    middle = yard.add("middle", after=[first], delay_ms=3 * 10**6)
    last = yard.add("last", after=[middle], delay_ms=10**6)
    end = yard.add("end", after=[last], delay_ms=2 * 10**6)
    before = yard.dump()
    result = writer.apply(writer.plan("discard", QUEUE))
    back = writer.undo()
    assert back.restored + back.dependents == 4
    assert result.applied + back.dependents == 4
    assert back.skipped == ()
    assert_same(yard.dump(), before)
    assert set(yard.ids("blocked")) == {middle, last, end}


def test_what_there_was_no_room_for_is_told(writer: Writer, yard: Yard) -> None:
    parent, kids = family(yard)
    plan = writer.plan("discard", QUEUE, ids=[parent])
    yard.raw.hset(keys.undo_key(QUEUE, plan.batch), "bytes", 64 * 1024 * 1024)
    writer.apply(plan, keep_bytes=1 << 40)
    back = writer.undo()
    assert (back.restored, back.dependents) == (1, 0)
    assert [skip.why for skip in back.skipped] == ["3 dependents are beyond the undo limit"]
    assert set(kids.values()) <= set(yard.ids("dead"))
