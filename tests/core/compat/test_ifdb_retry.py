"""What became of `RetryFailedJobs`: a task whose dependency failed waits until that one has succeeded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from core.compat.site_tasks import CALLS, MENDED, Breaks, RecodeGame
from qdeck.compat.ifdb import Enqueue, Enqueued
from qdeck_console.__main__ import main
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from qdeck.compat import ifdb
    from support.beside import Beside


def failed_pair(work: Callable[..., Beside]) -> tuple[Enqueued, Enqueued]:
    """A task that failed, and one that failed with it."""
    parent = Enqueue(Breaks, 7, name="P", retries=0)
    waits = Enqueue(RecodeGame, 1, name="D", dependency=parent)
    work()
    wait_until(lambda: parent.fail and waits.fail)
    return parent, waits


def run(url: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    main([*words, "--url", url])
    return capsys.readouterr().out


def test_retry_failed_runs_no_task_whose_dependency_did_not_succeed(
    site: ifdb.TaskQueue, url: str, work: Callable[..., Beside], capsys: pytest.CaptureFixture[str]
) -> None:
    parent, waits = failed_pair(work)
    plan = run(url, capsys, "dead", "retry", "ifdb:actions", "--dry-run")
    assert "1 of them died with a dependency: blocked until it has succeeded; --ignore-dependencies runs" in plan
    for _ in range(2):
        run(url, capsys, "dead", "retry", "ifdb:actions", "--yes")
        wait_until(lambda: parent.fail and waits.fail)
    assert ("RecodeGame", 1) not in CALLS
    run(url, capsys, "dead", "retry", "ifdb:actions", "--id", waits.id, "--yes")
    assert waits.state == "blocked"
    MENDED.add(7)
    run(url, capsys, "dead", "retry", "ifdb:actions", "--yes")
    wait_until(lambda: waits.success)
    assert parent.success
    assert CALLS[-2:] == [("Breaks", 7), ("RecodeGame", 1)]


def test_a_task_is_marked_as_succeeded_and_its_dependents_run(
    site: ifdb.TaskQueue, url: str, work: Callable[..., Beside], capsys: pytest.CaptureFixture[str]
) -> None:
    """As in the admin: the file was stored by hand."""
    parent, waits = failed_pair(work)
    run(url, capsys, "dead", "retry", "ifdb:actions", "--id", waits.id, "--yes")
    assert "completed 1 job" in run(url, capsys, "jobs", "complete", "ifdb:actions", "--id", parent.id, "--yes")
    wait_until(lambda: waits.success)
    assert parent.success


def test_a_task_may_be_run_without_its_dependency(
    site: ifdb.TaskQueue, url: str, work: Callable[..., Beside], capsys: pytest.CaptureFixture[str]
) -> None:
    _, waits = failed_pair(work)
    words = ("dead", "retry", "ifdb:actions", "--id", waits.id, "--ignore-dependencies")
    assert "1 of them died with a dependency: ready without it" in run(url, capsys, *words, "--dry-run")
    planned = json.loads(run(url, capsys, *words, "--dry-run", "--json"))
    assert (planned["ignore_dependencies"], planned["totals"]["waiting_again"]) == (True, 1)
    run(url, capsys, *words, "--yes")
    wait_until(lambda: waits.success)
    assert ("RecodeGame", 1) in CALLS
