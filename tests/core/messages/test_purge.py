"""Temporary queues are part of a purge: planned, applied, recorded and undone with jobs, by rules like theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from qdeck.adapters import NO_QUEUE
from qdeck.admin import PURGE_RULES, QueueRef, Takes, Writer, load_plan, read_rules
from qdeck.messages import _cleaning_batch as copies
from qdeck.messages import _registry as registry
from qdeck.messages._adapter import TemporaryQueueAdapter
from qdeck.messages._names import family_of
from qdeck_console.cli.run import run as cli
from support.temporary import age

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck.admin import BatchResult, Plan

EMPTY, UNREAD = "shop:callbacks:mail:empty", "shop:callbacks:mail:unread"
ORPHAN, USED = "shop:responses:get:orphan", "shop:responses:get:used"
QUEUE = "shop:dev:mail:actions"
RULES = ("expired_queues", "unread_queues", "orphaned_queues")


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as opened:
        yield opened


@pytest.fixture
def litter(writer: Writer, raw: redis.Redis) -> None:
    for name in (EMPTY, UNREAD):
        writer.write(registry.register(name, "callbacks", "shop", task="t", tier="free", ttl_ms=60_000))
        raw.zadd(registry.QUEUES, {name: int(raw.time()[0]) * 1000 - 5000})
    raw.rpush(UNREAD, "one", "two")
    raw.pexpire(UNREAD, 500_000)
    raw.rpush(ORPHAN, "x", "y")
    age(raw, ORPHAN)
    raw.rpush(USED, "z")


def taken(plan: Plan) -> dict[str, str | None]:
    return {entry.id: entry.rule for entry in plan.entries()}


def why(result: BatchResult) -> dict[str, str]:
    return {skip.id: skip.why for skip in result.skipped}


def test_the_rules_are_those_that_every_face_names() -> None:
    assert [rule.name for rule in TemporaryQueueAdapter().rules(NO_QUEUE)] == [
        rule.name for rule in PURGE_RULES.values() if rule.takes is Takes.QUEUES
    ]
    assert set(read_rules(())) == {rule.name for rule in PURGE_RULES.values()} - {"unread_queues", "orphaned_queues"}


@pytest.mark.usefixtures("litter")
def test_what_holds_messages_is_only_taken_by_name(writer: Writer, raw: redis.Redis) -> None:
    before = sorted(raw.scan_iter())
    assert taken(writer.plan_purge()) == {EMPTY: "expired_queues"}
    plan = writer.plan_purge(RULES)
    assert taken(plan) == dict(zip((EMPTY, UNREAD, ORPHAN), RULES, strict=True))
    assert plan.by_queue == {QueueRef("messages", "shop:callbacks"): 2, QueueRef("messages", "shop:responses"): 1}
    reasons = [entry.reason for entry in plan.entries()]
    assert reasons[0].startswith("expired ")
    assert reasons[1].endswith(", and holds 2 messages")
    assert reasons[2].startswith("not registered, or its registration expired")
    assert reasons[2].endswith("; holds 2 messages")
    assert sorted(raw.scan_iter()) == before, "a dry run writes nothing"
    assert taken(writer.plan_purge(RULES, queues=())) == taken(plan)
    writer.enqueue(QUEUE, "welcome")
    assert taken(writer.plan_purge(RULES, queues=[QUEUE])) == {}, "of a queue that is named, they are no part"


def test_a_cleaning_says_how_many_unread_messages_it_takes(
    url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unread callback of the document is an orphan after a day; to count its messages is no use of it."""
    callback = "nooble4:dev:ingestion_service:callbacks:embedding:task_987efg"
    raw.rpush(callback, *(json.dumps({"action_type": "embedding.batch_completed", "data": {}}) for _ in range(3)))
    age(raw, callback)
    assert cli(["clean", "--orphans", "--dry-run", "--url", url]) == 0
    assert f"{callback}  3 messages, " in capsys.readouterr().out
    assert raw.object("idletime", callback) > 80_000
    assert cli(["clean", "--orphans", "--dry-run", "--json", "--url", url]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["messages"], found["queues"][0]["messages"]) == (3, 3)
    assert cli(["purge", "--rule", "orphaned_queues", "--json", "--url", url]) == 0
    [entry] = json.loads(capsys.readouterr().out)["entries"]
    assert entry["reason"].endswith("; holds 3 messages")


def test_a_server_that_counts_every_read_as_a_use_is_not_asked(url: str, raw: redis.Redis) -> None:
    """Servers before 7.2 have no NO-TOUCH; a user without the right to it reads as on these."""
    raw.rpush(ORPHAN, "x", "y")
    age(raw, ORPHAN)
    raw.execute_command("ACL", "SETUSER", "old", "on", "nopass", "~*", "+@all", "-client|no-touch")
    try:
        with Writer(url.replace("redis://", "redis://old:any@"), adapters=("native",)) as writer:
            plan = writer.plan_purge(["orphaned_queues"])
            assert [entry.reason.rpartition("; ")[2] for entry in plan.entries()] == ["holds messages"]
            assert writer.apply(plan).applied == 1
    finally:
        raw.execute_command("ACL", "DELUSER", "old")


