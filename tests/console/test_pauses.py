"""What is read close up rests for many times what it costs, and a moment of a frozen server is no cost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from qdeck_console.insight import Pauses

if TYPE_CHECKING:
    from qdeck._deck.deck import Deck
    from qdeck._engine.ops import Program


class SlowDeck:
    """Answers each look after a tenth of a second."""

    async def alook(self, program: Program[int]) -> int:
        program.close()
        await asyncio.sleep(0.1)
        return 1


def _look() -> Program[int]:
    yield from ()
    return 1


async def test_one_slow_look_does_not_put_off_the_next_and_two_do() -> None:
    pauses, deck = Pauses(), cast("Deck", SlowDeck())
    told = [await pauses.run(deck, "queue", _look(), 0.0) for _ in range(4)]
    assert told == [1, 1, None, None]
