"""While a filter is typed, no key reaches the list, the screen or the app: only those of the field, enter and esc."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck_console.actions import TABS
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.frame import FrameScreen
from qdeck_console.widgets.text_field import TextField
from support.screens import HOOKS, app_of, bury, console, fill, lines, row, until

if TYPE_CHECKING:
    from textual.pilot import Pilot

REFUSED = {"class": "ConnectionError", "message": "refused"}
NOT_OF_THE_FIELD = ("tab", "shift+tab", "up", "down", "pageup", "pagedown", "ctrl+p")
FILTERED = [str(number) for name, number in TABS.items() if name != "purge"]


def screen_of(pilot: Pilot[int]) -> FrameScreen:
    found = app_of(pilot).screen_stack[0]
    assert isinstance(found, FrameScreen)
    return found


def box_of(pilot: Pilot[int]) -> TextField:
    return screen_of(pilot).query_one("#filter", TextField)


async def test_a_tab_in_a_filter_does_not_arm_the_keys_of_the_list(url: str) -> None:
    bury(url, HOOKS, [REFUSED] * 3)
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "3 dead letters in 1 group")
        await pilot.press("slash", *"refused", "tab", "x")
        await until(pilot, lambda: box_of(pilot).value == "refusedx", 10)
        assert isinstance(app.screen, DeadScreen), "no dialog asks whether to discard"
        await pilot.press("escape")
        await until(pilot, "3 dead letters in 1 group", 10)
        await pilot.press("slash", *"er")
        await until(pilot, lambda: box_of(pilot)._suggestion == "error:", 10)
        await pilot.press("tab", *"C*")
        await until(pilot, lambda: box_of(pilot).value == "error:C*", 10)
        assert (app.screen_stack[1:], app.busy, row(url, HOOKS).dead) == ([], "", 3)


@pytest.mark.parametrize("tab", FILTERED)
async def test_other_keys_leave_the_filter_on_every_screen_as_it_is(url: str, tab: str) -> None:
    fill(url)
    async with console(url, tab) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: screen_of(pilot).is_read_in(screen_of(pilot).feed_state), 10)
        await pilot.press("slash")
        for count, key in enumerate(NOT_OF_THE_FIELD, 1):
            await pilot.press(key, "e")
            assert (box_of(pilot).value, app.focused, len(app.screen_stack)) == ("e" * count, box_of(pilot), 1), key


async def test_the_footer_has_the_keys_of_the_filter_while_it_is_typed(url: str) -> None:
    bury(url, HOOKS, [REFUSED] * 3)
    async with console(url, "4") as pilot:
        app = app_of(pilot)
        await until(pilot, "3 dead letters in 1 group")
        await pilot.press("slash")
        await until(pilot, lambda: "enter keep the filter  esc clear it" in lines(app)[-1], 10)
        assert not {"help", "retry", "discard"} & set(lines(app)[-1].split())
        await pilot.press("C", "enter")
        await until(pilot, lambda: "retry" in lines(app)[-1], 10)


@pytest.mark.parametrize("tab", ["2", "4"])
async def test_esc_leaves_a_filter_that_is_still_empty_and_nothing_else(url: str, tab: str) -> None:
    bury(url, HOOKS, [REFUSED] * 3)
    async with console(url, tab) as pilot:
        await until(pilot, "hooks")
        await until(pilot, lambda: not screen_of(pilot).why_not("all"))
        await pilot.press("asterisk", "slash", "escape")
        await until(pilot, lambda: not box_of(pilot).has_focus and not box_of(pilot).display, 10)
        assert screen_of(pilot).tab == {"2": "jobs", "4": "dead"}[tab]
