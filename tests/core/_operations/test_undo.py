"""Apply, then undo: everything is as it was, and what went on since is left alone with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._operations.yard import OTHER, QUEUE, Yard
from qdeck import UsageError
from qdeck._engine import batch_transitions, keys, programs, transitions
from qdeck.admin import NothingToUndo, SkipCode

if TYPE_CHECKING:
    from typing import Any

    from qdeck.admin import Writer

FULL_HEAD: dict[str, Any] = {"tags": ("a", "b"), "on_failure": "mark", "limit_ms": 5000, "backoff": "E 1 2"}


def fill(yard: Yard) -> None:
    """Jobs in every state, with everything that a job can have."""
    for n in range(3):
        yard.die(n, retries=2, **FULL_HEAD)
        [handler] = yard.claim(5)
        yard.end(handler, "done")
        yard.die(n, unique=f"once {n}")
    for n in range(4):
        yard.add("delayed", n, delay_ms=10**7, priority=n)
    for n in range(6):
        yard.add("ready", n, priority=50 * (n % 3), **FULL_HEAD)
    yard.add("unique and ready", unique="mine")
    parent = yard.add("parent")
    child = yard.add("child", after=[parent], unique="child")
    yard.add("grandchild", after=[child, parent])


CASES: list[tuple[str, dict[str, Any]]] = [
    ("retry", {}),
    ("discard", {"state": "dead"}),
    ("discard", {"state": "done"}),
    ("discard", {"state": "delayed"}),
    ("discard", {}),
    ("cancel", {}),
    ("run", {}),
    ("reprioritise", {"priority": "CRITICAL"}),
    ("bury", {}),
]


@pytest.mark.parametrize(("verb", "options"), CASES, ids=[f"{verb}-{options}" for verb, options in CASES])
def test_undo_puts_everything_back(writer: Writer, yard: Yard, verb: str, options: dict[str, Any]) -> None:
    fill(yard)
    before = yard.dump()
    plan = writer.plan(verb, QUEUE, **options)
    assert plan.count
    assert yard.dump() == before, "a plan writes nothing"
    result = writer.apply(plan)
    assert (result.applied, result.skipped, result.error) == (plan.count, (), None)
    assert yard.dump() != before
    assert result.undoable == plan.count
    back = writer.undo(result.batch)
    assert (back.restored, back.skipped, back.error) == (plan.count, (), None)
    after = yard.dump()
    assert_same(after, before)
    assert_undone(writer, yard, result.batch)
    yard.forget_undo(result.batch)
    assert writer.undo(result.batch).restored == plan.count, "sent again it reports the same"
    assert yard.dump() == after


def assert_undone(writer: Writer, yard: Yard, batch: str) -> None:
    """An undo of what was undone reports who undid it, and writes nothing, not even a line of the log."""
    before = (yard.dump(), yard.raw.hgetall(keys.UNDO), yard.raw.xlen(keys.ACTIVITY))
    again = writer.undo(batch)
    assert (again.restored, again.skipped, again.error) == (0, (), None)
    assert again.earlier is not None
    assert again.earlier.by
    assert (yard.dump(), yard.raw.hgetall(keys.UNDO), yard.raw.xlen(keys.ACTIVITY)) == before


def assert_same(after: dict[str, Any], before: dict[str, Any]) -> None:
    """Equal but for the lists of who waits, which may name a job twice or in another order."""
    for part in sorted({*before, *after}):
        old, new = before.get(part), after.get(part)
        if part == "after" and old and new:
            old, new = ({k: sorted(set(v.split()[k[:1] == b">" :])) for k, v in d.items()} for d in (old, new))
        assert new == old, part


def test_discarding_takes_all_that_was_kept(writer: Writer, yard: Yard) -> None:
    fill(yard)
    plan = writer.plan("discard", QUEUE)
    writer.apply(plan)
    left = yard.dump()
    for part in ("head", "body"):
        assert set(left[part]) == {b""}, "only the padding is left"
    for part in ("error", "attempts", "log", "result", "after", "unique", "ready", "delayed", "dead_letter"):
        assert part not in left


def test_what_ran_since_is_left_alone(writer: Writer, yard: Yard) -> None:
    ids = [yard.die(n) for n in range(4)]
    result = writer.apply(writer.plan("retry", QUEUE))
    first, second = yard.claim(2)
    yard.end(first, "done")
    yard.end(second)
    back = writer.undo()
    assert back.batch == result.batch, "without a name: the own last one"
    assert back.restored == 2
    assert {skip.id: skip.why for skip in back.skipped} == {
        first.id: "is done now",
        second.id: "has died since",
    }
    assert set(yard.ids("dead")) == {*ids[2:], second.id}
    assert yard.raw.hget(yard.key("attempts"), ids[3]).startswith(b"1 0 0 ")


def test_undo_of_nothing(writer: Writer, yard: Yard) -> None:
    with pytest.raises(UsageError, match=r"no batch by .* can be undone"):
        writer.undo()
    with pytest.raises(UsageError, match="no batch 'x' can be undone"):
        writer.undo("x")


def test_without_a_name_only_the_last_batch_is_undone(writer: Writer, yard: Yard) -> None:
    yard.die()
    first = writer.apply(writer.plan("retry", QUEUE))
    assert writer.apply(writer.plan("discard", QUEUE, where="error:Nobody")).applied == 0
    other = Yard(yard.url, yard.raw, OTHER)
    late = writer.plan("cancel", OTHER, ids=[other.add()])
    [job] = other.claim()
    other.end(job, "done")
    result = writer.apply(late)
    assert (result.applied, result.skipped_count) == (0, 1)
    with pytest.raises(NothingToUndo, match=f"your last batch {result.batch} changed nothing") as raised:
        writer.undo()
    assert raised.value.before is not None
    assert raised.value.before.id == first.batch
    assert writer.undo(first.batch).restored == 1
    with pytest.raises(NothingToUndo, match="changed nothing") as raised:
        writer.undo()
    assert raised.value.before is None
    assert writer.undo(result.batch).restored == 0, "by its name it is found still"


def test_what_was_undone_is_not_applied_again(writer: Writer, yard: Yard) -> None:
    yard.die()
    plan = writer.plan("retry", QUEUE)
    writer.undo(writer.apply(plan).batch)
    with pytest.raises(UsageError, match="was undone"):
        writer.apply(plan)
    assert len(yard.ids("dead")) == 1


def test_a_retry_does_not_copy_tracebacks_into_its_undo(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(400, trace=20_000)
    result = writer.apply(writer.plan("retry", QUEUE))
    kept = int(yard.raw.hget(keys.undo_key(QUEUE, result.batch), "bytes") or 0)
    assert kept < 400 * 100
    assert 86_000_000 < yard.raw.pttl(keys.undo_key(QUEUE, result.batch)) <= batch_transitions.UNDO_TTL_MS


def test_undo_is_bounded_and_says_so(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1000)
    result = writer.apply(writer.plan("discard", QUEUE), keep_bytes=300_000)
    assert result.applied == 1000
    assert 0 < result.undoable < 1000
    back = writer.undo()
    assert back.restored == result.undoable
    assert back.skipped[0].code is SkipCode.UNDO_NOT_KEPT
    assert len(yard.ids("dead")) == result.undoable


def test_move_and_back(writer: Writer, yard: Yard) -> None:
    other = Yard(yard.url, yard.raw, OTHER)
    fill(yard)
    parent_less = writer.plan("move", QUEUE, target=OTHER)
    before = yard.dump()
    order = yard.ids("ready")
    result = writer.apply(parent_less)
    assert [skip.why for skip in result.skipped] == ["other jobs wait for it"]
    stays = {skip.id for skip in result.skipped}
    assert other.ids("ready") == [job_id for job_id in order if job_id not in stays], "order and priority are kept"
    assert len(other.ids("delayed")) == 4
    assert other.raw.hget(other.key("unique"), "mine") is not None
    assert yard.raw.hget(yard.key("unique"), "mine") is None
    back = writer.undo()
    assert (back.restored, back.skipped) == (result.applied, ())
    after = yard.dump()
    for part in ("ready", "delayed", "head", "body", "unique", "meta"):
        assert after[part] == before[part], part
    assert other.ids("ready") == other.ids("delayed") == []
    assert [total for total in other.dump()["meta"] if total.startswith(b"n:")] == [], "as if none had come"
    yard.forget_undo(result.batch)
    assert writer.undo(result.batch).restored == back.restored
    assert yard.dump()["ready"] == before["ready"]


def test_a_job_is_not_moved_where_its_id_is_taken(writer: Writer, yard: Yard) -> None:
    """It stays where it is, and so does the other one; nothing is lost, and it is not counted as applied."""
    other = Yard(yard.url, yard.raw, OTHER)
    ids = [yard.add("mine", job_id=f"job{n}") for n in range(4)]
    for taken, body in (("job1", "waits"), ("job2", "is done")):
        other.add(body, job_id=taken)
    [done] = [job for job in other.claim(2) if job.id == "job2"]
    other.end(done, "done")
    plan = writer.plan("move", QUEUE, target=OTHER)
    result = writer.apply(plan)
    assert (result.applied, {skip.id: (skip.code, skip.data) for skip in result.skipped}) == (
        2, dict.fromkeys(("job1", "job2"), (SkipCode.ALREADY_THERE, OTHER)),
    )  # fmt: skip
    assert yard.ids("ready") == ["job1", "job2"]
    assert b"mine" in yard.raw.hget(yard.key("body"), "job1")
    assert b"waits" in other.raw.hget(other.key("body"), "job1")
    again = writer.apply(plan)
    assert (again.applied, again.skipped) == (result.applied, result.skipped), "told the same though all are there now"
    yard.raw.zrem(yard.key("removed"), "job0")  # as in a minute: till then an enqueue may be one that is sent again
    yard.add("new", job_id="job0")
    back = writer.undo(result.batch)
    assert (back.restored, [(skip.id, skip.code) for skip in back.skipped]) == (
        1, [("job0", SkipCode.ALREADY_THERE)],
    )  # fmt: skip
    assert set(yard.ids("ready")) == set(ids)
    assert b"new" in yard.raw.hget(yard.key("body"), "job0")
    assert "job0" in other.ids("ready")


def test_requeue_is_fenced_and_cannot_be_undone(writer: Writer, yard: Yard) -> None:
    ids = [yard.add(n, priority=n) for n in range(3)]
    held = yard.claim(3)
    plan = writer.plan("requeue", QUEUE)
    assert plan.tail.has_no_undo
    result = writer.apply(plan)
    assert (result.applied, result.undoable, result.undo_until_ms) == (3, 0, None)
    assert yard.ids("ready") == ids, "back to their old places"
    assert yard.raw.hlen(yard.key("lease")) == 1
    turn = yard.end(held[0], "done")
    assert turn.refused == [held[0].id], "its old owner has nothing to say any more"
    assert yard.ids("ready") == ids
    back = writer.undo()
    assert (back.restored, len(back.skipped)) == (0, 3)
    assert "waits in ready" in back.skipped[0].why


def test_a_cancel_of_running_jobs_is_taken_back(writer: Writer, yard: Yard) -> None:
    yard.add()
    [job] = yard.claim()
    before = yard.dump()
    result = writer.apply(writer.plan("cancel", QUEUE))
    assert (result.applied, result.cancel_requested) == (1, 1)
    beat = yard.client.run(programs.call(transitions.renew_leases(QUEUE, [(job.id, job.token)])))
    assert beat.cancels == [job.id]
    assert yard.raw.xlen(yard.key("stop_requests")) == 1
    assert writer.undo().restored == 1
    after = yard.dump()
    assert {part: after[part] for part in after if part != "running"} == {
        part: before[part] for part in before if part != "running"
    }, "but for the heartbeat"
    assert not yard.raw.exists(yard.key("stop_requests")), "no worker needs to look any more"


def test_burying_a_running_job_is_fenced_and_makes_its_handler(writer: Writer, yard: Yard) -> None:
    job_id = yard.add(on_failure="mark")
    [job] = yard.claim()
    writer.apply(writer.plan("bury", QUEUE, reason="it hangs"))
    assert yard.ids("dead") == [job_id]
    assert len(yard.ids("ready")) == 1, "the failure handler"
    assert yard.end(job, "done").refused == [job_id]
    seen = writer.job(QUEUE, job_id)
    assert seen.failure is not None
    assert seen.failure.kind == "buried"
    assert "it hangs" in seen.failure.message
    back = writer.undo()
    assert (back.restored, back.requeued) == (1, 1), "it ran, and waits now"
    yard.forget_undo(back.batch)
    assert writer.undo(back.batch).requeued == 1
    assert yard.ids("ready") == [job_id], "and the handler that did not run is gone"
    assert yard.raw.hget(yard.key("meta"), "n:enqueued") == b"1"


def test_a_discarded_job_whose_name_is_taken_stays_away(writer: Writer, yard: Yard) -> None:
    yard.add(unique="one")
    writer.apply(writer.plan("discard", QUEUE))
    twin = yard.add(unique="one")
    back = writer.undo()
    assert (back.restored, back.skipped[0].why) == (0, f"its unique name is held by {twin}")
