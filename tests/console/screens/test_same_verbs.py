"""The same verbs wherever a job is shown, reasons that name state and screen, and `y` for what can be undone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import transitions
from qdeck.admin import State, Writer
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.prompt import Prompt
from support import screens
from support.screens import HOOKS, MAIL, app_of, command, console, fill, row, run, text

if TYPE_CHECKING:
    from textual.pilot import Pilot

until = partial(screens.until, seconds=10.0)


def stick(url: str, count: int) -> list[str]:
    """Make stuck jobs of a worker that is gone."""
    with Writer(url) as writer:
        ids = [writer.enqueue(MAIL, "send", [number]).id for number in range(count)]
    run(url, transitions.poll(MAIL, "wrk-gone", 1, free_slots=count, lease_ms=1))
    return ids


async def on_page(pilot: Pilot[int], job: str) -> None:
    """Open the page of a job."""
    await command(pilot, f"find {job}")
    await until(pilot, lambda: isinstance(app_of(pilot).screen, JobScreen))
    await until(pilot, "timeline")


@pytest.mark.parametrize(("key", "question", "told", "state"), [
    ("r", "Requeue 1 job", "1 requeued", "ready"),
    ("b", None, "1 buried", "dead"),
    ("c", "Cancel 1 job", "1 requested to stop", "running"),
])  # fmt: skip
@pytest.mark.parametrize("where", ["page", "jobs"])
async def test_a_stuck_job_is_operated_on_its_page_and_in_jobs(
    url: str, where: str, key: str, question: str | None, told: str, state: str
) -> None:
    [job] = stick(url, 1)
    async with console(url, "3") as pilot:
        app = app_of(pilot)
        await until(pilot, "1 stuck job")
        if where == "page":
            await pilot.press("enter")
            await until(pilot, "timeline")
            assert isinstance(app.screen, JobScreen)
        else:
            await pilot.press("1", "2")
            await until(pilot, "1–1 of 1")
            assert isinstance(app.screen, JobsScreen)
            assert app.screen.state is State.RUNNING
        if key == "r":
            assert "r requeue" in await until(pilot, "r requeue")
        await pilot.press(key)
        if question is not None:
            await until(pilot, question)
            await pilot.press("tab", "enter")
        await until(pilot, told)
    with Writer(url) as writer:
        assert writer.job(MAIL, job).state == state


async def test_all_running_jobs_of_a_queue_are_requeued_from_jobs(url: str) -> None:
    stick(url, 3)
    async with console(url, "1") as pilot:
        await until(pilot, "1 queue")
        await pilot.press("2", "asterisk")
        await until(pilot, "r requeue all 3")
        await pilot.press("r")
        await until(pilot, "Requeue 3 jobs")
        await pilot.press("tab", "enter")
        await until(pilot, "3 requeued")
    assert row(url, MAIL).ready == 3


async def test_a_reason_names_the_state_and_the_right_screen(url: str) -> None:
    with Writer(url) as writer:
        ready = writer.enqueue(MAIL, "send", [1]).id
    async with console(url, size=(100, 30)) as pilot:
        await on_page(pilot, ready)
        for key, words in (
            ("r", "it is ready; retry is for dead jobs, see 4 Dead"),
            ("n", "it is ready; run now is for delayed jobs, see 2 Jobs"),
        ):
            await pilot.press(key)
            await until(pilot, words)
        await pilot.press("escape", "2")
        await until(pilot, "1–1 of 1")
        await pilot.press("n")
        await until(pilot, "it is ready; run now is for delayed jobs")
        assert "see 2 Jobs" not in text(app_of(pilot))


async def test_y_confirms_what_can_be_undone_and_nothing_else(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "12 dead letters in 1 group, exact")
        await pilot.press("x")
        seen = await until(pilot, "Discard 12 jobs")
        assert "y Discard 12" in seen
        await pilot.press("y")
        await until(pilot, "12 discarded")
        assert row(url, HOOKS).dead == 0
        await pilot.press("3")
        await until(pilot, "1 stuck job")
        await pilot.press("r")
        seen = await until(pilot, "Requeue 1 job")
        assert "y Requeue" not in seen
        await pilot.press("y")
        await pilot.pause(0.2)
        assert isinstance(app.screen, Prompt)
        await pilot.press("escape")
        await until(pilot, "nothing was changed")
    assert row(url, MAIL).running == 1


async def test_in_production_y_does_not_take_the_place_of_the_name(url: str) -> None:
    fill(url)
    async with console(url, "4", environment="production", title="prod") as pilot:
        await until(pilot, "12 dead letters in 1 group, exact")
        await pilot.press("x")
        await until(pilot, "Discard 12 jobs")
        await pilot.press("y", "enter")
        await pilot.pause(0.2)
        assert isinstance(app_of(pilot).screen, Prompt)
    assert row(url, HOOKS).dead == 12
