"""Keys go first: what reads and reckons in the background waits a moment while a key is being answered.

A key is handed on through several turns of the loop until its frame is out. Each turn in which something else does a
few ms of work makes that later, and looking at ten thousand queues is a hundred such turns.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import Final

ANSWERED_S: Final = 0.02  # after a key, its frame is out
_BREATH_S: Final = 0.001  # a key is handed on through several turns of the loop: in it, it takes them all


class Keys:
    """When the last key was pressed."""

    def __init__(self) -> None:
        self._at = float("-inf")

    def pressed(self) -> None:
        """Notes that a key was pressed just now."""
        self._at = time.monotonic()

    async def wait(self) -> None:
        """Waits while a key is being answered."""
        left = self._at + ANSWERED_S - time.monotonic()
        if left > 0:  # once: who holds a key down shall see the numbers change, too
            await asyncio.sleep(left)


_first: ContextVar[Keys | None] = ContextVar("keys_first", default=None)


def give_way(keys: Keys) -> None:
    """From here on, this task and those that it starts are in the background of these keys."""
    _first.set(keys)


async def let_keys_go_first() -> None:
    """Waits while a key is being answered, if this task is in the background."""
    keys = _first.get()
    if keys is not None:
        await keys.wait()


async def breathe() -> None:
    """Lets others go on between two steps of a long work."""
    await asyncio.sleep(_BREATH_S)
    await let_keys_go_first()
