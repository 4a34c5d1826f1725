"""What a screen of tasks is made of: tasks, their queues, who waits, orphans and counts; looking changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import AsyncWriter, Writer
from qdeck.messages import Messenger, OrphanCleaning, SyncDomainQueueManager, TaskCleaning
from qdeck.messages import _registry as registry
from support.temporary import OWN, age

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from qdeck.admin import Program


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as made:
        yield made


def make(client: Messenger, task: str | None, correlation: str) -> str:
    asked = client.new_action("embedding.x", task_id=task, correlation_id=correlation, tenant_tier="free")
    return str(client.request_callback(asked))


def test_tasks_and_their_queues_are_told_without_being_touched(
    client: Messenger, writer: Writer, raw: redis.Redis
) -> None:
    names = [make(client, "t:1", "a"), make(client, "t:1", "b"), make(client, "t:2", "c")]
    alone = make(client, None, "d")
    raw.rpush(names[0], b"x" * 100)
    raw.rpush(names[1], b"y")
    client.app.client.run(
        registry.register(names[1], "callbacks", "ingestion_service", task="t:1", tier="", ttl_ms=1, wait_ms=60_000)
    )
    age(raw, *names[:2])
    page = writer.temporary_tasks()
    assert [(row.task, row.queues, row.waited_on, row.services, row.tier) for row in page.rows] == [
        ("t:1", 2, 1, ("ingestion_service",), "free"),
        ("t:2", 1, 0, ("ingestion_service",), "free"),
    ]
    assert (page.queues, page.unowned, page.next) == (4, 1, None)
    rows = {row.name: row for row in writer.temporary_queues().rows}
    assert rows.keys() == {*names, alone}
    assert [row.name for row in writer.temporary_queues(task="t:1").rows] == sorted(names[:2])
    assert (rows[names[0]].exists, rows[names[2]].exists, rows[alone].task) == (True, False, "")
    assert (rows[names[0]].is_waited_on(page.now_ms), rows[names[1]].is_waited_on(page.now_ms)) == (False, True)
    assert (rows[names[0]].bytes or 0) > 100
    writer.temporary_queues()
    assert int(raw.object("idletime", names[0])) >= 100_000
    counts = {one.event: one.count for one in writer.run(registry.metrics())}
    assert counts == {"made": 4}


def test_a_deck_cleans_a_task_after_it_told_what_that_does(client: Messenger, writer: Writer, raw: redis.Redis) -> None:
    name = make(client, "t", "a")
    raw.rpush(name, b"x")
    plan = writer.run(TaskCleaning("t", idle_s=0, dry_run=True).run())
    assert (plan.removed, plan.undoable, plan.batch, raw.exists(name)) == (1, 1, None, 1)
    done = writer.clean(TaskCleaning("t", idle_s=0))
    assert (done.removed, raw.exists(name)) == (1, 0)
    assert writer.undo(done.batch).restored == 1
    assert raw.exists(name)


def test_many_are_told_page_by_page(client: Messenger, writer: Writer) -> None:
    names = [make(client, f"t-{n // 3:02}", str(n)) for n in range(30)]
    tasks: list[tuple[str, int]] = []
    after: str | None = ""
    while after is not None:
        page = writer.temporary_tasks(after=after, most=7)
        tasks += [(row.task, row.queues) for row in page.rows]
        after = page.next
    assert tasks == [(f"t-{n:02}", 3) for n in range(10)]
    seen: list[str] = []
    start: int | None = 0
    while start is not None:
        some = writer.temporary_queues(start=start, most=7)
        assert some.total == 30
        seen += [row.name for row in some.rows]
        start = some.next
    assert sorted(seen) == sorted(names)


def test_a_task_of_more_queues_than_a_page_is_told_whole(client: Messenger, writer: Writer) -> None:
    for n in range(20):
        make(client, "big", str(n))
    make(client, "small", "x")
    page = writer.temporary_tasks(most=5)
    assert [(row.task, row.queues) for row in page.rows] == [("big", 20)]
    rest = writer.temporary_tasks(after=page.next or "", most=5)
    assert [(row.task, row.queues, rest.next) for row in rest.rows] == [("small", 1, None)]


async def test_what_a_deck_reads_is_not_counted_as_used(url: str, raw: redis.Redis) -> None:
    raw.rpush("some:list", b"x")
    age(raw, "some:list")
    async with AsyncWriter(url) as writer:
        assert await writer.run(_length("some:list")) == 1
    with Writer(url) as writer:
        assert writer.run(_length("some:list")) == 1
    assert int(raw.object("idletime", "some:list")) >= 100_000
    raw.llen("some:list")
    assert int(raw.object("idletime", "some:list")) < 1000


def _length(name: str) -> Program[int]:
    return int((yield (b"LLEN", name)))


def test_orphans_are_searched_step_by_step(client: Messenger, writer: Writer, raw: redis.Redis) -> None:
    make(client, "t", "a")
    names = [f"{OWN}:responses:get:{n}" for n in range(50)]
    for name in names:
        raw.rpush(name, b"x")
    age(raw, *names)
    search = OrphanCleaning(dry_run=True, most=10)
    while writer.search_temporary(search):
        pass
    seen = search.report
    assert (seen.removed, len(seen.samples), seen.scanned >= 50) == (50, 10, True)
    assert seen.bytes > 0
    before = replace(seen)
    assert not writer.search_temporary(search)
    assert seen == before
    assert SyncDomainQueueManager(client).clean_orphaned_queues().removed == 50
