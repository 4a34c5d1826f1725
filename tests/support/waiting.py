"""Waits on the loop for something that happens elsewhere, and lets time go by without waiting."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

OWN = "nooble4:dev:ingestion_service"
"""What the names of the ingestion service's queues begin with."""


async def until(what: Callable[[], object], timeout_s: float = 40.0) -> None:
    """Wait for a condition; fail when it does not come."""
    last = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < last, "did not happen"
        await asyncio.sleep(0.01)


def age(raw: redis.Redis, *names: str, idle_s: int = 100_000) -> None:
    """Lets keys look as if nobody had used them for so long. Waiting would be luck: the server's clock is coarse."""
    for name in names:
        raw.restore(name, max(0, raw.pttl(name)), raw.dump(name) or b"", replace=True, idletime=idle_s)
