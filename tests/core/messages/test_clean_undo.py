"""What a cleaning by hand removed can be put back for a day: the lists as they were, and who they belong to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import SkipCode, Writer
from qdeck.messages import DomainQueueManager, TaskCleaning
from qdeck.messages import _cleaning_batch as cleaned
from qdeck.messages import _registry as registry
from support.temporary import OWN, age

if TYPE_CHECKING:
    import redis

    from qdeck.messages import CleanReport, Messenger, SyncDomainQueueManager


def make(client: Messenger, correlation: str) -> str:
    asked = client.new_action("embedding.x", task_id="t", correlation_id=correlation, tenant_tier="free")
    return str(client.request_callback(asked))


def test_the_queues_of_a_task_come_back_as_they_were(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    full, lasting, empty = (make(client, one) for one in ("a", "b", "c"))
    raw.rpush(full, b"1", b"2\0 \xff", b"3")
    raw.pexpire(full, 500_000)
    raw.rpush(lasting, b"x")
    before = {one.name: one for one in manager.task_queues("t")}
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    assert (report.removed, report.undoable) == (3, 3)
    assert report.batch is not None
    assert (report.undo_until_ms or 0) > time.time() * 1000 + 86_000_000
    assert not raw.exists(full, lasting)
    assert manager.task_queues("t") == []
    with Writer(url) as writer:
        done = writer.undo(report.batch)
        assert (done.restored, done.skipped, done.error) == (3, (), None)
        assert raw.lrange(full, 0, -1) == [b"1", b"2\0 \xff", b"3"]
        assert 0 < raw.pttl(full) <= 500_000
        assert raw.pttl(lasting) == -1
        after = {one.name: one for one in manager.task_queues("t")}
        assert after.keys() == before.keys() == {full, lasting, empty}
        assert all(
            (one.task, one.tier, one.made_ms) == ("t", "free", before[one.name].made_ms) for one in after.values()
        )
        assert writer.undo(report.batch).error is None  # twice is once
    assert raw.llen(full) == 3
    assert manager.clean_task_queues("t") == 3


def test_what_was_made_anew_is_left_as_it_is(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    name = make(client, "a")
    raw.rpush(name, b"old")
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    raw.rpush(name, b"new")
    with Writer(url) as writer:
        done = writer.undo(report.batch)
    assert (done.restored, [skip.id for skip in done.skipped]) == (0, [name])
    assert done.skipped[0].code is SkipCode.ALREADY_THERE
    assert raw.lrange(name, 0, -1) == [b"new"]
    assert [one.name for one in manager.task_queues("t")] == [], "what exists again is not registered for the old task"


def test_what_existed_again_is_restored_by_a_later_undo(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    first, second = make(client, "a"), make(client, "b")
    raw.rpush(first, b"1")
    raw.rpush(second, b"2")
    with Writer(url) as writer:
        report = writer.clean(TaskCleaning("t", idle_s=0))
        raw.rpush(second, b"new")
        done = writer.undo()
        assert (done.restored, [skip.id for skip in done.skipped], done.left) == (1, [second], 1)
        last = writer.activity()[-1]
        assert (last.verb, last.outcome, dict(last.counts)) == ("undo", "incomplete", {"restored": 1, "skipped": 1})
        found = writer.find_batch()
        assert (found.id, found.undone, found.undoable) == (report.batch, False, 1)
        raw.delete(second)
        done = writer.undo()
        assert (done.restored, done.skipped, done.left) == (2, (), 0)
        assert writer.batches()[report.batch or ""].undone
    assert (raw.lrange(first, 0, -1), raw.lrange(second, 0, -1)) == ([b"1"], [b"2"])
    assert {one.name for one in manager.task_queues("t")} == {first, second}


def test_what_is_of_another_task_by_now_is_not_given_the_old_messages_nor_the_old_owner(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    name = make(client, "a")
    raw.rpush(name, b"old")
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    client.request_callback(client.new_action("embedding.x", task_id="other", correlation_id="a"))
    with Writer(url) as writer:
        done = writer.undo(report.batch)
    assert (done.restored, [skip.id for skip in done.skipped]) == (0, [name])
    assert not raw.exists(name)
    assert manager.task_queues("t") == []
    assert [one.task for one in manager.task_queues("other")] == ["other"]


def test_a_list_that_is_too_big_is_removed_and_not_kept_and_the_plan_says_so(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    small, big = make(client, "a"), make(client, "b")
    raw.rpush(small, b"x")
    raw.rpush(big, b"x" * (cleaned.MOST_ONE + 1))
    plan = {one.name: one.undoable for one in manager.report_task_queues("t").samples}
    assert plan == {small: True, big: False}
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    assert (report.removed, report.undoable) == (2, 1)
    kept = raw.hkeys(cleaned.index_key(report.batch or ""))
    assert kept == [small.encode()]


def test_a_copy_that_is_gone_is_reported_though_the_queue_is_registered_again(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    full, empty, listed = make(client, "a"), make(client, "b"), "execution:agent_run:free:t"
    raw.rpush(full, b"x")
    raw.rpush(listed, b"y")
    raw.sadd("task_queues:t", listed, "execution:gone:free:t")
    with Writer(url) as writer:
        report = writer.clean(TaskCleaning("t", idle_s=0))
        assert (report.removed, report.undoable) == (3, 3)
        assert raw.delete(*(cleaned.copy_key(name, report.batch or "") for name in (full, listed))) == 2
        done = writer.undo(report.batch)
    assert (done.restored, {skip.id: skip.code for skip in done.skipped}) == (
        1,
        {full: SkipCode.UNDO_EXPIRED, listed: SkipCode.UNDO_EXPIRED},
    )
    assert {one.name for one in manager.task_queues("t")} == {full, empty}
    assert raw.smembers("task_queues:t") == {listed.encode(), b"execution:gone:free:t"}


def test_an_expired_queue_with_messages_is_in_the_log_with_its_name_and_comes_back(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    full, empty = make(client, "a"), make(client, "b")
    raw.rpush(full, b"unread")
    raw.zadd(registry.QUEUES, {full: 1, empty: 1})
    assert manager.clean_expired_queues().removed == 2
    assert not raw.exists(full)
    with Writer(url) as writer:
        [line] = writer.activity()
        assert (line.verb, set(line.queues), line.counts["applied"]) == ("clean", {full, empty}, 2)
        assert writer.batches()[line.batch or ""].automatic, "it takes no room from what operators do"
        assert writer.undo().restored == 1
    assert raw.lrange(full, 0, -1) == [b"unread"]


def test_an_expired_queue_that_cannot_be_copied_stays(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    name = make(client, "a")
    raw.rpush(name, b"x" * (cleaned.MOST_ONE + 1))
    raw.zadd(registry.QUEUES, {name: 1})
    report = manager.clean_expired_queues()
    assert (report.removed, report.kept) == (0, 1)
    assert raw.llen(name) == 1


def test_an_undo_says_nothing_of_a_queue_that_an_interrupted_cleaning_did_not_remove(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    first, second = make(client, "a"), make(client, "b")
    raw.rpush(first, b"x")
    raw.rpush(second, b"y")
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    raw.delete(cleaned.copy_key(second, report.batch or ""))
    raw.rpush(second, b"y")  # as if the process had ended before its turn
    with Writer(url) as writer:
        done = writer.undo(report.batch)
    assert (done.restored, done.skipped) == (1, ())
    assert (raw.lrange(first, 0, -1), raw.lrange(second, 0, -1)) == ([b"x"], [b"y"])


def test_orphans_come_back_and_what_is_kept_is_bounded(
    manager: SyncDomainQueueManager, raw: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck._operations.batches._room", lambda *_: 60_000)
    names = [f"{OWN}:responses:get:{n}" for n in range(100)]
    for name in names:
        raw.rpush(name, b"x")
    raw.rpush(names[0], b"x" * 5000)
    age(raw, *names)
    report = manager.clean_orphaned_queues(undo=True)
    assert report.removed == 100
    assert report.undoable == 99
    with Writer(url) as writer:
        done = writer.undo()
        assert done.restored == report.undoable
        [line] = [one for one in writer.activity() if one.verb == "clean"]
    assert (line.detail, line.counts["applied"], line.batch) == ("orphans", 100, report.batch)
    assert sum(raw.exists(name) for name in names) == report.undoable


def test_the_end_of_a_task_copies_what_was_not_read_and_makes_no_batch_for_nothing(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    make(client, "a")
    assert manager.clean_task_queues("t") == 1
    assert [key for key in raw.scan_iter() if b"undo" in key] == []
    name = make(client, "a")
    raw.rpush(name, b"x")
    assert manager.clean_task_queues("t") == 1
    assert not raw.exists(name)
    with Writer(url) as writer:
        assert writer.undo().restored == 1
    assert raw.lrange(name, 0, -1) == [b"x"]


async def test_a_search_for_orphans_that_is_cancelled_logs_what_it_removed(
    client: Messenger, raw: redis.Redis, url: str
) -> None:
    names = [f"{OWN}:responses:get:{n}" for n in range(1500)]
    for name in names:
        raw.rpush(name, b"x")
    age(raw, *names)
    manager = DomainQueueManager(client.app)
    seen: list[CleanReport] = []

    def stop(report: CleanReport) -> None:
        seen.append(report)
        search.cancel()

    search = asyncio.create_task(manager.clean_orphaned_queues(undo=True, progress=stop))
    with pytest.raises(asyncio.CancelledError):
        await search
    [report] = seen
    assert 0 < report.removed < 1500
    assert report.undo_until_ms is not None
    with Writer(url) as writer:
        [entry] = writer.activity()
        assert (entry.batch, entry.counts["applied"]) == (report.batch, report.removed)
        assert writer.undo(report.batch).restored == report.removed
    await client.app.aclose()
