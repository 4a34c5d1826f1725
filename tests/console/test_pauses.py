"""What is read close up rests for many times what it costs, and a moment of a frozen server is no cost."""

from __future__ import annotations

import asyncio

from qdeck_console.insight import Pauses


async def slow() -> int:
    """Answers after a tenth of a second."""
    await asyncio.sleep(0.1)
    return 1


async def test_one_slow_look_does_not_put_off_the_next_and_two_do() -> None:
    pauses = Pauses()
    told = [await pauses.run("queue", slow, 0.0) for _ in range(4)]
    assert told == [1, 1, None, None]
