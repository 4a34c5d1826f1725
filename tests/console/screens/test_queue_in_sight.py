"""The number of Jobs opens the jobs of the queue that is on screen or under the cursor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.screens.queues import QueuesScreen
from support import screens
from support.screens import HOOKS, SEARCH, app_of, console, fail_next

if TYPE_CHECKING:
    from textual.pilot import Pilot

until = partial(screens.until, seconds=10.0)


@pytest.fixture
def two_queues(url: str) -> str:
    """The URL of a server with one queue that has dead letters, and one with more jobs, all ready."""
    with Writer(url) as writer:
        for number in range(20):
            writer.enqueue(SEARCH, "reindex", [number])
        writer.enqueue(HOOKS, "deliver", ["dies"], retries=0)
    fail_next(url, HOOKS, {"class": "ConnectionError", "message": "refused"})
    with Writer(url) as writer:
        writer.enqueue(HOOKS, "deliver", ["waits"])
    return url


def jobs_of(pilot: Pilot[int]) -> str:
    """Return the queue whose jobs are on screen."""
    screen = app_of(pilot).screen
    return screen.queue.name if isinstance(screen, JobsScreen) and screen.queue is not None else ""


async def on_queue(pilot: Pilot[int], name: str) -> None:
    """Put the cursor of Queues on a queue."""
    screen = app_of(pilot).screen
    assert isinstance(screen, QueuesScreen)
    for key in ("g", "j"):
        await pilot.press(key)
        await until(pilot, lambda: screen.queue_row is not None)
        if screen.queue_row is not None and screen.queue_row.name == name:
            return
    raise AssertionError(name)


@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_jobs_are_those_of_the_queue_under_the_cursor(two_queues: str, size: tuple[int, int]) -> None:
    async with console(two_queues, size=size) as pilot:
        await until(pilot, "2 queues")
        for name in (HOOKS, SEARCH, HOOKS):
            await on_queue(pilot, name)
            await pilot.press("2")
            await until(pilot, lambda name=name: jobs_of(pilot) == name)  # type: ignore[misc] # mypy infers no lambda with a default
            await pilot.press("1")
            await until(pilot, lambda: isinstance(app_of(pilot).screen, QueuesScreen))


async def test_jobs_are_those_of_the_page_of_a_queue_and_not_of_the_last_visited_one(two_queues: str) -> None:
    async with console(two_queues, size=(100, 30)) as pilot:
        app = app_of(pilot)
        await until(pilot, "2 queues")
        await on_queue(pilot, SEARCH)
        await pilot.press("2")
        await until(pilot, lambda: jobs_of(pilot) == SEARCH)
        await pilot.press("1")
        await on_queue(pilot, HOOKS)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, QueueScreen))
        await pilot.press("2")
        await until(pilot, lambda: jobs_of(pilot) == HOOKS)


async def test_the_list_that_was_left_is_shown_again(two_queues: str) -> None:
    async with console(two_queues) as pilot:
        app = app_of(pilot)
        await until(pilot, "2 queues")
        await on_queue(pilot, HOOKS)
        await pilot.press("2")
        await until(pilot, lambda: jobs_of(pilot) == HOOKS)
        screen = app.screen
        assert isinstance(screen, JobsScreen)
        first = screen.state
        await pilot.press("tab")
        await until(pilot, lambda: screen.state is not first)
        chosen = screen.state
        await until(pilot, lambda: screen.view.row is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await pilot.press("2")
        await until(pilot, lambda: app.screen is screen)
        assert (jobs_of(pilot), screen.state) == (HOOKS, chosen)


async def test_a_key_right_after_it_is_for_the_queue_that_was_opened(two_queues: str) -> None:
    async with console(two_queues) as pilot:
        await until(pilot, "2 queues")
        await on_queue(pilot, SEARCH)
        await pilot.press("2")
        await until(pilot, lambda: jobs_of(pilot) == SEARCH)
        await until(pilot, "1–20 of 20")
        await pilot.press("1")
        await on_queue(pilot, HOOKS)
        await pilot.press("2", "c")
        await until(pilot, lambda: jobs_of(pilot) == HOOKS)
    assert screens.row(two_queues, SEARCH).ready == 20
