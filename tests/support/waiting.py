"""Waits for something that happens elsewhere: in blocking code and on a loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(condition: Callable[[], object], timeout_s: float = 40.0, why: str | Callable[[], object] = "") -> None:
    """Wait for a condition; fail with a reason when it does not come true."""
    last_moment = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < last_moment, f"not within {timeout_s:g} s: {why if isinstance(why, str) else why()}"
        time.sleep(0.005)


async def until(condition: Callable[[], object], timeout_s: float = 40.0, why: str = "") -> None:
    """Wait for a condition on a loop; fail when it does not come true."""
    last_moment = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < last_moment, f"not within {timeout_s:g} s: {why}"
        await asyncio.sleep(0.01)
