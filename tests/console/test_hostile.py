"""Hostile text in every field, through every screen: it is shown, it is never obeyed, and nothing crashes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from qdeck_console.textual_compat import strips_of
from qdeck_console.widgets.lines import LineList
from support.driving import app_on
from support.hostile import is_clean, poison

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from textual.pilot import Pilot

    from qdeck_console.app import ConsoleApp


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


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [(160, 48), (80, 24)])
async def test_every_screen_shows_hostile_text_and_obeys_none_of_it(
    url: str, raw: redis.Redis, size: tuple[int, int]
) -> None:
    poison(raw)
    async with console(url, size) as (app, pilot):
        for _ in range(200):
            await pilot.pause(0.03)
            if app.shown.snapshot is not None:
                break
        assert app.shown.snapshot is not None
        for mode in app.MODES:
            app.action_tab(mode)
            await look(app, pilot, mode, looks=12)
            for _ in range(3):
                await pilot.press("j")
                await look(app, pilot, mode, looks=1)
            for keys in (("enter",), ("escape",), ("G", "enter"), ("tab", "j", "enter"), ("question_mark",)):
                await pilot.press(*keys)
                await look(app, pilot, f"{mode} {keys}", looks=6)
            for _ in range(6):
                await pilot.press("escape")
            await pilot.press("slash", *"evil", "enter")
            await look(app, pilot, f"{mode} filtered")
            await pilot.press("escape", "escape")
        assert not app.shown.is_lost, app.shown.problem
        await pilot.press("1", "colon", *"find 1")
        await look(app, pilot, "palette")
        await pilot.press("enter")
        await look(app, pilot, "found", looks=4)
        assert app.screen.query(LineList) is not None
