"""Queues with jobs of any age, and a place of its own for what a test's operator keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from support.yard import QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as made:
        yield made


@pytest.fixture
def yard(writer: Writer, raw: redis.Redis) -> Yard:
    writer.enqueue(QUEUE, "t")  # makes the queue
    made = Yard(writer, raw)
    made.keep_all()
    return made


@pytest.fixture
def make_yard(writer: Writer, raw: redis.Redis) -> Callable[[str], Yard]:
    return lambda queue: Yard(writer, raw, queue)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans and logs of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
