"""Who did what is told to everybody, and kept on the machine that did it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core._operations.yard import QUEUE, Yard, now_ms
from qdeck._engine import keys
from qdeck._server import activity_log

if TYPE_CHECKING:
    from pathlib import Path

    from qdeck.admin import Tally, Writer


def test_every_act_is_told(writer: Writer, yard: Yard, own_state: Path) -> None:
    yard.bulk_dead(450)
    plan = writer.plan("retry", QUEUE, where="error:*", reason="fixed upstream")
    start = now_ms()
    begun: list[str] = []

    def look(_: Tally) -> None:
        begun.extend(entry.outcome for entry in writer.activity())

    result = writer.apply(plan, progress=look)
    assert set(begun) == {"running"}, "what is under way is seen"
    writer.undo()
    first, second = writer.activity()
    assert (first.verb, first.outcome, first.filter, first.reason) == ("retry", "done", "error:*", "fixed upstream")
    assert dict(first.counts) == {"planned": 450, "applied": 450, "skipped": 0}
    assert (first.batch, first.queues, first.undo_until_ms) == (result.batch, (QUEUE,), result.undo_until_ms)
    assert first.who
    assert first.host
    assert (second.verb, dict(second.counts)) == ("undo", {"restored": 450, "skipped": 0})
    assert writer.activity(since_ms=now_ms() + 1000) == []
    assert len(writer.activity(since_ms=start - 1)) == 2
    file = own_state / "qdeck" / "activity.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["outcome"] for line in file.read_text().splitlines()] == ["done", "done"]


def test_the_log_is_bounded_and_survives_strange_entries(writer: Writer, yard: Yard) -> None:
    for n in range(5):
        yard.raw.xadd(keys.ACTIVITY, {"e": b"\xff nonsense" if n % 2 else b'{"at_ms": 1}'})
    yard.die()
    writer.apply(writer.plan("retry", QUEUE))
    assert [entry.verb for entry in writer.activity()] == ["retry"]
    assert activity_log.KEEP == 10_000


def test_what_is_done_to_queues_workers_and_schedules_is_told_too(writer: Writer, yard: Yard) -> None:
    """'Activity: who, when, where from': a queue that stands still was paused by somebody"""
    writer.enqueue(QUEUE, "t")
    yard.raw.hset(keys.WORKERS, "w1", "{}")
    writer.pause(QUEUE)
    writer.pause(QUEUE)  # it is already: nothing was done
    writer.limit(QUEUE, running=5, rate=(10, 1))
    writer.limit(QUEUE)
    writer.resume(QUEUE)
    writer.order_worker("w1", "quiet")
    for _ in range(2):
        writer.add_schedule("feeds", QUEUE, "feed", cron="0 7 * * *")
    writer.enable_schedule("feeds", False)
    writer.run_schedule("feeds")
    told = writer.activity()
    assert [(one.verb, "".join(one.queues) or one.detail) for one in told] == [
        ("pause", QUEUE), ("limit", QUEUE), ("limit", QUEUE), ("resume", QUEUE), ("quiet", "worker w1"),
        ("add", "schedule feeds"), ("pause", "schedule feeds"), ("run", "schedule feeds"),
    ]  # fmt: skip
    assert [one.detail for one in told[1:3]] == ["5 at once, 10 in 1s", "none"]
    assert all(one.who and one.host and one.outcome == "done" for one in told)
