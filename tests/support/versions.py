"""What the tests leave out under the lowest versions of our dependencies that pyproject.toml allows."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import pytest


def _installed(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version(name).split(".")[:2])


NEEDS_CRONITER_6_2: Final = pytest.mark.skipif(
    _installed("croniter") < (6, 2), reason="rules with a year, or a day such as 15W, need croniter 6.2"
)
