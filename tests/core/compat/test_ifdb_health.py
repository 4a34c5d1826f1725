"""The line that replaces IFDB's check script: not OK while tasks wait and no worker is there to run them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from core.compat.site_tasks import Breaks, CloneFile, FetchFeeds
from qdeck._engine.keys import SCHEDULE_STATES
from qdeck.admin import Writer
from qdeck.compat import ifdb
from qdeck.compat.ifdb import Enqueue
from qdeck_console.__main__ import main
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from support.beside import Beside


def nagios(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["health", "--nagios", "--url", url])
    return code, capsys.readouterr().out


def test_delayed_tasks_without_a_worker_are_not_ok(
    site: ifdb.TaskQueue, url: str, work: Callable[..., Beside], capsys: pytest.CaptureFixture[str]
) -> None:
    """A task that waits 2,000 minutes for its retry waits for a worker as well."""
    Enqueue(CloneFile, 1, scheduled_time=datetime.now(UTC) + timedelta(hours=5))
    code, text = nagios(url, capsys)
    assert code == 1
    assert "no live worker for ifdb:actions, 1 job waiting" in text
    failed = Enqueue(Breaks, 7)
    worker = work()
    wait_until(lambda: failed.state == "delayed")
    assert nagios(url, capsys)[0] == 0
    worker.end()
    code, text = nagios(url, capsys)
    assert code == 1
    assert "no live worker for ifdb:actions, 2 jobs waiting" in text


def test_a_recurring_task_that_is_late_is_not_ok(
    site: ifdb.TaskQueue, url: str, raw: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`* * * * *`, 98 s late, with no task in the queue that would tell it."""
    first = Enqueue(FetchFeeds, name="FetchFeeds", cron="* * * * *")
    with Writer(url) as writer:
        writer.apply(writer.plan("discard", ifdb.QUEUE, ids=[first]))
    assert nagios(url, capsys)[0] == 0
    words = raw.hget(SCHEDULE_STATES, "FetchFeeds").split(b" ")
    ago_ms = round(time.time() * 1000) - 158_000
    words[1:3] = [b"%d" % ago_ms, b"%d" % (ago_ms // 1000)]
    raw.hset(SCHEDULE_STATES, "FetchFeeds", b" ".join(words))
    code, text = nagios(url, capsys)
    assert code == 1
    assert "schedule FetchFeeds of ifdb:actions is late" in text
