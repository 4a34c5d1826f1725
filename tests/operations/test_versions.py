"""A plan changes exactly what was seen: a job that was edited since is skipped, though it waits where it waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from operations.yard import OTHER, QUEUE, Yard
from qdeck._deck.model import State
from qdeck._filter import parse
from qdeck._operations import api, planning
from qdeck._operations.model import Verb

if TYPE_CHECKING:
    from qdeck._deck.deck import Deck

CHANGED = "has changed since"


def in_state(yard: Yard, state: str, *args: Any) -> str:
    """A job that waits."""
    after = [yard.add("parent", priority=0)] if state == "blocked" else []
    return yard.add(*args, after=after, delay_ms=10**7 if state == "delayed" else None)


def edit(deck: Deck, job_id: str, text: str) -> str:
    result = api.edit_job(deck, api.read_draft(deck, QUEUE, job_id), text)
    assert result.applied == 1
    return result.batch


VERBS: dict[str, dict[str, Any]] = {
    "discard": {}, "cancel": {}, "bury": {}, "move": {"target": OTHER}, "run": {}, "reprioritise": {"priority": "LOW"},
}  # fmt: skip
WAITING = (State.READY, State.DELAYED, State.BLOCKED)
CASES = [(verb, VERBS[verb], state.value) for verb in VERBS for state in WAITING if state in Verb(verb).states]


@pytest.mark.parametrize(("verb", "options", "state"), CASES)
def test_a_job_that_was_edited_since(deck: Deck, yard: Yard, verb: str, options: dict[str, Any], state: str) -> None:
    job_id = in_state(yard, state, 42)
    in_state(yard, state, 42)
    plan = api.build_plan(deck, verb, QUEUE, where=f"payload.0:42 state:{state}", **options)
    edit(deck, job_id, "[[43], {}]")
    result = api.apply_plan(deck, plan)
    assert result.applied == 1
    assert [(skip.id, skip.why) for skip in result.skipped] == [(job_id, CHANGED)]
    assert job_id in yard.ids(state)
    again = api.build_plan(deck, verb, QUEUE, where=f"payload.0:43 state:{state}", **options)
    assert api.apply_plan(deck, again).applied == 1, "what was seen anew is changed"


@pytest.mark.parametrize("state", ["delayed", "blocked"])
def test_a_job_whose_priority_was_changed_since(deck: Deck, yard: Yard, state: str) -> None:
    """Its place tells nothing of that."""
    job_id = in_state(yard, state, 1)
    plan = api.build_plan(deck, "discard", QUEUE, where=f"priority:100 state:{state}")
    api.apply_plan(deck, api.build_plan(deck, "reprioritise", QUEUE, ids=[job_id], priority="LOW"))
    result = api.apply_plan(deck, plan)
    assert (result.applied, [skip.why for skip in result.skipped]) == (0, [CHANGED])
    assert job_id in yard.ids(state)


def test_a_job_is_edited_while_a_plan_is_made(deck: Deck, yard: Yard) -> None:
    """The version is read before what the filter looks at: an edit between the two is noticed."""
    job_id = yard.add(42)
    asked = planning.Wish(verb=Verb.DISCARD, queues=(QUEUE,), wanted=parse("payload.0:42"))
    program = planning.build(deck.memory, deck.address, asked)
    send = next(program)
    edited = False
    while True:
        reply = yard.client.run(_once(send))
        if b"HMGET\r\n" in send.data and b"{%s}:body" % QUEUE.encode() in send.data and not edited:
            edited = True
            edit(deck, job_id, "[[43], {}]")
        try:
            send = program.send(reply)
        except StopIteration as end:
            plan = end.value
            break
    assert edited
    assert plan.count == 1
    assert [skip.why for skip in api.apply_plan(deck, plan).skipped] == [CHANGED]


def _once(send: Any) -> Any:
    return (yield send)


def test_two_edits_and_the_undo_of_the_first(deck: Deck, yard: Yard) -> None:
    """It would bring a payload back that the second edit did not see."""
    job_id = yard.add(1)
    first = edit(deck, job_id, "[[2], {}]")
    second = edit(deck, job_id, "[[3], {}]")
    back = api.undo_batch(deck, first)
    assert (back.restored, [skip.why for skip in back.skipped]) == (0, ["has changed since"])
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[3],{}]"
    assert api.undo_batch(deck, second).restored == 1
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[2],{}]"


def test_an_edit_and_the_undo_of_a_change_of_priority_before_it(deck: Deck, yard: Yard) -> None:
    """A plan from before both must not take the edited job for the one that it saw."""
    job_id = yard.add(42)
    plan = api.build_plan(deck, "discard", QUEUE, where="payload.0:42")
    result = api.apply_plan(deck, api.build_plan(deck, "reprioritise", QUEUE, priority="LOW"))
    edit(deck, job_id, "[[43], {}]")
    assert api.undo_batch(deck, result.batch).restored == 0
    assert api.apply_plan(deck, plan).applied == 0


@pytest.mark.parametrize("change", ["edit", "reprioritise"])
def test_a_plan_made_before_a_change_that_was_undone(deck: Deck, yard: Yard, change: str) -> None:
    """The job is again what was seen."""
    job_id = yard.add(42)
    plan = api.build_plan(deck, "discard", QUEUE, where="payload.0:42")
    if change == "edit":
        edit(deck, job_id, "[[43], {}]")
    else:
        api.apply_plan(deck, api.build_plan(deck, "reprioritise", QUEUE, priority="LOW"))
    assert api.undo_batch(deck).restored == 1
    assert api.apply_plan(deck, plan).applied == 1


def test_a_plan_made_between_two_edits_of_which_one_was_undone(deck: Deck, yard: Yard) -> None:
    """No version is used twice."""
    job_id = yard.add(42)
    edit(deck, job_id, "[[43], {}]")
    plan = api.build_plan(deck, "discard", QUEUE, where="payload.0:43")
    api.undo_batch(deck)
    edit(deck, job_id, "[[44], {}]")
    assert api.apply_plan(deck, plan).applied == 0
    assert yard.ids("ready") == [job_id]


def test_an_edited_job_is_moved_and_back(deck: Deck, yard: Yard) -> None:
    job_id = yard.add(1)
    edit(deck, job_id, "[[2], {}]")
    result = api.apply_plan(deck, api.build_plan(deck, "move", QUEUE, target=OTHER))
    assert result.applied == 1
    other = Yard(yard.url, yard.raw, OTHER)
    assert other.ids("ready") == [job_id]
    assert api.undo_batch(deck).restored == 1
    assert yard.ids("ready") == [job_id]
    again = api.apply_plan(deck, api.build_plan(deck, "move", QUEUE, target=OTHER))
    edited = api.read_draft(deck, OTHER, job_id)
    api.edit_job(deck, edited, "[[3], {}]")
    assert api.undo_batch(deck, again.batch).restored == 0, "it was edited where it was put"


def test_the_undo_of_an_edited_dead_letter_that_was_edited_again(deck: Deck, yard: Yard) -> None:
    job_id = yard.die(1)
    first = edit(deck, job_id, "[[2], {}]")
    edit(deck, job_id, "[[3], {}]")
    assert api.undo_batch(deck, first).restored == 0
    assert yard.raw.hget(yard.key("body"), job_id) == b"[[3],{}]"


@pytest.mark.parametrize("value", ["x", "", "9" * 30, "1.5"])
def test_a_broken_count_of_versions(deck: Deck, yard: Yard, value: str) -> None:
    """It begins anew, with numbers that were not given before."""
    job_id = yard.add(42)
    edit(deck, job_id, "[[43], {}]")
    plan = api.build_plan(deck, "discard", QUEUE)
    yard.raw.hset(yard.key("meta"), "versions", value)
    for text in ("[[44], {}]", "[[45], {}]"):
        edit(deck, job_id, text)
    assert api.apply_plan(deck, plan).applied == 0
    yard.raw.hset(yard.key("meta"), "versions", value)
    result = api.apply_plan(deck, api.build_plan(deck, "move", QUEUE, target=OTHER))
    yard.raw.hset(f"{{{OTHER}}}:meta", "versions", value)
    assert (result.applied, api.undo_batch(deck).restored) == (1, 1)
    assert yard.ids("ready") == [job_id]
