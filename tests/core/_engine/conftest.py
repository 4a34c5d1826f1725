"""The rig of the engine's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core._engine.harness import Rig

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis


@pytest.fixture
def loose_rig(url: str, raw: redis.Redis) -> Iterator[Rig]:
    """A queue on the shared server; for tests that break its rules by hand."""
    rig = Rig(url, raw)
    yield rig
    rig.client.close()


@pytest.fixture
def rig(loose_rig: Rig) -> Iterator[Rig]:
    """A queue on the shared server; at the end of the test it must keep every rule."""
    yield loose_rig
    loose_rig.check()
