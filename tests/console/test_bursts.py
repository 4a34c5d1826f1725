"""Keys that come in one gulp, as over a slow line: what is typed after `:` or `/` is never a key of the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual import events

from qdeck_console.screens.palette import PaletteScreen
from qdeck_console.screens.prompt import Prompt, PromptField, live_question
from qdeck_console.widgets.text_field import TextField
from support.screens import app_of, bury, console, row, text, until

if TYPE_CHECKING:
    from textual.pilot import Pilot

QUEUE = "demo:dev:hooks:actions"
KEYS = {":": "colon", "/": "slash", "?": "question_mark"}


def gulp(pilot: Pilot[int], keys: str) -> None:
    """All of them before the first one is dealt with."""
    app = app_of(pilot)
    for key in keys:
        app.post_message(events.Key(KEYS.get(key, key), key))


@pytest.mark.parametrize("screen", ["1", "4"])
async def test_what_is_typed_after_a_colon_is_a_command(url: str, screen: str) -> None:
    bury(url, QUEUE, [{"class": "Timeout", "message": "slow"}] * 3)
    async with console(url, screen) as pilot:
        app = app_of(pilot)
        await until(pilot, "hooks")
        gulp(pilot, ":retryx")
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen))
        await until(pilot, lambda: app.screen.query_one("#words", TextField).value == "retryx")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, PaletteScreen))
        assert (row(url, QUEUE).dead, app.frozen_ms) == (3, None), "none of them acted"


async def test_enter_right_after_a_colon_does_nothing(url: str) -> None:
    bury(url, QUEUE, [{"class": "Timeout", "message": "slow"}] * 3)
    async with console(url, "1") as pilot:
        app = app_of(pilot)
        await until(pilot, "hooks")
        app.post_message(events.Key("colon", ":"))
        app.post_message(events.Key("enter", None))
        await until(pilot, lambda: isinstance(app.screen, PaletteScreen) and app.focused is not None)
        await pilot.press("enter")
        assert isinstance(app.screen, PaletteScreen), "nothing was named"
        await pilot.press("down", "up", "enter")
        await until(pilot, lambda: not isinstance(app.screen, PaletteScreen))


async def test_what_is_typed_after_a_slash_is_a_filter(url: str) -> None:
    bury(url, QUEUE, [{"class": "Timeout", "message": "slow"}] * 3)
    async with console(url, "1") as pilot:
        app = app_of(pilot)
        await until(pilot, "hooks")
        gulp(pilot, "/fp:")
        await until(pilot, lambda: app.screen.query_one("#filter", TextField).value == "fp:")
        assert (row(url, QUEUE).paused, app.frozen_ms) == (False, None)
        gulp(pilot, "?")
        await until(pilot, lambda: app.screen.query_one("#filter", TextField).value == "fp:?")
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "list")
        gulp(pilot, "?")
        await until(pilot, lambda: "keys of this screen" in text(app))


async def test_what_is_typed_after_tab_goes_to_the_next_field(url: str) -> None:
    async with console(url, "") as pilot:
        app = app_of(pilot)
        for dialog in (
            Prompt(app, "Move", fields=[PromptField(label="to"), PromptField(label="why")]),
            live_question(app),
        ):
            await app.push_screen(dialog)
            await until(pilot, lambda: app.focused is not None)
            for key in ("a", "tab", "b"):
                app.post_message(events.Key(key, None if key == "tab" else key))
            await until(pilot, lambda: app.screen.query_one("#field1", TextField).value == "b")
            assert app.screen.query_one("#field0", TextField).value == "a"
            await pilot.press("escape")
            await until(pilot, lambda known=dialog: app.screen is not known)  # type: ignore[misc]  # of this round
