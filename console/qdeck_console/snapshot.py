"""One frame of the console without a terminal: for reports, tickets, tests and the pictures of the documentation."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck_console.screens.frame import FrameScreen
from qdeck_console.textual_compat import strips_of

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from qdeck_console.app import ConsoleApp

_LONGEST_S: Final = 5.0
_STILL: Final = 3  # looks in a row that see the same
_LOOK_S: Final = 0.15


@dataclass(frozen=True, slots=True)
class Frame:
    """The text and colours of a terminal."""

    text: str
    svg: str


def text_of(app: ConsoleApp) -> str:
    """The screen as characters, without its looks."""
    strips = strips_of(app.screen)
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


async def settled(pilot: Pilot[int], app: ConsoleApp) -> None:
    """Wait until the screen has what it reads and no longer changes, but for its clocks."""
    until, seen, same, first = time.monotonic() + _LONGEST_S, "", 0, 0.0
    while time.monotonic() < until and same < _STILL:
        await pilot.pause()
        await asyncio.sleep(_LOOK_S)
        screen, feed_state = app.screen, app.shown
        ready = feed_state.snapshot is not None or feed_state.is_lost
        if isinstance(screen, FrameScreen):
            ready = ready and (screen.is_read_in(feed_state) or feed_state.is_lost)
        first = first or feed_state.read_at
        ready = ready and (feed_state.read_at != first or feed_state.is_lost)  # two looks tell rates
        body = text_of(app).partition("\n")[2]
        same = same + 1 if ready and body == seen else 0
        seen = body


async def take(app: ConsoleApp, screen: str, size: tuple[int, int]) -> Frame:
    """Run the app without a terminal until the screen is drawn, and return its frame."""
    async with app.run_test(size=size) as pilot:
        if screen != app.current_mode:
            app.action_tab(screen)
        await settled(pilot, app)
        return Frame(text_of(app), app.export_screenshot())
