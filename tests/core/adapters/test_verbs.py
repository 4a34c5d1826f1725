"""Plan, apply, undo over the queues of other adapters: the plan exactly, once, and back to the byte."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_conformance import EMITTED, FILL, load_dump
from qdeck import UnknownJob, UsageError
from qdeck.adapters.paging import first
from qdeck.admin import State, Writer
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

ALL = ("native", "lists", "vmpooler", "ifdb", "scheduler")


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=ALL) as writer:
        yield writer


def of_others(raw: redis.Redis) -> dict[bytes, object]:
    """What a server holds of other systems, without what they emit and count, which an undo leaves."""
    return values(raw, without=EMITTED)


@pytest.mark.parametrize("verb", ["bury", "discard", "retry"])
@pytest.mark.parametrize("ids", [(), ("n1", "n4", "n6", "n7"), ("n0", "n2")])
def test_a_list_is_in_its_order_again(url: str, raw: redis.Redis, verb: str, ids: tuple[str, ...]) -> None:
    """Of both halves, also entries that are the same to the byte."""
    name = "shop:sub:actions" + (":dead_letter" if verb == "retry" else "")
    entries = [json.dumps({"id": f"n{number}"}) for number in range(8)]
    raw.rpush(name, *(["same", "a:b", *entries, b"\xff:\x00", "", "same"] if not ids else entries))
    before = raw.lrange(name, 0, -1)
    with Writer(url, adapters=("lists",)) as writer:
        plan = writer.plan(verb, "shop:sub:actions", ids=ids)
        result = writer.apply(plan)
        assert result.applied == (len(ids) or len(before))
        assert raw.llen(name) == len(before) - result.applied
        assert writer.undo(result.batch).restored == result.applied
    assert raw.lrange(name, 0, -1) == before


@pytest.mark.parametrize("ids", [("n0",), ("n2", "n5"), ()])
def test_entries_of_a_list_go_to_its_end_and_back_to_their_places(
    url: str, raw: redis.Redis, ids: tuple[str, ...]
) -> None:
    """By their bytes; without a wish for some of them, and nothing stuck there, the command moves none."""
    name = "shop:sub:actions"
    raw.rpush(name, *(json.dumps({"id": f"n{number}"}) for number in range(8)))
    before = raw.lrange(name, 0, -1)
    with Writer(url, adapters=("lists",)) as writer:
        assert writer.plan("requeue", name, stuck=True).count == 0
        plan = writer.plan("requeue", name, ids=ids)
        assert writer.apply(plan).applied == (len(ids) or len(before))
        moved = [entry for entry in before if json.loads(entry)["id"] in ids]
        assert raw.lrange(name, 0, -1) == [entry for entry in before if entry not in moved] + moved
        writer.undo()
    assert raw.lrange(name, 0, -1) == before


@pytest.mark.parametrize("adapter", FILL)
@pytest.mark.parametrize("verb", ["retry", "discard", "run", "requeue", "bury", "cancel", "complete"])
def test_each_verb_does_its_plan_once_and_is_taken_back(url: str, raw: redis.Redis, adapter: str, verb: str) -> None:
    FILL[adapter]().populate(raw)
    contents = FILL[adapter]().contents
    before = contents(raw)
    with Writer(url, adapters=(adapter,)) as writer:
        capability = {act.value: c for act, c in writer.adapters.non_native[0].capabilities().items()}.get(verb)
        if capability is None or not capability.can:
            with pytest.raises(UsageError) as refused:
                writer.plan(verb)
            assert capability is None or capability.note in str(refused.value)
            return
        plan = writer.plan(verb)
        assert contents(raw) == before
        assert plan.count or plan.tail.skipped or verb == "requeue"
        assert {entry.adapter for entry in plan.entries()} <= {adapter}
        result = writer.apply(plan)
        assert result.error is None
        assert result.applied + result.skipped_count - len(plan.tail.skipped) == plan.count
        changed = contents(raw)
        # All entries of a list to its end, one after the other: they are in the same order then.
        assert (changed != before) == bool(result.applied) or (adapter, verb) == ("lists", "requeue")
        assert writer.apply(plan).applied >= result.applied
        assert contents(raw) == changed
        if result.applied:
            undone = writer.undo(result.batch)
            assert (undone.restored, undone.skipped) == (result.applied, ())
            assert contents(raw) == before


def test_case_13_two_failures_of_one_request_ask_for_two_machines(writer: Writer, raw: redis.Redis) -> None:
    """`alias:pool:1:req` with the score 1, as its manager writes it; equal ones would be one: see B2.9."""
    load_dump(raw, "dump_s1c_after_failures.json")
    raw.delete("vmpooler__odcreate__task")
    plan = writer.plan("retry", "centos-7")
    assert plan.count == 2
    assert [skip.id for skip in plan.tail.skipped] == ["sad-clone"]
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (2, 1)
    assert raw.zrange("vmpooler__odcreate__task", 0, -1, withscores=True) == [(b"el7:centos-7:2:req-1", 1.0)]


def test_what_changed_since_the_plan_is_left_alone(writer: Writer, raw: redis.Redis) -> None:
    FILL["ifdb"]().populate(raw)
    plan = writer.plan("retry", "ifdb")
    ids = [entry.id for entry in plan.entries()]
    assert "bad" in ids
    task = json.loads(raw.hget("ifdb:task_data", "bad") or b"")
    raw.hset("ifdb:task_data", "bad", json.dumps(task | {"log": "somebody else"}))
    result = writer.apply(plan)
    assert [(skip.id, "changed" in skip.why) for skip in result.skipped] == [("bad", True)]


def test_a_filter_and_names_choose_entries(writer: Writer, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1d_final.json")
    plan = writer.plan("discard", "centos-7", where="error:RuntimeError message:*template*")
    assert [entry.id for entry in plan.entries()] == ["sad-clone"]
    plan = writer.plan("discard", "centos-7", ids=["od-badx", "nobody"], state="dead")
    assert [entry.id for entry in plan.entries()] == ["od-badx"]
    assert [skip.id for skip in plan.tail.skipped] == ["nobody"]


def test_scheduler_retries_at_normal_or_as_told_and_warns(writer: Writer, raw: redis.Redis) -> None:
    raw.zadd("scheduler:queue:dlq", {json.dumps({"jobId": "j1", "reason": "x"}): 5, json.dumps({"jobId": "j2"}): 6})
    plan = writer.plan("retry", "scheduler", ids=["j1"])
    assert any("QUEUED or RETRYING" in caution.text for caution in plan.tail.cautions)
    writer.apply(plan)
    writer.apply(writer.plan("retry", "scheduler", ids=["j2"], priority="CRITICAL"))
    now = time.time() * 1000
    found = [raw.zscore("scheduler:queue:priority", job) for job in ("j1", "j2")]
    assert found == [pytest.approx(now - 2_000_000, abs=60_000), pytest.approx(now, abs=60_000)]


def test_what_an_adapter_cannot_do_is_told_with_the_reason(writer: Writer, raw: redis.Redis) -> None:
    for fill in FILL.values():
        fill().populate(raw)
    with pytest.raises(UsageError, match="refills pools"):
        writer.plan("requeue", "centos-7")
    with pytest.raises(UsageError, match="not support move"):
        writer.plan("move", "ifdb", target="shop:actions")
    writer.enqueue("shop:actions", "t")
    with pytest.raises(UsageError, match="not support edit"):
        writer.draft("ifdb", "bad")
    with pytest.raises(UsageError, match="no priority"):
        writer.plan("retry", "centos-7", priority=5)


def test_all_adapters_and_our_own_in_one_plan_and_back(writer: Writer, raw: redis.Redis) -> None:
    for fill in FILL.values():
        fill().populate(raw)
    writer.enqueue("shop:actions", "t")
    before = of_others(raw)
    plan = writer.plan("discard")
    assert {entry.adapter for entry in plan.entries()} == set(ALL)
    result = writer.apply(plan)
    assert result.error is None
    assert result.applied == plan.count - (result.skipped_count - len(plan.tail.skipped))
    undone = writer.undo()
    assert undone.restored == result.applied
    assert {key: value for key, value in of_others(raw).items() if not key.startswith(b"{")} == {
        key: value for key, value in before.items() if not key.startswith(b"{")
    }


def test_what_undo_keeps_is_bounded(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("a:b:free:1", *[b"x" * 1000 + b"%d" % n for n in range(200)])
    plan = writer.plan("discard", "a:b:free:*")
    result = writer.apply(plan, keep_bytes=60_000)
    assert result.applied == 200
    assert 0 < result.undoable < 200
    assert (raw.memory_usage(f"qdeck:undo:lists:{result.batch}", samples=0) or 0) < 100_000
    undone = writer.undo(result.batch)
    assert undone.restored == result.undoable == raw.llen("a:b:free:1")


def test_who_may_not_ask_for_the_process_of_the_server_applies_plans(url: str, raw: redis.Redis) -> None:
    """INFO is not allowed on many a server that somebody else runs."""
    FILL["scheduler"]().populate(raw)
    raw.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-info")
    try:
        with Writer(url.replace("redis://", "redis://few:pw@"), adapters=("scheduler",)) as writer:
            plan = writer.plan("discard", "scheduler")
            assert plan.head.run_id is None
            assert writer.apply(plan).applied == plan.count > 0
    finally:
        raw.execute_command("ACL", "DELUSER", "few")


def test_an_entry_far_behind_is_not_said_to_be_missing(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:sub:actions", *(f'{{"id": "n{number}"}}' for number in range(600)))
    with Writer(url, adapters=("lists",)) as writer:
        writer.snapshot()
        adapter = writer.adapters.non_native[0]
        with pytest.raises(UnknownJob, match="not among the first 10 entries"):
            writer.run(first(adapter, "shop:sub:actions", (State.READY,), lambda e: e.id == "none", most=10))
        assert (
            writer.run(first(adapter, "shop:sub:actions", (State.READY,), lambda e: e.id == "none", most=900)) is None
        )


def test_an_undo_that_ends_half_way_says_what_it_restored_and_goes_on(writer: Writer, raw: redis.Redis) -> None:
    name = "a:b:free:1"
    raw.rpush(name, *(f"entry {number}" for number in range(120)))
    before, told = raw.lrange(name, 0, -1), list[int]()
    result = writer.apply(writer.plan("discard", "a:b:free:*"))
    assert (result.applied, raw.exists(name)) == (120, 0)
    half = writer.undo(result.batch, progress=told.append, cancelled=lambda: told[-1:] > [0])
    assert 0 < half.restored == raw.llen(name) < 120
    assert writer.undo(result.batch).restored == 120, "what the first one restored counts, too"
    counts = [row.counts["restored"] for row in writer.activity() if row.verb == "undo"]
    assert counts == [half.restored, 120]
    assert raw.lrange(name, 0, -1) == before
