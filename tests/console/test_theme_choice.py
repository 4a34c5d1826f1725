"""Themes that are not ours: every colour on screen is theirs, and the choice of one is kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from textual.color import Color
from textual.theme import BUILTIN_THEMES

from qdeck.admin import Target
from qdeck_console import theme_choice
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import Contexts
from qdeck_console.textual_compat import strips_of
from qdeck_console.theme import INK, PAPER, palette_of
from support.screens import app_of, command, console, fill, until

if TYPE_CHECKING:
    from textual.theme import Theme

_OTHERS = [theme for theme in BUILTIN_THEMES.values() if theme.background and theme.background.startswith("#")]


@pytest.mark.parametrize("theme", _OTHERS, ids=lambda theme: theme.name)
def test_texts_are_legible_in_every_theme(theme: Theme) -> None:
    palette = palette_of(theme)
    assert palette_of(theme) is palette
    for ground in (palette.ground, palette.cursor, palette.raised):
        for role in ("text", "strong", "muted"):
            text = Color.parse(getattr(palette, role))
            assert abs(text.brightness - Color.parse(ground).brightness) > 0.2, (role, ground)


async def test_no_colour_of_the_own_themes_is_left_in_another(url: str) -> None:
    fill(url)
    async with console(url, size=(120, 36)) as pilot:
        app = app_of(pilot)
        await until(pilot, "1 Queues")
        for name in ("dracula", "solarized-light"):
            await command(pilot, f"theme {name}")
            await until(pilot, partial(_is_drawn, app, name))
            own = {INK.ground, INK.raised, INK.cursor, PAPER.ground, PAPER.raised, PAPER.cursor}
            assert not _grounds(app) & own


def _is_drawn(app: ConsoleApp, name: str) -> bool:
    return app.theme == name and Color.parse(app.available_themes[name].background or "").hex in _grounds(app)


def _grounds(app: ConsoleApp) -> set[str]:
    """Return the colours behind the characters of the screen."""
    found = set()
    for strip in strips_of(app.screen):
        for part in strip:
            if part.style is not None and part.style.bgcolor is not None and part.style.bgcolor.triplet is not None:
                found.add(part.style.bgcolor.triplet.hex.upper())
    return found


async def test_the_console_opens_with_the_theme_that_was_chosen_last(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qdeck_console.app.fitting_theme", lambda _colours: "qdeck-ink")
    assert theme_choice.load() == ""
    async with console(url) as pilot:
        await command(pilot, "theme nord")
        await until(pilot, lambda: pilot.app.theme == "nord")
    assert theme_choice.load() == "nord"
    contexts = Contexts(Target(url=url))
    context = contexts.describe(contexts.target, read_only=False)
    assert ConsoleApp(contexts, context, in_terminal=True).theme == "nord"
    assert ConsoleApp(contexts, context).theme == "qdeck-ink", "pictures do not depend on it"
    theme_choice.save("no such theme")
    assert ConsoleApp(contexts, context, in_terminal=True).theme == "qdeck-ink"
    monkeypatch.setattr("qdeck_console.app.fitting_theme", lambda _colours: "qdeck-16")
    theme_choice.save("nord")
    assert ConsoleApp(contexts, context, in_terminal=True).theme == "qdeck-16", "too few colours"
