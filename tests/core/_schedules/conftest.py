"""What the tests of schedules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import qdeck

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(url: str) -> Iterator[qdeck.App]:
    """An app with one task on the shared server."""
    made = qdeck.App(url, queue="test:actions")

    @made.task(retries=5, priority=50)
    def feed(*args: object, **kwargs: object) -> str:
        return "fed"

    yield made
    made.close()
