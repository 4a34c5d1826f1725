"""Every order of two steps on a native queue, and seeded orders of three, with the connection cut at every call."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Final

import pytest

from core.interleavings.native import IN_STAGES, STEPS, NativeWorld
from core.interleavings.orders import check_pair, every_cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

NAMES: Final = tuple(STEPS)
PAIRS: Final = tuple(itertools.combinations_with_replacement(NAMES, 2))
TRIPLES: Final = 10_000
SHARES: Final = 8  # of the triples, each a test of its own, so that several processes take part


@pytest.fixture
def world(url: str, raw: redis.Redis) -> Iterator[NativeWorld]:
    made = NativeWorld(url, raw)
    yield made
    made.close()


def check(world: NativeWorld, pair: tuple[str, str]) -> int:
    return check_pair(world.play, pair, as_wholes=IN_STAGES.isdisjoint(pair))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", NAMES)
def test_every_order_of_two_steps(world: NativeWorld, first: str) -> None:
    assert sum(check(world, pair) for pair in PAIRS if pair[0] == first) > len(NAMES) - NAMES.index(first)


def test_some_pairs_in_every_order(world: NativeWorld) -> None:
    for pair in random.Random(0).sample(PAIRS, 25):
        check(world, pair)


def play_triples(world: NativeWorld, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        names = rng.sample(NAMES, 3)
        where = rng.choice([None, *every_cut([[False] * 2] * 3)])
        world.play(names, lambda alive, _: rng.choice(alive), where)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(SHARES))
def test_seeded_orders_of_three_steps(world: NativeWorld, seed: int) -> None:
    play_triples(world, seed, TRIPLES // SHARES)


def test_some_orders_of_three_steps(world: NativeWorld) -> None:
    play_triples(world, -1, 300)
