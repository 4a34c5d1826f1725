"""Long work in steps of about a millisecond, between which keys are answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAUSE_S: Final = 0.001  # long enough for a key to pass through all turns of the loop until its frame is out


async def pause() -> None:
    """Let keys be answered between two steps."""
    await asyncio.sleep(_PAUSE_S)


async def in_steps(steps: Iterator[None]) -> None:
    """Take all steps, with a pause after each."""
    for _ in steps:
        await pause()
