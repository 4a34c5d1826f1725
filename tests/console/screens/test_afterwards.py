"""What became of an operation is told where the operator is; a redrive that was left can be opened again."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from qdeck._engine import transitions
from qdeck_console.screens.activity import ActivityScreen
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.redrive import RedriveScreen
from support import screens
from support.screens import HOOKS, app_of, claim, console, fail_next, fill, row, run, text, undo

if TYPE_CHECKING:
    from textual.pilot import Pilot

until = partial(screens.until, seconds=20.0)


def finish(url: str, count: int) -> None:
    """Run jobs, and they are done."""
    jobs = [(job.id, job.token) for job in claim(url, HOOKS, count, worker="wrk-2")]
    at = time.time_ns() // 1000
    run(url, transitions.poll(HOOKS, "wrk-2", at, free_slots=0, lease_ms=60_000, acks=jobs))


async def retry_all(pilot: Pilot[int]) -> None:
    """Retry the one group of Dead."""
    await until(pilot, "12 dead letters in 1 group, exact")
    await pilot.press("r")
    await until(pilot, "Retry 12 jobs")
    await pilot.press("tab", "enter")
    await until(pilot, "12 retried")


async def test_the_status_line_follows_retried_jobs(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await retry_all(pilot)
        await pilot.press("1")
        finish(url, 4)
        await until(pilot, "12 retried: 4 done, 8 waiting")
        for _ in range(3):
            fail_next(url, HOOKS, {"class": "Timeout", "message": "again"})
        await until(pilot, "12 retried: 4 done, 3 dead again, 5 waiting")
        finish(url, 5)
        await until(pilot, "▲ 12 retried: 9 done, 3 dead again")


async def test_it_is_not_told_of_jobs_whose_retry_was_undone(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        await retry_all(pilot)
        finish(url, 1)
        await until(pilot, "12 retried: 1 done, 11 waiting")
        await undo(pilot)
        await until(pilot, "undo of retry of 12 jobs: 11 restored")
        await pilot.pause(3)
        assert "12 retried: " not in text(app_of(pilot))


async def test_a_redrive_that_was_left_goes_on_and_is_opened_again(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "12 dead letters in 1 group, exact")
        await pilot.press("D")
        await until(pilot, "no redrive was started here")
        await pilot.press("R")
        await until(pilot, "Redrive 12 jobs")
        await pilot.press("tab", "backspace", "backspace", "5", "enter")
        await until(pilot, "the rest only if they succeed")
        await pilot.press("tab", "enter")
        await until(pilot, "5 of 12 retried")
        assert isinstance(app.screen, RedriveScreen)
        drive = app.screen.drive
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, DeadScreen))
        await until(pilot, "watching the sample, D on Dead opens it")
        await pilot.press("escape")
        assert app.operator.work is not None
        assert not app.operator.work.cancelled, "esc stops it on its own page only"
        for key, screen in (("4", DeadScreen), ("9", ActivityScreen)):
            await pilot.press(key)
            await until(pilot, lambda screen=screen: isinstance(app.screen, screen))  # type: ignore[misc] # mypy infers no lambda with a default
            await pilot.press("D")
            await until(pilot, lambda: isinstance(app.screen, RedriveScreen))
            assert isinstance(app.screen, RedriveScreen)
            assert app.screen.drive is drive
        await until(pilot, "esc stop")
        await pilot.press("escape")
        await until(pilot, "▲ cancelled")
        await pilot.press("9")
        await until(pilot, "redrive  ")
        await pilot.press("D")
        await until(pilot, "▲ cancelled")
    assert row(url, HOOKS).dead == 7
