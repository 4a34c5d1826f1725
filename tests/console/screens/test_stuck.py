"""The Stuck screen: what its filter matches is looked through once, however often it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._engine import transitions
from qdeck.admin import Writer, parse
from qdeck_console.screens import stuck
from qdeck_console.screens.stuck import StuckScreen
from support.documents import HOUR_S, ago, machine, pool, ruby
from support.screens import MAIL, app_of, console, run, until

if TYPE_CHECKING:
    import pytest
    import redis


async def test_a_filter_looks_at_each_job_once_a_refresh(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Writer(url) as writer:
        writer.enqueue(MAIL, "send", [1])
    run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=1, lease_ms=1))
    asked = 0

    def counted(text: str) -> object:
        nonlocal asked
        asked += 1
        return parse(text)

    async with console(url, "3") as pilot:
        await until(pilot, "worker lost  1")
        screen = app_of(pilot).screen
        assert isinstance(screen, StuckScreen)
        await pilot.press("f")  # no refresh while it is asked
        monkeypatch.setattr(stuck, "parse", counted)
        assert len(screen.matching()) == 1
        before = asked
        assert screen.has_jobs()
        assert len(screen.matching()) == 1
        assert asked == before
        screen.filter_text = "id:other"
        assert screen.matching() == []
        assert asked == before + 1


async def test_keys_follow_the_row_under_the_cursor(url: str, raw: redis.Redis) -> None:
    """A machine cannot be requeued, and says why; an overdue job of the scheduler offers to run it now."""
    pool(raw, "centos-7")
    machine(raw, "pending", "pend1", "centos-7", clone=ruby(ago(3 * HOUR_S)))
    raw.zadd("scheduler:queue:delayed", {"job-3:HIGH": ago(HOUR_S) * 1000})
    async with console(url, "3", adapters=("vmpooler", "scheduler")) as pilot:
        await until(pilot, "2 stuck jobs")
        screen = app_of(pilot).screen
        assert isinstance(screen, StuckScreen)
        await until(pilot, lambda: screen.view.cursor.endswith("pend1"))
        assert "n run now" not in await until(pilot, "r  not possible: vmpooler cannot requeue")
        await pilot.press("r")
        await until(pilot, "the manager refills pools automatically")
        await pilot.press("j")
        await until(pilot, "n run now")
        await pilot.press("n")
        await until(pilot, lambda: raw.zscore("scheduler:queue:priority", "job-3") is not None)
        assert raw.zcard("scheduler:queue:delayed") == 0
