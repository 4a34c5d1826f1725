"""What is drawn leaves nothing behind: memory does not grow while the console is looked at."""

from __future__ import annotations

import gc
from collections import Counter

from qdeck.admin import Writer
from support.screens import console, until

MAIL = "demo:dev:mail:actions"


async def test_lines_that_were_drawn_are_no_garbage_in_a_circle(url: str) -> None:
    with Writer(url) as writer:
        for number in range(30):
            writer.enqueue(MAIL, "send", [number])
    async with console(url, "2") as pilot:
        await until(pilot, "1–30 of 30")
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                await pilot.press("j")
                pilot.app.screen.refresh()
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = Counter(type(thing).__name__ for thing in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert found["Segment"] < 100, found.most_common(5)  # of 20 whole screens
