"""Hostile text in every field, through every screen: it is shown, it is never obeyed, and nothing crashes."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Final

import pytest

from qdeck.admin import QueueRef, State
from qdeck_console.actions import JOBS, PURGE
from qdeck_console.screens.job import JobScreen
from qdeck_console.textual_compat import strips_of
from support.hostile import QUEUE, is_clean, poison
from support.screens import app_on, lines, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from textual.pilot import Pilot

    from qdeck_console.app import ConsoleApp

BARS: Final = 3  # rows above what a screen shows: context, status, tabs
ESCAPED: Final = re.compile(r"\\x[0-9a-f]{2}|\\[uU][0-9a-f]{4}")  # as the console draws what a terminal would obey


@contextlib.asynccontextmanager
async def console(url: str, size: tuple[int, int]) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    app = app_on(url, title="demo\x1b[2J[@click=app.exit]x[/]", read_only=True)
    async with app.run_test(size=size, notifications=True, tooltips=True) as pilot:
        yield app, pilot


def check(app: ConsoleApp, where: str) -> None:
    """No character that a terminal obeys, and no looks that a browser or a click would."""
    for strip in strips_of(app.screen):
        for part in strip:
            assert is_clean(part.text), f"{where}: {part.text!r}"
            assert part.control is None, where
            assert part.style is None or part.style.link is None, f"{where}: {part.style}"
            actions = {name for name in (part.style.meta if part.style else {}) if name.startswith("@")}
            assert not actions, f"{where}: {actions}"


async def look(app: ConsoleApp, pilot: Pilot[int], where: str, *, looks: int = 2) -> None:
    for _ in range(looks):
        await pilot.pause(0.03)
        check(app, where)


async def see(app: ConsoleApp, pilot: Pilot[int], where: str) -> None:
    """Wait until hostile text is drawn below the bars, and check each frame on the way."""

    def is_drawn() -> bool:
        check(app, where)
        return bool(ESCAPED.search("\n".join(lines(app)[BARS:])))

    await until(pilot, is_drawn, 120)  # each look checks all that is drawn: seconds alone, far more under load


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_every_screen_shows_hostile_text_and_obeys_none_of_it(
    url: str, raw: redis.Redis, size: tuple[int, int]
) -> None:
    poison(raw)
    async with console(url, size) as (app, pilot):
        await until(pilot, lambda: app.shown.snapshot is not None)
        for mode in app.MODES:
            app.action_tab(mode)
            if mode == JOBS:
                app.show_jobs(QueueRef("native", QUEUE), State.DEAD)
            if mode == PURGE:  # it shows rules until a plan is made, and a console that may only look makes none
                await look(app, pilot, mode)
            else:
                await see(app, pilot, mode)
            for _ in range(3):
                await pilot.press("j")
                await look(app, pilot, mode, looks=1)
            for keys in (("enter",), ("escape",), ("G", "enter"), ("tab", "j", "enter"), ("question_mark",)):
                await pilot.press(*keys)
                await look(app, pilot, f"{mode} {keys}", looks=2)
            for _ in range(6):
                await pilot.press("escape")
            await pilot.press("slash", *"evil", "enter")
            await look(app, pilot, f"{mode} filtered")
            await pilot.press("escape", "escape")
        assert not app.shown.is_lost, app.shown.problem
        app.show_jobs(QueueRef("native", QUEUE), State.DEAD)
        await see(app, pilot, "jobs")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen))
        await see(app, pilot, "a job")
        await pilot.press("colon", *"find 1")
        await look(app, pilot, "palette")
        await pilot.press("enter")
        await until(pilot, "1 was not found")
        check(app, "found")
