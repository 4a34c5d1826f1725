"""The sign under a mistake in a filter stands below the character, however many cells those before it take."""

from __future__ import annotations

import itertools
import unicodedata
from functools import partial
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from textual.widgets import Input

from qdeck import InvalidFilter
from qdeck.admin import explain, parse
from support.screens import app_of, console, lines, until

if TYPE_CHECKING:
    from qdeck_console.app import ConsoleApp

BEFORE = (
    "plain", "日本語", "e\u0301e\u0301", "\u0301" * 7, "👩\u200d👩\u200d👧", "❤\ufe0f", "🇪🇸", "ก\u0e31ก",
    "a\tb", "a\x1b[31mb", "x\u200by",
)  # fmt: skip


async def test_the_sign_is_below_the_character_in_the_field(url: str) -> None:
    async with console(url, "4", size=(80, 24)) as pilot:
        app = app_of(pilot)
        await pilot.press("slash")
        box = app.screen.query_one("#filter", Input)
        for number, before in enumerate(BEFORE):
            words = f"{number} age>!"
            box.value = f"{before} {words}"
            await until(pilot, partial(is_below, app, words), 5)
            field = next(line for line in lines(app) if words in line)
            assert all(unicodedata.category(char) != "Cc" for char in field), ascii(before)


def is_below(app: ConsoleApp, words: str) -> bool:
    """Whether the sign stands in the line below the field, under the last character of it."""
    for field, wrong in itertools.pairwise(lines(app)):
        if words in field and "^" in wrong:
            return cell_len(field[: field.index(words) + len(words) - 1]) == cell_len(wrong[: wrong.index("^")])
    return False


@pytest.mark.parametrize("before", ["plain", "日本語", "e\u0301e\u0301", "ก\u0e31ก", "o\u20dd"])
def test_the_sign_is_below_the_character_in_a_message(before: str) -> None:
    wanted = f"{before} age>!"
    with pytest.raises(InvalidFilter) as caught:
        parse(wanted)
    told = explain(wanted, caught.value).splitlines()
    assert cell_len(told[1][: told[1].index("!")]) == told[2].index("^")
