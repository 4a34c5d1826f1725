"""A plan is done exactly, and once: what changed is skipped with the reason, and it goes on where it ended."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from core._operations.yard import OTHER, QUEUE, Yard, now_ms
from qdeck import InvalidFilter, InvalidOption, NotAllowed, UsageError
from qdeck._engine import batch_transitions, programs
from qdeck._operations import batches
from qdeck._operations.applying import NOTE_EVERY
from qdeck.adapters.native.applying import SliceSize
from qdeck.admin import AsyncWriter, Plan, Stop, StopCode, Verb, Writer, load_plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from qdeck.admin import Program, Tally
    from support.servers import Server


@pytest.mark.parametrize("verb", ["retry", "discard"])
def test_exactly_the_unchanged_half(writer: Writer, yard: Yard, verb: str) -> None:
    ids = yard.bulk_dead(1000)
    plan = writer.plan(verb, QUEUE)
    changed = ids[::2]
    half = len(changed) // 2
    other = writer.plan("retry", QUEUE, ids=changed[:half])
    writer.apply(other)
    for job_id in changed[half:]:
        yard.raw.zincrby(yard.key("dead"), 1, job_id)  # it ran and died again meanwhile
    result = writer.apply(plan)
    assert (result.applied, len(result.skipped), result.error) == (500, 500, None)
    assert {skip.id for skip in result.skipped} == set(changed)
    assert {skip.why for skip in result.skipped} == {"is ready now", "has changed since"}
    assert set(yard.ids("dead")) == set(changed[half:])
    assert set(yard.ids("ready")) == set(changed[:half]) | (set(ids[1::2]) if verb == "retry" else set())


def test_applied_twice_is_once_and_tells_the_same(writer: Writer, yard: Yard) -> None:
    ids = yard.bulk_dead(700)
    plan = writer.plan("retry", QUEUE)
    yard.raw.zrem(yard.key("dead"), ids[3])
    first = writer.apply(plan)
    after = yard.dump()
    again = writer.apply(load_plan(plan.id))
    assert (again.applied, again.skipped, again.undoable) == (first.applied, first.skipped, first.undoable)
    assert yard.dump() == after


def test_a_slice_that_is_sent_twice_is_done_once(yard: Yard) -> None:
    [job_id] = yard.bulk_dead(1)
    [(_, score)] = yard.raw.zrange(yard.key("dead"), 0, 0, withscores=True)
    op = batch_transitions.apply_slice(
        QUEUE, "retry", "dead", [(job_id, f"{score:.0f}")], batch="b", offset=0, event=b'{"by":"me"}'
    )
    assert yard.client.run(programs.call(op)).skipped == []
    [job] = yard.claim()
    yard.end(job)
    dead = yard.dump()
    assert yard.client.run(programs.call(op)).skipped == [], "the answer of the first time"
    assert yard.dump() == dead, "though it is dead once more"


def test_cancelled_then_resumed_with_other_slices(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1000)
    plan = writer.plan("retry", QUEUE)
    seen: list[int] = []

    def note(tally: Tally) -> None:
        seen.append(tally.done)

    part = writer.apply(plan, rate=350.0, progress=note, cancelled=lambda: len(seen) == 3)
    assert part.stopped == Stop(code=StopCode.CANCELLED)
    assert seen[:2] == [70, 140], "smaller slices at a rate"
    assert len(yard.ids("ready")) == part.applied == seen[2]
    result = writer.apply(plan)
    assert (result.applied, result.skipped, result.undoable) == (1000, (), 1000)
    assert len(yard.ids("ready")) == 1000
    assert writer.undo().restored == 1000


def test_resumed_with_smaller_slices(writer: Writer, yard: Yard) -> None:
    """What was done as one slice is one, however many entries the next one asks for."""
    yard.bulk_dead(1000)
    plan = writer.plan("retry", QUEUE)
    seen: list[int] = []
    part = writer.apply(plan, progress=lambda tally: seen.append(tally.done), cancelled=lambda: len(seen) == 3)
    assert part.applied == seen[2] > 150
    smaller = writer.apply(
        plan, rate=350.0, progress=lambda tally: seen.append(tally.done), cancelled=lambda: len(seen) == 8
    )
    # The last one may be small, where the server was slow: then the next call goes on after it.
    assert (seen[3:5], seen[5] >= seen[2]) == (seen[:2], True), "the slices of before"
    assert smaller.applied == seen[7] <= seen[5] + 140, "then smaller ones"
    result = writer.apply(plan, rate=2000.0, progress=lambda tally: seen.append(tally.done))
    assert (result.applied, result.skipped) == (1000, ())
    assert len(yard.ids("ready")) == 1000
    assert writer.undo().restored == 1000


def test_someone_else_applies_the_file(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    yard.bulk_dead(10)
    plan = writer.plan("retry", QUEUE, where="error:Timeout*", path=tmp_path / "plan.jsonl", reason="fixed")
    assert (tmp_path / "plan.jsonl").stat().st_mode & 0o777 == 0o600
    shutil.copy(plan.path, tmp_path / "theirs.jsonl")
    theirs = load_plan(tmp_path / "theirs.jsonl")
    assert theirs.batch == plan.batch
    assert writer.apply(theirs).applied == 5
    assert writer.apply(plan).applied == 5
    assert len(yard.ids("ready")) == 5
    job = writer.job(QUEUE, yard.ids("ready")[0])
    event = job.history[-1]
    assert (event.kind, event.data["reason"], event.data["batch"]) == ("retried", "fixed", plan.batch)
    assert "@" in event.data["by"]
    assert (job.attempts, job.failure is not None) == (0, True), "attempts anew, history kept"


def test_a_plan_of_another_server_is_refused(
    writer: Writer, yard: Yard, make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE)
    other = make_server()
    with Writer(other.url) as elsewhere, pytest.raises(UsageError, match="made on another server"):
        elsewhere.apply(plan)
    assert elsewhere.snapshot().queues == ()


def test_who_may_not_read_is_told_that_and_not_of_another_server(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(3)
    plan = writer.plan("retry", QUEUE)
    yard.raw.execute_command("ACL", "SETUSER", "blind", "on", "nopass", "+@connection", "+time")
    try:
        with Writer(yard.url.replace("redis://", "redis://blind:x@")) as blind, pytest.raises(NotAllowed, match="hget"):
            blind.apply(plan)
    finally:
        yard.raw.execute_command("ACL", "DELUSER", "blind")
    assert len(yard.ids("dead")) == 3


def test_an_expired_plan_is_refused_unless_it_was_begun(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(300)
    plan = writer.plan("retry", QUEUE)
    old = Plan(plan.path, msgspec.structs.replace(plan.head, expires_ms=now_ms() - 1), plan.tail)
    with pytest.raises(UsageError, match="expired"):
        writer.apply(old)
    assert len(yard.ids("dead")) == 300
    calls: list[int] = []
    writer.apply(plan, progress=lambda tally: calls.append(tally.done), cancelled=lambda: bool(calls))
    assert writer.apply(old).applied == 300


def test_a_plan_that_is_cut_or_changed_is_refused(writer: Writer, yard: Yard, tmp_path: Path) -> None:
    ids = yard.bulk_dead(20)
    plan = writer.plan("discard", QUEUE, ids=ids[:10])
    text = plan.path.read_bytes()
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(text[: len(text) // 2])
    with pytest.raises(UsageError, match="not a complete plan"):
        load_plan(cut)
    forged = tmp_path / "forged.jsonl"
    forged.write_bytes(text.replace(ids[0].encode(), ids[15].encode()))
    with pytest.raises(UsageError, match="was changed"):
        writer.apply(load_plan(forged))
    forged.write_bytes(text.replace(b'"verb":"discard"', b'"verb":"cancel"', 1))
    with pytest.raises(UsageError, match="was changed"):
        writer.redrive(load_plan(forged))
    entry = text.split(b"\n")[3] + b"\n"
    forged.write_bytes(text.replace(entry, b""))
    with pytest.raises(UsageError, match="was changed"):
        writer.apply(load_plan(forged))
    assert len(yard.ids("dead")) == 20
    with pytest.raises(UsageError, match="there is no plan"):
        load_plan("nix")


def test_wrong_wishes(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(1)
    with pytest.raises(InvalidFilter):
        writer.plan("retry", QUEUE, where="nosuch:1")
    with pytest.raises(InvalidOption, match="explode"):
        writer.plan("explode", QUEUE)
    with pytest.raises(InvalidOption, match="the new priority is missing"):
        writer.plan("reprioritise", QUEUE)
    with pytest.raises(InvalidOption, match="the queue to move to is missing"):
        writer.plan("move", QUEUE)
    with pytest.raises(InvalidOption, match="already"):
        writer.plan("move", QUEUE, target=QUEUE)
    with pytest.raises(UsageError, match="there is no queue"):
        writer.plan("retry", "shop:mial:actions")
    assert not list(writer.plan("retry", QUEUE).path.parent.glob(".*draft"))


def test_named_jobs_that_do_not_fit_are_told(writer: Writer, yard: Yard) -> None:
    dead = yard.die()
    ready = yard.add()
    plan = writer.plan("retry", QUEUE, ids=[dead, ready, "nix"])
    assert plan.count == 1
    assert {skip.id: skip.why for skip in plan.tail.skipped} == {ready: "is ready", "nix": "there is no such job"}
    narrowed = writer.plan("retry", QUEUE, ids=[dead], where="error:Other")
    assert [skip.why for skip in narrowed.tail.skipped] == ["does not match the filter"]


def test_a_retry_whose_name_is_taken_is_skipped(writer: Writer, yard: Yard) -> None:
    first = yard.die(unique="one")
    second = yard.die(unique="one")
    plan = writer.plan("retry", QUEUE)
    assert plan.tail.totals.unique == 2
    result = writer.apply(plan)
    assert result.applied == 1
    assert result.skipped[0].why == f"its unique name is held by {first}"
    assert yard.ids("dead") == [second]
    assert yard.raw.hget(yard.key("unique"), "one") == first.encode()
    again = writer.plan("retry", QUEUE)
    assert again.tail.totals.unique_held == 1


def test_an_expired_job_is_not_retried(writer: Writer, yard: Yard) -> None:
    yard.die(expires_ms=now_ms() + 300)
    time.sleep(0.4)
    result = writer.apply(writer.plan("retry", QUEUE))
    assert result.applied == 0
    assert "expired" in result.skipped[0].why


def test_blast_radius(writer: Writer, yard: Yard) -> None:
    parent = yard.add(on_failure="mark", unique="u")
    for _ in range(3):
        yard.add(after=[parent])
    plan = writer.plan("bury", QUEUE, ids=[parent])
    totals = plan.tail.totals
    assert (totals.dependents, totals.unique, totals.failure_handlers, totals.running) == (1, 1, 1, 0)
    yard.claim()
    assert writer.plan("requeue", QUEUE).tail.totals.running == 1


def test_what_dies_while_it_is_read_is_not_in_the_plan(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(100)
    later = {f"later{n}": now_ms() + 60_000 + n for n in range(50)}
    yard.raw.zadd(yard.key("dead"), later)
    assert writer.plan("discard", QUEUE).count == 100


def test_retry_all_ends_after_one_pass(writer: Writer, yard: Yard) -> None:
    """A task that fails at once: jobs come back to the dead letters while the batch goes on."""
    yard.bulk_dead(1500)
    plan = writer.plan("retry", QUEUE)

    def fail_at_once(_: Tally) -> None:
        for job in yard.claim(500):
            yard.end(job)

    result = writer.apply(plan, progress=fail_at_once)
    assert (result.applied, result.skipped) == (1500, ())
    outcomes = writer.outcomes(plan)
    assert (outcomes.total, outcomes.dead_again) == (1500, 1500)


def test_several_queues_in_one_plan(writer: Writer, yard: Yard) -> None:
    other = Yard(yard.url, yard.raw, OTHER)
    yard.bulk_dead(250)
    other.bulk_dead(250)
    plan = writer.plan("retry", where="error:ValueError")
    assert plan.by_queue == {("native", OTHER): 125, ("native", QUEUE): 125}
    narrow = writer.plan("retry", where=f"queue:{OTHER}")
    assert narrow.by_queue == {("native", OTHER): 250}
    result = writer.apply(plan)
    assert (result.applied, set(result.labels)) == (250, {QUEUE, OTHER})
    assert writer.undo(result.batch).restored == 250


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("error:TimeoutError", 500),
        ("message:*job?7?*", 0),
        ('"job 77 "', 1),
        ("payload.user.id:42", 10),
        ("payload.user.id<50 error:ValueError", 250),
        ("attempts>=4 task:send", 1000),
        ("age>5m", 1000),
        ("age<5m", 0),
        ("failed>1m -error:Timeout*", 500),
        ("worker:h*", 1000),
    ],
)
def test_filters_find_what_lists_find(writer: Writer, yard: Yard, where: str, expected: int) -> None:
    yard.bulk_dead(1000)
    plan = writer.plan("retry", QUEUE, where=where)
    listed = {record.id for record in writer.jobs(QUEUE, state="dead", where=where)}
    assert {entry.id for entry in plan.entries()} == listed
    assert plan.count == expected


@pytest.mark.parametrize("down", [False, True])
def test_a_walk_misses_nothing_though_entries_are_tied_and_go(yard: Yard, down: bool) -> None:
    from qdeck.admin import Needs, Walk

    yard.client.run(programs.make_queue(QUEUE))
    members = {f"j{n:05d}": 1000 + n // 700 for n in range(3000)}
    yard.raw.zadd(yard.key("blocked"), members)
    walk = Walk(QUEUE, "blocked", Needs.of(None, 0, "blocked"), 0, size=100, down=down)
    found: list[str] = []
    while (rows := yard.client.run(walk.page())) is not None:
        found += [row.id for row in rows]
        if len(found) % 3 == 0:
            yard.raw.zrem(yard.key("blocked"), *found[-40:])
    assert found == sorted(members, reverse=down)


async def test_asyncio_has_the_same(url: str, yard: Yard) -> None:
    yard.bulk_dead(500)
    async with AsyncWriter(url) as writer:
        plan = await writer.plan(Verb.RETRY, QUEUE)
        assert (await writer.apply(plan)).applied == 500
        assert (await writer.outcomes(plan)).waiting == 500
        assert (await writer.undo()).restored == 500
        assert (await writer.groups()).total == 500
        assert [entry.verb for entry in await writer.activity()] == ["retry", "undo"]
        assert await writer.stuck() == []


def test_small_slices_of_many_queues_are_applied_once_however_they_are_cut(writer: Writer, yard: Yard) -> None:
    """They go to the server together; a later run, at another rate, meets what an earlier one did."""
    sizes = [1, 3, 250, 2, 40, 7, 300, 1, 1, 12]
    for number, size in enumerate(sizes):
        Yard(yard.url, yard.raw, f"shop:cut:q{number}:actions").bulk_dead(size)
    plan = writer.plan("retry")
    seen: list[int] = []

    def note(tally: Tally) -> None:
        seen.append(tally.done)

    def has(count: int) -> bool:
        return len(seen) >= count

    for rate, count in ((400.0, 3), (None, 2), (150.0, 4), (None, 1), (1000.0, 2)):
        seen.clear()
        part = writer.apply(plan, rate=rate, progress=note, cancelled=partial(has, count))
        assert (part.applied, part.skipped) == (seen[-1], ())
    result = writer.apply(plan)
    assert (result.applied, result.skipped, result.undoable) == (sum(sizes), (), sum(sizes))
    for number, size in enumerate(sizes):
        assert yard.raw.zcard(f"{{shop:cut:q{number}:actions}}:ready") == size
    assert writer.undo().restored == sum(sizes)


def test_a_queue_that_refuses_stops_none_that_go_with_it(writer: Writer, yard: Yard) -> None:
    names = [f"shop:cut:q{number}:actions" for number in range(5)]
    for name in names:
        Yard(yard.url, yard.raw, name).bulk_dead(4)
    plan = writer.plan("retry")
    yard.raw.hset(f"{{{names[2]}}}:meta", "v", "9")
    part = writer.apply(plan)
    assert (part.applied, part.skipped) == (16, ())
    assert "layout 9" in (part.error or "")
    yard.raw.hset(f"{{{names[2]}}}:meta", "v", "2")
    result = writer.apply(plan)
    assert (result.applied, result.skipped, result.error) == (20, (), None)
    assert writer.undo().restored == 20


def test_slices_shrink_while_calls_take_long() -> None:
    pace = SliceSize(30.0)  # a server far away: that is not its work
    pace.took(200, 31.5)
    assert pace.most == batch_transitions.SLICE
    pace.took(200, 46.0)
    assert pace.most == batch_transitions.SLICE, "once is nothing"
    pace.took(200, 46.0)
    assert 20 <= pace.most < 60
    for _ in range(20):
        pace.took(pace.most, 31.0)
    assert pace.most == batch_transitions.SLICE
    for _ in range(2):
        pace.took(1, 5000.0)
    assert pace.most == 20


def test_the_record_of_a_batch_is_written_now_and_then_however_many_queues_it_has(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names every queue: written for each of them, it would take the square of their number."""
    for number in range(NOTE_EVERY):
        writer.enqueue(f"shop:many:q{number}:actions", "t")
    plan = writer.plan(Verb.DISCARD)
    assert plan.count == NOTE_EVERY
    written: list[int] = []
    write = batches.write

    def counted(batch: batches.Batch) -> Program[None]:
        written.append(batch.bytes)
        return write(batch)

    monkeypatch.setattr(batches, "write", counted)
    assert writer.apply(plan).applied == NOTE_EVERY
    assert len(written) == 2, "at its beginning and after each hundred slices; at its end it goes with the log"
    assert written[0] == 0
    [record] = writer.batches().values()
    assert record.bytes == written[1] > 0
