"""The rig of the engine's tests, and the door by which `mutate.py` puts a changed script in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

from engine.harness import Rig
from qdeck._engine import scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

_mutant = os.environ.get("QDECK_TEST_MUTANT")
if _mutant:
    _changed: dict[str, str] = json.loads(Path(_mutant).read_text("utf-8"))
    _read_source = scripts.read_source

    def _read_changed(name: str) -> str:
        return _changed.get(name) or _read_source(name)

    scripts.read_source = _read_changed
    scripts.load.cache_clear()
    # A mutant has to be found, not explained; and the same tests have to find it again.
    settings.register_profile("mutant", phases=[Phase.generate], derandomize=True, database=None)
    settings.load_profile("mutant")


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
