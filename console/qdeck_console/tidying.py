"""Python's collector of cyclic garbage, kept from stopping the console.

A full collection looks at every object: with ten thousand queues that is a tenth of a second, in which no key would be
answered. Almost nothing here is cyclic, so it is enough to do it seldom, when nobody presses keys.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_S: Final = 900.0
CALM_S: Final = 10.0  # without a key
_NEVER: Final = 1_000_000
_YOUNG: Final = (2_000, 2)  # objects, and times: no look takes more than two ms


async def keep_tidy(last_key_at: Callable[[], float]) -> None:
    """Collects young garbage as it comes, and all of it from time to time in a calm moment, until it is cancelled."""
    before = gc.get_threshold()
    gc.set_threshold(*_YOUNG, _NEVER)
    try:
        due = time.monotonic() + EVERY_S
        while True:
            await asyncio.sleep(CALM_S)
            now = time.monotonic()
            if now >= due and now - last_key_at() >= CALM_S:
                gc.collect()
                due = now + EVERY_S
    finally:
        gc.set_threshold(*before)
