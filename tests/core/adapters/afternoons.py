"""What an afternoon leaves of IFDB's tasks and of the scheduler's ids, written as their pages write it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from core.adapters.test_scheduler import Page
from core.adapters.test_writers import IfdbWriter


def _task(page: IfdbWriter, name: str, function: str = "games.tasks.uploads.CloneFile", **facts: Any) -> str:
    """A task with an id as the page makes it."""
    module, _, own = function.rpartition(".")
    task_id = f"{name}:{function}:1795122667711576"
    page.enqueue(task_id, retries=1, dependency=facts.pop("dependency", None), priority=facts.pop("priority", 100))
    task = json.loads(page.client.hget("ifdb:task_data", task_id))
    task |= {"name": name, "module": module, "function": own, "args": [1], **facts}
    page.client.hset("ifdb:task_data", task_id, json.dumps(task))
    return task_id


def ifdb(raw: Any) -> None:
    """Files that could not be cloned, a task that waits for one of them, a worker that is dead for three minutes."""
    page, now = IfdbWriter(raw), datetime.now(UTC)
    for url_id, status in ((1001, 404), (1002, 404), (1003, 500)):
        failed = _task(page, f"CloneUrl({url_id})")
        page.fails[failed] = 1
        page.execute(page.next() or {})
        task = json.loads(raw.hget("ifdb:task_data", failed))
        task["log"] = task["log"].replace("boom", f"{status} for {url_id}")
        raw.hset("ifdb:task_data", failed, json.dumps(task))
    _task(page, "RecodeGame(1003)", "games.tasks.uploads.RecodeGame", dependency=failed)
    old = _task(page, "CloneUrl(1000)")
    page.execute(page.next() or {})
    task = json.loads(raw.hget("ifdb:task_data", old))
    raw.hset("ifdb:task_data", old, json.dumps(task | {"finish_time": (now - timedelta(days=15)).isoformat()}))
    for name, function, cron, minutes in (
        ("ImportGames", "games.tasks.game_importer.ImportGames", "0 */6 * * *", 130),
        ("FetchFeeds", "core.feedfetcher.FetchFeeds", "*/30 * * * *", -3),
    ):
        due = now + timedelta(minutes=minutes)
        times = {"enqueue_time": (due - timedelta(hours=3)).isoformat(), "scheduled_time": due.isoformat()}
        _task(page, name, function, cron=cron, priority=50, **times)


def scheduler(raw: Any) -> None:
    """A line, delayed jobs of which one stops the promotion, a hung job, dead letters of which two are of one job."""
    page = Page(raw)
    for number, priority in enumerate(("LOW", "NORMAL", "HIGH")):
        page.enqueue(f"6f1c-{number}", priority, ago_s=60)
    page.enqueue_delayed("d1aa-1", 3600, "HIGH")
    page.enqueue_delayed("d1aa-2", -120, "LOW")
    page.enqueue_delayed("nightly:report", -30, "NORMAL")
    page.mark_processing("9c9c-1", "worker-1", ago_s=7300)
    page.move_to_dlq("aa11", "HTTP 503 from hooks", ago_s=120)
    page.move_to_dlq("aa11", "timeout after 30000 ms", ago_s=60)
    page.move_to_dlq("bb22", "No handler registered for type email", ago_s=30)
