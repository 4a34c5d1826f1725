"""Removers and readers that meet on one queue: two at once, one that is late, one of several that goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck import UsageError
from qdeck.admin import Writer
from qdeck.messages import Messenger, SyncDomainQueueManager
from qdeck.messages import _registry as registry
from support.temporary import OWN

if TYPE_CHECKING:
    import redis

NAME = f"{OWN}:callbacks:embedding:c"


def make(client: Messenger, task: str = "t") -> str:
    asked = client.new_action("embedding.x", task_id=task, correlation_id="c")
    return str(client.request_callback(asked))


def wait(client: Messenger, wait_ms: int) -> int:
    return client.app.client.run(
        registry.register(NAME, "callbacks", "ingestion_service", task="t", tier="", ttl_ms=1, wait_ms=wait_ms)
    )


def test_what_another_remover_has_in_hand_is_left_to_it(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    run = client.app.client.run
    assert make(client) == NAME
    assert run(registry.begin([NAME])) == ["free"]
    report = manager.report_task_queues("t", dry_run=False)
    assert (report.removed, report.kept, report.samples[0].outcome) == (0, 1, "being_removed")
    # The first one ends; whoever uses the name from now on need not fear the second.
    assert run(registry.finish("cleaned", [(NAME, 0, 0)], announced=True)) == [True]
    make(client)
    raw.rpush(NAME, b"an answer")
    assert [one.name for one in manager.task_queues("t")] == [NAME]
    assert raw.llen(NAME) == 1
    assert manager.clean_task_queues("t") == 1


def test_a_remover_that_is_late_does_not_strike_off_what_was_registered_since(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    run = client.app.client.run
    make(client)
    run(registry.begin([NAME]))
    raw.zadd(registry.REMOVING, {NAME: 1})  # it took longer than it had said
    assert wait(client, 60_000) == 0
    assert run(registry.finish("cleaned", [(NAME, 1, 100)], announced=True)) == [False]
    assert [one.waited_until_ms > 0 for one in manager.task_queues("t")] == [True]
    assert manager.report_task_queues("t", dry_run=False).in_use == 1
    counts = {(one.event, one.service): one.count for one in manager.metrics()}
    assert counts["freed", "ingestion_service"] == 100  # that the list went is told all the same


def test_a_queue_is_in_use_until_the_last_of_its_readers_left(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    run = client.app.client.run
    make(client)
    wait(client, 60_000)
    wait(client, 30_000)
    run(registry.leave([NAME]))
    assert manager.report_task_queues("t", dry_run=False).in_use == 1
    run(registry.leave([NAME]))
    assert manager.report_task_queues("t").in_use == 0
    assert manager.clean_task_queues("t") == 1
    assert raw.hlen(registry.READERS) == raw.zcard(registry.WAITING) == 0


def test_a_reader_with_less_patience_does_not_shorten_the_wait_of_another_nor_the_life_of_the_queue(
    client: Messenger, manager: SyncDomainQueueManager
) -> None:
    make(client)
    [before] = manager.task_queues("t")
    wait(client, 60_000)
    [between] = manager.task_queues("t")
    wait(client, 1)
    [after] = manager.task_queues("t")
    assert after.waited_until_ms == between.waited_until_ms > 0
    assert after.expires_ms >= before.expires_ms


def test_tasks_whose_ids_hold_any_character_are_kept_apart(client: Messenger, url: str) -> None:
    tasks = ["a", "a\0b", "a\nb", "a b", "ä\u2028\U0001f600", "*", "[a", "(a"]
    names = {}
    for number, task in enumerate(tasks):
        asked = client.new_action("embedding.x", task_id=task, correlation_id=f"c-{number}")
        names[task] = str(client.request_callback(asked))
    manager = SyncDomainQueueManager(client)
    assert {task: [one.name for one in manager.task_queues(task)] for task in tasks} == {
        task: [name] for task, name in names.items()
    }
    assert all(one.task == task for task in tasks for one in manager.task_queues(task))
    with Writer(url) as writer:
        assert {row.task for row in writer.temporary_tasks().rows} == set(tasks)
    for left, task in reversed(list(enumerate(tasks))):
        assert manager.clean_task_queues(task) == 1
        assert sum(len(manager.task_queues(other)) for other in tasks) == left


def test_an_id_that_is_no_text_is_refused(manager: SyncDomainQueueManager) -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        manager.clean_task_queues("\udcff")
