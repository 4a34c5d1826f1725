"""A batch whose process ended before it did is in the log with what it did, and can be undone or continued."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pytest

from core._operations.test_undo import assert_same
from core._operations.yard import OTHER, QUEUE, Yard, now_ms
from qdeck import QdeckError, UsageError
from qdeck._engine import keys
from qdeck._operations import batches
from qdeck._server import queue_details, queue_settings
from qdeck.admin import Code, Tally, Writer, actor, load_plan
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Tally
    from support.processes import PythonProcess


class Killed(BaseException):
    """Ends a process between two slices, as kill -9 does: nothing of it is written down."""


def kill(writer: Writer, name: str, after: int) -> None:
    """Apply a plan, and end in the middle of it."""

    def die(tally: Tally) -> None:
        if tally.done >= after:
            raise Killed

    with pytest.raises(Killed):
        writer.apply(load_plan(name), progress=die)


def test_what_is_interrupted_is_in_the_log_with_what_it_did_and_can_be_undone(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1200)
    before = yard.dump()
    plan = writer.plan("discard", QUEUE, reason="bad release")
    kill(writer, plan.id, 1)
    left = len(yard.ids("dead"))
    assert 0 < left < 1200
    [row] = writer.activity()
    assert (row.verb, row.outcome, row.reason, row.batch) == ("discard", "running", "bad release", plan.batch)
    yard.interrupt(plan.batch)
    for rows in (writer.activity(), writer.recent_activity()):
        [row] = rows
        assert (row.outcome, dict(row.counts)) == ("interrupted", {"planned": 1200, "applied": 1200 - left})
        assert row.undo_until_ms is not None
    assert writer.find_batch().done == 1200 - left
    back = writer.undo()
    assert (back.batch, back.restored, back.skipped) == (plan.batch, 1200 - left, ())
    assert_same(yard.dump(), before)
    assert [(one.verb, one.outcome) for one in writer.activity()] == [("discard", "interrupted"), ("undo", "done")]


def test_a_small_batch_that_was_interrupted_is_in_the_log_too(writer: Writer, yard: Yard) -> None:
    yard.die()
    plan = writer.plan("retry", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)
    [row] = writer.activity()
    assert (row.outcome, row.counts["applied"]) == ("interrupted", 1)


def test_the_next_writer_closes_what_was_interrupted(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(700)
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)
    gone = 700 - len(yard.ids("dead"))
    other = writer.apply(writer.plan("retry", QUEUE, ids=yard.ids("dead")[:1]))
    record = writer.batches()[plan.batch]
    assert (record.interrupted, record.applied, record.undoable) == (True, gone, gone)
    assert [(one.batch, one.outcome) for one in writer.activity()] == [
        (plan.batch, "interrupted"), (other.batch, "done"),
    ]  # fmt: skip
    assert writer.close_interrupted() == [], "it is closed once"
    writer.undo(plan.batch)
    assert len(yard.ids("dead")) == 699


def test_what_was_interrupted_goes_on(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(700)
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)
    [closed] = writer.close_interrupted()
    assert closed.id == plan.batch
    result = writer.apply(plan)
    assert (result.applied, yard.ids("dead")) == (700, [])
    assert [(one.outcome, one.counts["applied"]) for one in writer.activity()] == [
        ("interrupted", closed.applied), ("done", 700),
    ]  # fmt: skip
    record = writer.batches()[plan.batch]
    assert (record.interrupted, record.applied) == (False, 700)
    assert writer.undo().restored == 700


def test_jobs_of_a_killed_move_are_named_and_delivered_by_the_next_operation(
    writer: Writer, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [yard.add(n) for n in range(30)]
    other = Yard(yard.url, yard.raw, OTHER)
    other.add(job_id="there")
    plan = writer.plan("move", QUEUE, target=OTHER)
    kill(writer, plan.id, 1)
    assert (yard.ids("ready"), other.ids("ready")) == ([], ["there"])
    assert not [one for one in writer.snapshot().findings if one.code is Code.UNDELIVERED], "it may go on"
    monkeypatch.setattr(queue_details, "UNDELIVERED_MS", 0)
    [found] = [one for one in writer.snapshot().findings if one.code is Code.UNDELIVERED]
    assert found.text == (
        f"30 outbox entries of {QUEUE} are not delivered to other queues: start a worker of it, or qdeck agent"
    )
    assert found in writer.health().findings
    yard.raw.hset(keys.WORKERS, "w1", json.dumps({"queues": [QUEUE], "heartbeat_ms": now_ms(), "state": "running"}))
    assert not [one for one in writer.snapshot().findings if one.code is Code.UNDELIVERED], "its worker delivers them"
    yard.raw.delete(keys.WORKERS)
    yard.interrupt(plan.batch)
    writer.apply(writer.plan("discard", OTHER, ids=["there"]))
    assert set(other.ids("ready")) == set(ids)
    assert not [one for one in writer.snapshot().findings if one.code is Code.UNDELIVERED]
    assert writer.undo(plan.batch).restored == 30
    assert set(yard.ids("ready")) == set(ids)


def test_one_that_goes_on_slowly_is_not_interrupted(
    writer: Writer, yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_RENEW_S", 0.0)
    yard.bulk_dead(20)
    plan = writer.plan("discard", QUEUE)
    seen: list[tuple[str, int]] = []
    until: list[int] = []

    def look(tally: Tally) -> None:
        if 0 < tally.done < 20:
            [row] = writer.activity()
            seen.append((row.outcome, row.counts["applied"] - tally.done))
            until.append(writer.batches()[plan.batch].open_until_ms)

    writer.apply(plan, rate=30, progress=look)
    assert seen
    assert {outcome for outcome, _ in seen} == {"running"}
    assert until[-1] > writer.batches()[plan.batch].at_ms + batches.OPEN_MS


def test_one_that_is_forgotten_after_a_day_stays_in_the_log(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(700)
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch, until_ms=1, done=250)
    left = yard.ids("dead")[0]
    writer.edit(writer.draft(QUEUE, left), "[[2], {}]")
    assert plan.batch not in writer.batches()
    first, second = writer.activity()
    assert (first.batch, first.outcome, first.counts["applied"]) == (plan.batch, "interrupted", 250)
    assert (first.undo_until_ms, second.verb) == (None, "edit")


def test_what_an_agent_left_is_closed_and_not_named_as_an_operators_own(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(700)
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)
    [found], left_ms = writer.interrupted()
    assert (found.id, found.done, left_ms) == (plan.batch, 700 - len(yard.ids("dead")), None)
    yard.interrupt(plan.batch, automatic=True)
    assert writer.interrupted() == ([], None)
    [closed] = writer.close_interrupted()
    assert closed.id == plan.batch


def test_what_the_server_refused_is_no_batch(writer: Writer, yard: Yard) -> None:
    yard.die()
    plan = writer.plan("discard", QUEUE)
    yard.raw.rename(yard.key("meta"), "aside")
    yard.raw.set(yard.key("meta"), "not a hash")
    with pytest.raises(QdeckError, match="another type of data"):
        writer.apply(plan)
    assert writer.batches() == {}
    assert writer.activity() == []


def test_an_undo_that_was_interrupted_is_in_the_log_and_goes_on(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(5000)
    before = yard.dump()
    result = writer.apply(writer.plan("discard", QUEUE))

    def die(restored: int) -> None:
        if restored:
            raise Killed

    with pytest.raises(Killed):
        writer.undo(progress=die)
    back = len(yard.ids("dead"))
    assert 0 < back < 5000
    assert [(one.verb, one.outcome) for one in writer.activity()] == [("discard", "done"), ("undo", "running")]
    record = writer.batches()[result.batch]
    assert record.undo is not None
    record.undo.open_until_ms = 1
    writer.write(batches.write(record))
    killed = ("undo", "interrupted", back)
    assert [(one.verb, one.outcome, one.counts.get("restored")) for one in writer.activity()][1:] == [killed]
    assert writer.close_interrupted() == []
    assert [(one.verb, one.outcome, one.counts.get("restored")) for one in writer.activity()][1:] == [killed]
    done = writer.undo()
    assert (done.batch, done.restored) == (result.batch, 5000)
    assert_same(yard.dump(), before)
    told = [(one.verb, one.outcome, one.counts.get("restored")) for one in writer.activity()][1:]
    assert told == [killed, ("undo", "done", 5000)]


@pytest.mark.parametrize("verb", ["discard", "move"])
def test_an_undo_that_is_done_again_at_once_keeps_what_the_killed_one_did_in_the_log(
    writer: Writer, yard: Yard, verb: str
) -> None:
    state = "dead" if verb == "discard" else "ready"
    if verb == "discard":
        yard.bulk_dead(900)
    else:
        yard.bulk_ready(900)
    Yard(yard.url, yard.raw, OTHER).add()
    plan = writer.plan(verb, QUEUE, state=state, target=OTHER if verb == "move" else None)
    assert writer.apply(plan).applied == 900

    def die(restored: int) -> None:
        if restored:
            raise Killed

    with pytest.raises(Killed):
        writer.undo(progress=die)
    back = len(yard.ids(state))
    assert 0 < back < 900
    assert writer.undo().restored == 900
    told = [(one.verb, one.outcome, one.counts.get("restored")) for one in writer.activity()][1:]
    assert told == [("undo", "interrupted", back), ("undo", "done", 900)]


@pytest.mark.parametrize("closed", [True, False])
def test_a_plan_that_another_operator_continues_keeps_the_first_one(
    writer: Writer, yard: Yard, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    host = actor().partition("@")[2]
    yard.bulk_dead(700)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    began_ms = writer.batches()[plan.batch].at_ms
    if closed:
        yard.interrupt(plan.batch)
    monkeypatch.setattr(queue_settings, "account", lambda: "bob")
    assert writer.apply(plan).applied == 700
    told = [(one.who, one.continued_by, one.outcome) for one in writer.activity()]
    assert told == [*([("ana", "", "interrupted")] if closed else []), ("ana", f"bob@{host}", "done")]
    record = writer.batches()[plan.batch]
    assert (record.by, record.continued_by, record.at_ms) == (f"ana@{host}", f"bob@{host}", began_ms)
    assert writer.find_batch().id == plan.batch, "it is the last one of bob, too"
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    assert writer.find_batch().id == plan.batch


def test_a_batch_of_an_adapter_that_is_not_installed_is_refused_with_its_name(writer: Writer, yard: Yard) -> None:
    yard.die()
    result = writer.apply(writer.plan("discard", QUEUE))
    record = writer.batches()[result.batch]
    record.adapters = ["acme"]
    writer.write(batches.write(record))
    with pytest.raises(UsageError, match="the adapter acme, which is not installed here") as caught:
        writer.undo()
    assert "Install the package" in (caught.value.hint or "")
    assert yard.ids("dead") == []
    assert writer.batches()[result.batch].undo is None


def test_a_process_that_was_killed_is_interrupted_within_seconds(
    writer: Writer, yard: Yard, make_process: Callable[..., PythonProcess]
) -> None:
    yard.bulk_dead(20_000)
    plan = writer.plan("discard", QUEUE)
    process = make_process("-m", "core._operations.applier", yard.url, "apply", plan.id)
    process.wait_for("begun")
    process.kill9()
    process.reap()
    left = len(yard.ids("dead"))
    assert left
    deadline = time.monotonic() + 60
    while (row := writer.activity()[0]).outcome == "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (row.outcome, row.counts["applied"]) == ("interrupted", 20_000 - left)
    assert yard.raw.hexists(keys.UNDO, plan.batch)


@pytest.mark.parametrize("verb", ["discard", "retry"])
def test_a_batch_that_is_being_applied_is_not_undone(writer: Writer, yard: Yard, verb: str) -> None:
    yard.bulk_dead(40)
    before = yard.dump()
    plan = writer.plan(verb, QUEUE)
    seen: list[str] = []

    def undo(tally: Tally) -> None:
        with Writer(yard.url) as other:
            for refused in (other.undo, other.find_batch):
                with pytest.raises(UsageError, match=f"batch {plan.batch} is still being applied by {actor()}") as why:
                    refused(plan.batch if tally.done < 40 else None)
                assert f"({tally.done:,} of 40 so far)" in str(why.value)
                assert why.value.hint == "Stop it there, or wait until it ends."
                seen.append(str(why.value))

    result = writer.apply(plan, rate=100, progress=undo)
    assert (result.applied, result.error, yard.ids("dead")) == (40, None, [])
    assert len(seen) > 2
    assert [(one.verb, one.outcome) for one in writer.activity()] == [(verb, "done")]
    assert writer.undo().restored == 40
    assert_same(yard.dump(), before)


@pytest.mark.parametrize("verb", ["discard", "retry"])
@pytest.mark.parametrize("after", [0, 20, 40])
def test_a_process_that_stood_still_while_its_batch_was_undone_changes_nothing_more(
    writer: Writer, yard: Yard, monkeypatch: pytest.MonkeyPatch, verb: str, after: int
) -> None:
    monkeypatch.setattr(batches, "_RENEW_S", 0.0)
    yard.bulk_dead(40)
    before = yard.dump()
    plan, done, undone = writer.plan(verb, QUEUE), [0], [False]

    def count(tally: Tally) -> None:
        done[0] = tally.done
        meanwhile()

    def meanwhile() -> bool:
        if done[0] >= after and not undone[0]:
            undone[0] = True
            yard.interrupt(plan.batch)
            with Writer(yard.url) as other:
                assert other.undo(plan.batch).restored == done[0]
        return False

    if after:
        result = writer.apply(plan, rate=100, progress=count, cancelled=meanwhile)
        assert (result.error, result.applied, result.undoable) == ("this batch was undone", done[0], 0)
        assert done[0] < 40 or after == 40
    else:
        with pytest.raises(UsageError, match="this batch was undone"):
            writer.apply(plan, rate=100, cancelled=meanwhile)
    assert_same(yard.dump(), before)
    record = writer.batches()[plan.batch]
    assert record.undone
    outcomes = {(one.verb, one.outcome) for one in writer.activity()}
    assert outcomes == {(verb, "failed" if after else "interrupted"), ("undo", "done")}
    assert writer.undo(plan.batch).earlier is not None


def test_a_batch_that_is_being_undone_is_not_continued(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(700)
    plan = writer.plan("discard", QUEUE)
    kill(writer, plan.id, 1)
    yard.interrupt(plan.batch)

    def go_on(_restored: int) -> None:
        with Writer(yard.url) as other, pytest.raises(UsageError, match="is being undone by"):
            other.apply(load_plan(plan.id))

    back = writer.undo(progress=go_on)
    assert back.restored
    assert len(yard.ids("dead")) == 700


def test_a_batch_that_another_process_still_applies_cannot_be_undone(writer: Writer, yard: Yard) -> None:
    """One of two processes with the same plan stops: the undo would lose what the other one changes after it."""
    yard.bulk_dead(400)
    before = yard.dump()
    plan = writer.plan("discard", QUEUE)
    stop = threading.Event()
    first = threading.Thread(
        target=lambda: Writer(yard.url).apply(load_plan(plan.id), rate=50, cancelled=stop.is_set), daemon=True
    )
    first.start()
    try:
        wait_until(lambda: len(yard.ids("dead")) < 400)
        seen = len(yard.ids("dead"))
        writer.apply(load_plan(plan.id), rate=50, cancelled=lambda: len(yard.ids("dead")) < seen)
        with pytest.raises(UsageError, match="still being applied"):
            writer.undo(plan.batch)
    finally:
        stop.set()
        first.join()
    if writer.find_batch(plan.batch).applied is None:
        yard.interrupt(plan.batch)
    writer.undo(plan.batch)
    assert_same(yard.dump(), before)


def test_a_process_that_is_stopped_at_once_sees_another_that_began_since(writer: Writer, yard: Yard) -> None:
    """It has not renewed the batch since the other one began: it reads who else applies it before it closes it."""
    yard.bulk_dead(400)
    before, refused = yard.dump(), list[str]()
    plan = writer.plan("discard", QUEUE)
    stop = threading.Event()
    first = threading.Thread(
        target=lambda: Writer(yard.url).apply(load_plan(plan.id), rate=50, cancelled=stop.is_set), daemon=True
    )
    first.start()
    wait_until(lambda: len(yard.ids("dead")) < 400)

    def stop_first(_tally: Tally) -> None:
        if not refused:
            stop.set()
            first.join()
            with pytest.raises(UsageError) as raised, Writer(yard.url) as other:
                other.undo(plan.batch)
            refused.append(str(raised.value))

    writer.apply(load_plan(plan.id), rate=500, progress=stop_first)
    assert "still being applied" in refused[0]
    assert yard.ids("dead") == []
    record = writer.find_batch(plan.batch)
    assert (record.applied is None, record.appliers) == (False, {}), "the other one closed it"
    assert writer.undo(plan.batch).restored == 400
    assert_same(yard.dump(), before)
