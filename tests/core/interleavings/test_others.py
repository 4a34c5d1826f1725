"""Every order of two operators' verbs on one entry of another system, with the connection cut at every write."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_conformance import FILL
from core.interleavings.orders import check_pair
from core.interleavings.others import OtherWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture(params=sorted(FILL))
def world(request: pytest.FixtureRequest, url: str, raw: redis.Redis) -> Iterator[OtherWorld]:
    made = OtherWorld(request.param, url, raw)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_order_of_two_verbs(world: OtherWorld) -> None:
    counts = [check_pair(world.play, pair) for pair in world.pairs]
    assert min(counts) > 1


def test_some_pairs_in_every_order(world: OtherWorld) -> None:
    for pair in random.Random(0).sample(world.pairs, 2):
        check_pair(world.play, pair)
