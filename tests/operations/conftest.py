"""What every test of operations needs: a deck, jobs in every state, and a place for plans that is the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operations.yard import Yard
from qdeck._deck.deck import Deck

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plans and the activity file of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def deck(url: str) -> Iterator[Deck]:
    with Deck(url) as made:
        yield made


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Yard:
    return Yard(url, raw)
