"""An app on the shared server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import qdeck

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app(url: str) -> Iterator[qdeck.App]:
    """An app without tasks on the shared server."""
    app = qdeck.App(url, queue="ifdb:prod:games:actions")
    yield app
    app.close()
