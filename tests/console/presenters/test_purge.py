"""The progress of a dry run: how far it is, which rules are over, and what it keeps of many queues."""

from __future__ import annotations

import sys
import tracemalloc

from qdeck.admin import NATIVE, PURGE_RULES, Limits, QueueRef, QueueRow
from qdeck_console.presenters import purge
from qdeck_console.presenters.purge import DryRun, is_counted

RULES = ("done_too_old", "dead_too_old", "task_too_old", "expired_queues")


def rows(count: int) -> list[QueueRow]:
    names = (f"shop:dev:mail{number}:actions" for number in range(count))
    return [QueueRow(adapter=NATIVE, name=name, done=9, dead=0) for name in names]


def test_it_is_as_far_as_the_jobs_that_were_looked_through() -> None:
    queues = rows(2)
    run = DryRun(RULES, queues)
    assert run.share == 0
    for queue in queues:
        run.finish(queue.ref, "dead_too_old")
    assert run.share == 2 / 22, "a queue costs one, and each of its jobs in that state too"
    assert (run.is_over("dead_too_old"), run.is_over("done_too_old")) == (True, False)
    run.finish(QueueRef("vmpooler", "pool"), "task_too_old")
    assert not run.is_over("task_too_old"), "nobody knows how many queues it goes through"
    assert not run.is_over("expired_queues")
    for queue in queues:
        run.finish(queue.ref, "done_too_old")
    assert run.share == 0.99, "the end of the run is more than its last queue"


def test_it_keeps_sums_and_nothing_of_each_queue_and_rule() -> None:
    rules = tuple(rule for rule in PURGE_RULES if is_counted(rule))
    queues = rows(1000)
    run = DryRun(rules, queues)
    tracemalloc.start()
    try:
        for rule in rules:
            for queue in queues:
                run.finish(queue.ref, rule)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert all(run.is_over(rule) for rule in rules)
    assert kept < 20_000


def test_it_does_not_hold_the_rows_of_a_snapshot() -> None:
    queues = rows(1)
    before = sys.getrefcount(queues[0])
    run = DryRun(RULES, queues)
    held = sys.getrefcount(queues[0]) - before
    assert held == 0
    assert run.share == 0


def test_a_rule_that_takes_waiting_jobs_does_not_promise_to_leave_them() -> None:
    """Pending VMs, requests and ready jobs have not run, and are what these rules take."""

    def kept(rule: str) -> str:
        row = purge.RuleRow(rule=rule, on=True, threshold="2h")
        return "\n".join(
            "".join(text for text, _ in line) for line in purge.about_parts(row, Limits(), (), 60, file="")[2]
        )

    promise = "jobs that have not run yet"
    for rule in ("pending_too_old", "request_too_old", "overdue_delayed", "broken_entries", "ready_too_old"):
        assert promise not in kept(rule), rule
    for rule in ("done_too_old", "dead_too_old", "orphaned_records"):
        assert promise in kept(rule), rule
