"""Keys go first: what is done in the background waits while one is answered, and nothing else does."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from qdeck._deck import reads
from qdeck_console import keysfirst
from qdeck_console.counted import CountedDeck
from qdeck_console.keysfirst import Keys, give_way, let_keys_go_first

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

LONG_S, HALF_S = 0.6, 0.3


@pytest.fixture(autouse=True)
def _slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keysfirst, "ANSWERED_S", LONG_S)


async def _waits(keys: Keys, *, in_background: bool) -> float:
    async def work() -> float:
        if in_background:
            give_way(keys)
        started = time.monotonic()
        await let_keys_go_first()
        return time.monotonic() - started

    return await asyncio.create_task(work())


async def test_the_background_waits_for_a_key_and_the_rest_does_not() -> None:
    keys = Keys()
    assert await _waits(keys, in_background=True) < HALF_S, "no key was pressed"
    keys.pressed()
    assert await _waits(keys, in_background=False) < HALF_S
    keys.pressed()
    assert await _waits(keys, in_background=True) >= HALF_S
    assert await _waits(keys, in_background=True) < HALF_S, "it was answered"


async def test_a_held_key_does_not_stop_the_background() -> None:
    keys = Keys()

    async def hold() -> None:
        while True:
            keys.pressed()
            await asyncio.sleep(0.001)

    held = asyncio.create_task(hold())
    try:
        async with asyncio.timeout(10):
            for _ in range(2):
                await _waits(keys, in_background=True)
    finally:
        held.cancel()


async def test_what_the_background_starts_is_in_the_background() -> None:
    keys = Keys()

    async def started() -> float:
        keys.pressed()
        begun = time.monotonic()
        await let_keys_go_first()
        return time.monotonic() - begun

    async def work() -> float:
        give_way(keys)
        return await asyncio.create_task(started())

    assert await asyncio.create_task(work()) >= HALF_S


async def test_a_deck_that_is_closed_meanwhile_is_not_opened_again(url: str) -> None:
    deck, keys, begun = CountedDeck(url), Keys(), asyncio.Event()

    def program() -> Program[int]:
        for _ in range(3):
            yield reads.read((b"TIME",))
            begun.set()
        return 3

    async def look() -> int:
        give_way(keys)
        return await deck.alook(program())

    looking = asyncio.create_task(look())
    await begun.wait()
    keys.pressed()
    await deck.aclose()
    assert await looking == 3, "what was asked is answered"
    assert not deck._aclients
