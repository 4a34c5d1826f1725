"""Waits on the loop for something that happens elsewhere."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = "nooble4:dev:ingestion_service"
"""What the names of the ingestion service's queues begin with."""


async def until(what: Callable[[], object], timeout_s: float = 15.0) -> None:
    """Wait for a condition; fail when it does not come."""
    last = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < last, "did not happen"
        await asyncio.sleep(0.01)
