"""How qdeck starts quickly, and what the garbage collector does meanwhile and afterwards."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from textual.screen import Screen

COLLECT_S: Final = 900.0  # between two full collections
IDLE_S: Final = 10.0  # without a key, before one starts


class _Process:
    is_ours = False  # whether it was started as `qdeck`: the collector of another program is left alone


def begin() -> None:
    """Turn the collector off: it would look at every module again and again while a command loads."""
    _Process.is_ours = True
    gc.disable()


def end() -> None:
    """Set aside what was loaded, and collect garbage as usual from here on."""
    if _Process.is_ours:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Keep the collector off while the block loads more modules."""
    if _Process.is_ours:
        gc.disable()
    try:
        yield
    finally:
        end()


def screen(name: str) -> Callable[[], Screen[Any]]:
    """Return a function that imports the module of a tab and makes its screen: a module for each tab that is opened."""

    def make() -> Screen[Any]:
        from importlib import import_module

        made: Screen[Any] = getattr(import_module(f"qdeck_console.screens.{name}"), f"{name.capitalize()}Screen")()
        return made

    return make


async def collect_when_idle(last_key_at: Callable[[], float]) -> None:
    """Collect old garbage only while no keys come: with 10,000 queues that takes a tenth of a second."""
    import asyncio

    gc.set_threshold(2_000, 2, 1_000_000)  # young garbage takes up to 2 ms at a time, old garbage waits
    while True:
        await asyncio.sleep(COLLECT_S)
        while time.monotonic() - last_key_at() < IDLE_S:  # noqa: ASYNC110 - that no key comes is no event
            await asyncio.sleep(IDLE_S)
        gc.collect()
