"""A question opens over the page that it was asked on or not at all; only keys typed after it was drawn answer it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from textual import events

from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.prompt import Prompt
from support import screens
from support.screens import HOOKS, app_of, console, fill, row, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.proxy import FaultProxy

until = partial(screens.until, seconds=20.0)


@pytest.mark.parametrize("key", ["r", "R"])
async def test_a_question_is_dropped_when_its_page_was_left(
    url: str, make_proxy: Callable[[str], FaultProxy], key: str
) -> None:
    fill(url)
    proxy = make_proxy(url)
    async with console(proxy.url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "12 dead letters in 1 group, exact")
        await until(pilot, "1–12 of 12")
        proxy.latency(0.3)
        await pilot.press(key, "2")
        assert isinstance(app.screen, JobsScreen)
        await until(pilot, "was not asked: its page was left")
        assert isinstance(app.screen, JobsScreen)
        assert app.operator.work is None
        proxy.latency(0)
        await pilot.press("4")
        await until(pilot, lambda: "12 dead letters in 1 group" in text(app))
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, Prompt))
    assert row(url, HOOKS).dead == 12


async def test_a_question_does_not_open_over_the_palette(url: str, make_proxy: Callable[[str], FaultProxy]) -> None:
    fill(url)
    proxy = make_proxy(url)
    async with console(proxy.url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "12 dead letters in 1 group, exact")
        proxy.latency(0.3)
        await pilot.press("x", "colon")
        await until(pilot, lambda: app.operator.work is None)
        assert not isinstance(app.screen, Prompt)
        await pilot.press("escape")
        await until(pilot, "was not asked: its page was left")


async def test_keys_typed_before_the_question_is_drawn_do_not_answer_it(url: str) -> None:
    fill(url)
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "12 dead letters in 1 group, exact")
        app.post_message(events.Key("x", "x"))
        while not isinstance(app.screen, Prompt):  # noqa: ASYNC110 - the keys come before its first frame
            await asyncio.sleep(0)
        for key in ("tab", "enter"):
            app.post_message(events.Key(key, None))
        await until(pilot, "Discard 12 jobs")
        assert isinstance(app.screen, Prompt)
        assert not app.screen.on_act
        assert row(url, HOOKS).dead == 12
        await pilot.press("tab", "enter")
        await until(pilot, "12 discarded")
