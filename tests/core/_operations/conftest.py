"""What every test of operations needs: a deck, and a yard to bring jobs into every state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._operations.yard import Yard
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as made:
        yield made


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)
