"""A plan changes exactly what was seen: a job that was edited since is skipped, though it waits where it waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._operations.yard import OTHER, QUEUE, Yard
from qdeck._operations import planning
from qdeck._operations.request import PlanRequest
from qdeck.admin import NATIVE_VERBS, State, Verb, parse
from support.programs import once, words_of

if TYPE_CHECKING:
    from qdeck.admin import Writer

CHANGED = "has changed since"


def in_state(yard: Yard, state: str, *args: Any) -> str:
    """A job that waits."""
    after = [yard.add("parent", priority=0)] if state == "blocked" else []
    return yard.add(*args, after=after, delay_ms=10**7 if state == "delayed" else None)


def edit(writer: Writer, job_id: str, text: str) -> str:
    result = writer.edit(writer.draft(QUEUE, job_id), text)
    assert result.applied == 1
    return result.batch


VERBS: dict[str, dict[str, Any]] = {
    "discard": {}, "cancel": {}, "bury": {}, "move": {"target": OTHER}, "run": {}, "reprioritise": {"priority": "LOW"},
}  # fmt: skip
WAITING = (State.READY, State.DELAYED, State.BLOCKED)
CASES = [(verb, VERBS[verb], state.value) for verb in VERBS for state in WAITING if state in NATIVE_VERBS[Verb(verb)]]


@pytest.mark.parametrize(("verb", "options", "state"), CASES)
def test_a_job_that_was_edited_since(
    writer: Writer, yard: Yard, verb: str, options: dict[str, Any], state: str
) -> None:
    job_id = in_state(yard, state, 42)
    in_state(yard, state, 42)
    plan = writer.plan(verb, QUEUE, where=f"payload.0:42 state:{state}", **options)
    edit(writer, job_id, "[[43], {}]")
    result = writer.apply(plan)
    assert result.applied == 1
    assert [(skip.id, skip.why) for skip in result.skipped] == [(job_id, CHANGED)]
    assert job_id in yard.ids(state)
    again = writer.plan(verb, QUEUE, where=f"payload.0:43 state:{state}", **options)
    assert writer.apply(again).applied == 1, "what was seen anew is changed"


@pytest.mark.parametrize("state", ["delayed", "blocked"])
def test_a_job_whose_priority_was_changed_since(writer: Writer, yard: Yard, state: str) -> None:
    """Its place tells nothing of that."""
    job_id = in_state(yard, state, 1)
    plan = writer.plan("discard", QUEUE, where=f"priority:100 state:{state}")
    writer.apply(writer.plan("reprioritise", QUEUE, ids=[job_id], priority="LOW"))
    result = writer.apply(plan)
    assert (result.applied, [skip.why for skip in result.skipped]) == (0, [CHANGED])
    assert job_id in yard.ids(state)


def test_a_job_is_edited_while_a_plan_is_made(writer: Writer, yard: Yard) -> None:
    """The version is read before what the filter looks at: an edit between the two is noticed."""
    job_id = yard.add(42)
    asked = PlanRequest(verb=Verb.DISCARD, queues=(QUEUE,), wanted=parse("payload.0:42"))
    program = planning.build(writer.address, asked, adapters=writer.adapters)
    item = next(program)
    edited = False
    while True:
        reply = yard.client.run(once(item))
        if {b"HMGET", b"{%s}:body" % QUEUE.encode()} <= words_of(item) and not edited:
            edited = True
            edit(writer, job_id, "[[43], {}]")
        try:
            item = program.send(reply)
        except StopIteration as end:
            plan = end.value
            break
    assert edited
    assert plan.count == 1
    assert [skip.why for skip in writer.apply(plan).skipped] == [CHANGED]


def test_two_edits_and_the_undo_of_the_first(writer: Writer, yard: Yard) -> None:
    """It would bring a payload back that the second edit did not see."""
    job_id = yard.add(1)
    first = edit(writer, job_id, "[[2], {}]")
    second = edit(writer, job_id, "[[3], {}]")
    back = writer.undo(first)
    assert (back.restored, [skip.why for skip in back.skipped]) == (0, ["has changed since"])
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[3],{}]"
    assert writer.undo(second).restored == 1
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[2],{}]"


def test_an_edit_and_the_undo_of_a_change_of_priority_before_it(writer: Writer, yard: Yard) -> None:
    """A plan from before both must not take the edited job for the one that it saw."""
    job_id = yard.add(42)
    plan = writer.plan("discard", QUEUE, where="payload.0:42")
    result = writer.apply(writer.plan("reprioritise", QUEUE, priority="LOW"))
    edit(writer, job_id, "[[43], {}]")
    assert writer.undo(result.batch).restored == 0
    assert writer.apply(plan).applied == 0


@pytest.mark.parametrize("change", ["edit", "reprioritise"])
def test_a_plan_made_before_a_change_that_was_undone(writer: Writer, yard: Yard, change: str) -> None:
    """The job is again what was seen."""
    job_id = yard.add(42)
    plan = writer.plan("discard", QUEUE, where="payload.0:42")
    if change == "edit":
        edit(writer, job_id, "[[43], {}]")
    else:
        writer.apply(writer.plan("reprioritise", QUEUE, priority="LOW"))
    assert writer.undo().restored == 1
    assert writer.apply(plan).applied == 1


def test_a_plan_made_between_two_edits_of_which_one_was_undone(writer: Writer, yard: Yard) -> None:
    """No version is used twice."""
    job_id = yard.add(42)
    edit(writer, job_id, "[[43], {}]")
    plan = writer.plan("discard", QUEUE, where="payload.0:43")
    writer.undo()
    edit(writer, job_id, "[[44], {}]")
    assert writer.apply(plan).applied == 0
    assert yard.ids("ready") == [job_id]


def test_an_edited_job_is_moved_and_back(writer: Writer, yard: Yard) -> None:
    job_id = yard.add(1)
    edit(writer, job_id, "[[2], {}]")
    result = writer.apply(writer.plan("move", QUEUE, target=OTHER))
    assert result.applied == 1
    other = Yard(yard.url, yard.raw, OTHER)
    assert other.ids("ready") == [job_id]
    assert writer.undo().restored == 1
    assert yard.ids("ready") == [job_id]
    again = writer.apply(writer.plan("move", QUEUE, target=OTHER))
    edited = writer.draft(OTHER, job_id)
    writer.edit(edited, "[[3], {}]")
    assert writer.undo(again.batch).restored == 0, "it was edited where it was put"


def test_the_undo_of_an_edited_dead_letter_that_was_edited_again(writer: Writer, yard: Yard) -> None:
    job_id = yard.die(1)
    first = edit(writer, job_id, "[[2], {}]")
    edit(writer, job_id, "[[3], {}]")
    assert writer.undo(first).restored == 0
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[3],{}]"


@pytest.mark.parametrize("value", ["x", "", "9" * 30, "1.5"])
def test_a_broken_count_of_versions(writer: Writer, yard: Yard, value: str) -> None:
    """It begins anew, with numbers that were not given before."""
    job_id = yard.add(42)
    edit(writer, job_id, "[[43], {}]")
    plan = writer.plan("discard", QUEUE)
    yard.raw.hset(yard.key("meta"), "versions", value)
    for text in ("[[44], {}]", "[[45], {}]"):
        edit(writer, job_id, text)
    assert writer.apply(plan).applied == 0
    yard.raw.hset(yard.key("meta"), "versions", value)
    result = writer.apply(writer.plan("move", QUEUE, target=OTHER))
    yard.raw.hset(f"{{{OTHER}}}:meta", "versions", value)
    assert (result.applied, writer.undo().restored) == (1, 1)
    assert yard.ids("ready") == [job_id]
