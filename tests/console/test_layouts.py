"""The console over the queues of other systems: every screen, each layout, and an act that is taken back."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from console.test_app import until
from layouts.test_conformance import FILL
from qdeck._deck.deck import Deck
from qdeck._layout_names import LAYOUTS
from qdeck_console.app import ConsoleApp
from qdeck_console.terminal import context_of
from support.screens import app_of, lines, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from textual.pilot import Pilot

SECRET = "tok123"


@contextlib.asynccontextmanager
async def console(url: str, size: tuple[int, int] = (160, 48)) -> AsyncIterator[Pilot[int]]:
    deck = Deck(url, layouts=LAYOUTS)
    app = ConsoleApp(deck, context_of(deck, "others"))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.shown.snapshot is not None)
        yield pilot


@pytest.mark.parametrize("layout", FILL)
async def test_every_screen_shows_it(url: str, raw: redis.Redis, layout: str) -> None:
    FILL[layout]().populate(raw)
    async with console(url) as pilot:
        await until(pilot, layout)
        for key in "23456789":
            await pilot.press(key)
            await pilot.pause(0.2)
            assert SECRET not in text(app_of(pilot))
            assert all(line.isprintable() for line in lines(app_of(pilot)))
        await pilot.press("1")
        await until(pilot, layout)


async def test_what_is_stuck_is_told_in_the_words_of_its_system(url: str, raw: redis.Redis) -> None:
    FILL["scheduler"]().populate(raw)
    async with console(url) as pilot:
        await pilot.press("3")
        await until(pilot, "in other layouts")
        await until(pilot, "x:WHAT")
        await until(pilot, "it does not move")


async def test_an_act_that_a_layout_has_not_is_greyed_with_the_reason(url: str, raw: redis.Redis) -> None:
    with Deck(url, layouts=("vmpooler",)) as deck:
        FILL["vmpooler"]().populate(raw)
        deck.status()
        assert "fills a pool" in deck.others.why_not("vmpooler", "requeue", "running")
        assert deck.others.why_not("vmpooler", "move", "ready") == "vmpooler has nothing like move"
        assert deck.others.why_not("vmpooler", "retry", "dead") == ""
        assert "is for what is dead" in deck.others.why_not("vmpooler", "retry", "ready")
