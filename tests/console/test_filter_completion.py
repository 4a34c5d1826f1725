"""What a filter is completed to, through the field and its keys."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from qdeck_console.filter_completion import completed
from support.screens import HOOKS, app_of, bury, console, until

VALUES = {"error": ["Timeout", "TimeoutError", "Refused by peer"], "queue": ["shop:mail"]}


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("er", "error:"),
        ("att", "attempts>="),
        ("ag", "age>"),
        ("payl", "payload."),
        ("error:Timeo", "error:Timeout"),
        ("error:Timeout", "error:TimeoutError"),
        ("error:Refused", None),  # it needs quotes
        ("state:del", "state:delayed"),
        ("state:ready,de", "state:ready,dead"),
        ("-queue:sh", "-queue:shop:mail"),
        ("(error:Timeo", "(error:Timeout"),
        ("age>2h er", "age>2h error:"),
        ('"error:Ti', None),
        ("", None),
        ("zzz", None),
        ("zzz:a", None),
    ],
)
def test_the_last_word_is_completed(text: str, whole: str | None) -> None:
    assert completed(text, lambda field: VALUES.get(field, [])) == whole


async def test_tab_completes_a_field_and_a_value_on_screen_and_up_recalls_the_filter(url: str) -> None:
    bury(url, HOOKS, [{"class": "Refused", "message": "502"}] * 2 + [{"class": "Timeout", "message": "slow"}])
    async with console(url) as pilot:
        await pilot.press("4")
        await until(pilot, "Refused")
        box = app_of(pilot).screen.query_one("#filter", Input)
        await pilot.press("slash", "e", "r")
        await until(pilot, "tab complete")
        await until(pilot, lambda: box._suggestion == "error:")
        await pilot.press("tab")
        assert box.value == "error:"
        await pilot.press("R")
        await until(pilot, lambda: box._suggestion == "error:Refused")
        await pilot.press("tab", "enter")
        await until(pilot, "2 dead letters in 1 group")
        await pilot.press("escape")
        await until(pilot, "3 dead letters in 2 groups")
        await pilot.press("slash", "up")
        assert box.value == "error:Refused"
        await pilot.press("down")
        assert box.value == ""
