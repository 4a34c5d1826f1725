"""The management commands of IFDB's migration plan, as they stand there but for one import, and the way back."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.test_writers import IfdbWriter
from core.compat import site_tasks
from core.compat.site_tasks import Breaks, CloneFile, FetchFeeds, ImportGames, MarkBroken, RecodeGame
from qdeck import UsageError
from qdeck.admin import Reader
from qdeck.compat import ifdb
from qdeck.compat.ifdb import Enqueue, TaskQueue
from qdeck.compat.ifdb_rollback import main as roll_back
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.beside import Beside

DOCUMENT = Path(__file__).parent / "document"
DEAD_PORT = "redis://127.0.0.1:1/0"


class BaseCommand:
    """As much of Django's as the commands use."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.stdout = SimpleNamespace(write=lambda text: self.out.write(text + "\n"))


@pytest.fixture
def manage(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command of the document with `task_queue` of `core/taskqueue.py`."""
    timezone = SimpleNamespace(now=lambda: datetime.now(UTC))
    modules: dict[str, dict[str, Any]] = {
        "django.core.management.base": {"BaseCommand": BaseCommand},
        "django.utils": {"timezone": timezone},
        "games.tasks.game_importer": {"ImportGames": ImportGames},
        "core.feedfetcher": {"FetchFeeds": FetchFeeds},
    }

    def run(name: str, queue: TaskQueue = ifdb.task_queue, **options: Any) -> str:
        for where, names in {**modules, "core.taskqueue": {"task_queue": queue}}.items():
            made = ModuleType(where)
            vars(made).update(names)
            monkeypatch.setitem(sys.modules, where, made)
        module: dict[str, Any] = {}
        exec(compile((DOCUMENT / f"{name}.txt").read_text("utf-8"), name, "exec"), module)  # noqa: S102 - it is the page
        command = module["Command"]()
        command.handle(**options)
        return str(command.out.getvalue())

    return run


def test_the_status_command_tells_what_is_queued(site: TaskQueue, manage: Callable[..., str]) -> None:
    for url_id in range(3):
        Enqueue(CloneFile, url_id, name=f"CloneUrl({url_id})")
    Enqueue(RecodeGame, 1, priority=5)
    assert manage("redis_queue_status").splitlines() == [
        "✓ Redis connection: OK",
        "✓ Tasks in queue: 4",
        "✓ Task data entries: 4",
        "",
        "Next 5 tasks in queue:",
        "  - core.compat.site_tasks.RecodeGame (priority: 5)",
        "  - CloneUrl(0) (priority: 100)",
        "  - CloneUrl(1) (priority: 100)",
        "  - CloneUrl(2) (priority: 100)",
    ]


def test_the_status_command_fails_where_the_server_cannot_be_reached(manage: Callable[..., str]) -> None:
    """The page's catches every error and ends with 0, so that its check script was always OK."""
    with pytest.raises(SystemExit) as ended:
        manage("redis_queue_status", TaskQueue(DEAD_PORT))
    assert ended.value.code not in (0, None)
    assert "127.0.0.1:1" in str(ended.value.code)


def test_the_periodic_tasks_are_set_up(site: TaskQueue, url: str, manage: Callable[..., str]) -> None:
    for _ in range(2):
        assert manage("setup_periodic_tasks") == "Periodic tasks set up successfully\n"
    with Reader(url) as reader:
        assert {row.name: (row.cron, row.priority) for row in reader.schedules()} == {
            "ImportGames": ("0 */6 * * *", 50),
            "FetchFeeds": ("*/30 * * * *", 75),
        }


def test_the_cleanup_command_removes_what_ended_long_ago(
    site: TaskQueue, raw: Any, work: Callable[..., Beside], manage: Callable[..., str]
) -> None:
    """Failed tasks too; pending ones stay."""
    good, bad = Enqueue(CloneFile, 1), Enqueue(Breaks, 2, retries=0)
    waits = Enqueue(CloneFile, 3, scheduled_time=datetime.now(UTC) + timedelta(hours=1))
    work()
    wait_until(lambda: good.success and bad.fail)
    key = f"{{{ifdb.QUEUE}}}"
    for state, task in (("done", good), ("dead_letter", bad)):
        raw.zadd(f"{key}:{state}", {str(task): (datetime.now(UTC) - timedelta(days=8)).timestamp() * 1000})
    assert manage("cleanup_task_data", days=7, dry_run=True) == "Would clean up 2 old task records\n"
    assert manage("cleanup_task_data", days=9, dry_run=False) == "Cleaned up 0 old task records\n"
    assert manage("cleanup_task_data", days=7, dry_run=False) == "Cleaned up 2 old task records\n"
    assert [good.state, bad.state, waits.state] == ["unknown", "unknown", "delayed"]


def test_the_missing_setting_is_named(site: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDECK_TASK_MODULES", raising=False)
    with pytest.raises(UsageError, match="QDECK_TASK_MODULES is not set"):
        site.worker()


def test_a_rollback_puts_the_tasks_under_the_keys_of_the_plan(
    site: TaskQueue, url: str, raw: Any, work: Callable[..., Beside], capsys: pytest.CaptureFixture[str]
) -> None:
    """Run by the page's own worker, they run in order, once, with the runs that they have left."""
    failed = Enqueue(Breaks, 9, name="failed", retries=0)
    after_failed = Enqueue(RecodeGame, 9, dependency=failed)
    worker = work()
    with Reader(url) as reader:
        wait_until(lambda: after_failed.fail and reader.workers())
    assert roll_back([]) == 2
    assert "Stop the workers first" in capsys.readouterr().out
    worker.end()
    first = Enqueue(CloneFile, 1, name="CloneUrl(1)", onfail=MarkBroken)
    then = Enqueue(RecodeGame, 2, dependency=first, priority=5)
    last = Enqueue(RecodeGame, 3, dependency=then)
    Enqueue(CloneFile, 4, scheduled_time=datetime.now(UTC) + timedelta(hours=5))
    Enqueue(FetchFeeds, name="FetchFeeds", cron="*/30 * * * *", priority=75)
    capsys.readouterr()
    assert roll_back(["--dry-run"]) == 0
    assert capsys.readouterr().out == "would move 7 tasks and 1 recurring task to ifdb:task_data\n"
    assert raw.exists("ifdb:task_data") == 0
    assert roll_back([]) == 0
    assert raw.zcard("ifdb:task_queue") == 7
    tasks = {key.decode(): json.loads(text) for key, text in raw.hgetall("ifdb:task_data").items()}
    assert len(tasks) == 8
    one = tasks[first]
    assert (one["module"], one["function"], one["args"]) == ("core.compat.site_tasks", "CloneFile", [1])
    assert (one["name"], one["retries_left"], one["retry_minutes"]) == ("CloneUrl(1)", 4, 2000)
    assert (one["onfail_module"], one["onfail_function"]) == ("core.compat.site_tasks", "MarkBroken")
    assert tasks[failed]["fail"]
    assert (tasks[after_failed]["dependency"], tasks[after_failed]["pending"]) == (failed, True)
    [cron] = [task for task in tasks.values() if task["cron"]]
    assert (cron["name"], cron["cron"], cron["priority"]) == ("FetchFeeds", "*/30 * * * *", 75)
    page = IfdbWriter(raw)
    while task := page.next():
        page.execute(task)
    ran = [job for job in page.order if job in (first, then, last)]
    assert ran == [first, then, last]
    with Reader(url) as reader:
        assert [
            (row.adapter, row.name) for row in reader.snapshot().queues if row.ready or row.delayed or row.dead
        ] == [("ifdb", "ifdb")]
        assert [(row.adapter, row.name) for row in reader.schedules()] == [("ifdb", "FetchFeeds")]
    assert "qdeck undo" in capsys.readouterr().out


def test_the_rollback_is_a_command(site: TaskQueue, url: str) -> None:
    Enqueue(CloneFile, 1)
    command = [sys.executable, "-m", "qdeck.compat.ifdb_rollback", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, env={"REDIS_URL": url}, check=False)
    assert (done.returncode, done.stdout) == (0, "would move 1 task and 0 recurring tasks to ifdb:task_data\n")
    assert site_tasks.CALLS == []
