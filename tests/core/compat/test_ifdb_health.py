"""The line that replaces IFDB's check script: not OK while tasks wait and no worker is there to run them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from core.compat.site_tasks import Breaks, CloneFile
from qdeck.compat.ifdb import Enqueue
from qdeck_console.__main__ import main
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from qdeck.compat import ifdb
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