@pytest.mark.usefixtures("litter")
def test_jobs_and_queues_are_one_batch_and_one_undo(writer: Writer, raw: redis.Redis) -> None:
    done = writer.enqueue(QUEUE, "welcome").id
    writer.apply(writer.plan("discard", QUEUE, ids=[done]))
    writer.enqueue(QUEUE, "welcome", id="old")
    raw.zadd(f"{{{QUEUE}}}:ready", {"old": 100 * 10**13 + 1}, xx=True)
    about = raw.hgetall(registry.ABOUT)
    plan = writer.plan_purge(("ready_too_old", *RULES))
    assert set(taken(plan)) == {"old", EMPTY, UNREAD, ORPHAN}
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count, result.undoable) == (4, 0, 4)
    assert result.by_rule == {"ready_too_old": 1, **dict.fromkeys(RULES, 1)}
    assert raw.exists(UNREAD, ORPHAN) == 0
    assert raw.hgetall(registry.ABOUT) == {}
    last = writer.activity()[-1]
    assert (last.batch, last.verb, last.counts["applied"]) == (result.batch, "purge", 4)
    assert "shop:callbacks" in last.queues
    undone = writer.undo()
    assert (undone.batch, undone.restored, undone.skipped) == (result.batch, 4, ())
    assert raw.hgetall(registry.ABOUT) == about
    assert {name: raw.lrange(name, 0, -1) for name in (UNREAD, ORPHAN)} == {
        UNREAD: [b"one", b"two"],
        ORPHAN: [b"x", b"y"],
    }
    assert 400_000 < raw.pttl(UNREAD) <= 500_000


@pytest.mark.usefixtures("litter")
def test_what_is_used_again_stays(writer: Writer, raw: redis.Redis) -> None:
    plan = writer.plan_purge(RULES)
    writer.write(registry.touch([UNREAD]))
    raw.rpush(EMPTY, "a message after all")
    raw.rpush(ORPHAN, "z")
    result = writer.apply(plan)
    assert (result.applied, result.skipped_count) == (0, 3)
    assert why(result) == {
        UNREAD: "has changed since", EMPTY: "it holds messages now", ORPHAN: "has changed since",
    }  # fmt: skip
    assert raw.exists(UNREAD, EMPTY, ORPHAN) == 3
    assert raw.zcard(registry.REMOVING) == 0, "nobody has to wait because of it"


@pytest.mark.usefixtures("litter")
def test_a_queue_that_a_reader_waits_on_stays(writer: Writer, raw: redis.Redis) -> None:
    plan = writer.plan_purge(RULES)
    raw.zadd(registry.WAITING, {UNREAD: int(raw.time()[0]) * 1000 + 60_000})
    assert why(writer.apply(plan)) == {UNREAD: "a reader is waiting on it"}
    assert raw.llen(UNREAD) == 2


@pytest.mark.usefixtures("litter")
def test_a_plan_applied_twice_is_one_batch(writer: Writer, raw: redis.Redis) -> None:
    plan = writer.plan_purge(RULES)
    first, second = writer.apply(plan), writer.apply(load_plan(plan.path))
    assert (first.applied, second.applied, second.skipped_count) == (3, 3, 0)
    assert first.batch == second.batch
    assert writer.undo(first.batch).restored == 3
    assert raw.llen(UNREAD) == 2


@pytest.mark.usefixtures("litter")
def test_without_room_it_is_removed_and_says_so(writer: Writer, raw: redis.Redis) -> None:
    result = writer.apply(writer.plan_purge(RULES[1:]), keep_bytes=0)
    assert (result.applied, result.undoable) == (2, 0)
    assert raw.exists(UNREAD, ORPHAN) == 0
    assert raw.exists(copies.copy_key(UNREAD, result.batch)) == 0


def test_queues_are_shown_by_service_and_type(writer: Writer, raw: redis.Redis) -> None:
    assert family_of("shop:dev:mail:responses:embedding:1") == "shop:dev:mail:responses"
    assert family_of("execution:agent_run:free:77") == "execution:agent_run:free"
    assert family_of("anything else") == ""
    for number in range(300):
        name = f"shop{number}:callbacks:mail:1"
        writer.write(registry.register(name, "callbacks", "shop", task="t", tier="", ttl_ms=1))
        raw.zadd(registry.QUEUES, {name: 1})
    names = [ref.name for ref in writer.plan_purge(["expired_queues"]).by_queue]
    assert len(names) == 201, "anybody may make up names"
    assert names[-1] == "others"


@pytest.mark.usefixtures("litter")
def test_the_command_plans_and_applies_them(url: str, raw: redis.Redis, capsys: pytest.CaptureFixture[str]) -> None:
    def ask(*more: str, code: int = 0) -> Any:
        assert cli(["purge", "--json", "--url", url, *more]) == code
        return json.loads(capsys.readouterr().out)

    rules = [part for rule in RULES for part in ("--rule", rule)]
    assert ask()["counts"] == {"expired_queues": 1}
    found = ask(*rules)
    assert found["counts"] == dict.fromkeys(RULES, 1)
    assert [entry["id"] for entry in found["entries"]] == [EMPTY, UNREAD, ORPHAN]
    assert {entry["adapter"] for entry in found["entries"]} == {"messages"}
    assert ask("--adapter", "lists", *rules)["counts"] == {}, "they are qdeck's own"
    assert ask("--apply", found["plan"])["applied"] == 3
    assert raw.exists(UNREAD, ORPHAN) == 0
    assert cli(["undo", "--yes", "--url", url]) == 0
    assert raw.exists(UNREAD, ORPHAN) == 2
