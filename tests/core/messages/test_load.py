"""Requests whose clients, workers and cleaner are killed at random are all accounted for, each once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.messages.load import Load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.servers import Server

PAIRS = int(os.environ.get("QDECK_LOAD_PAIRS", "3000"))


@pytest.mark.slow
@pytest.mark.timeout(400 + PAIRS // 50)
def test_every_request_is_answered_timed_out_or_dead_exactly_once(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    load = Load(make_server(), str(tmp_path), PAIRS, every_s=0.25, most_s=240 + PAIRS / 50, most_kills=PAIRS // 50)
    found = load.run()
    assert not found["faults"], found
    assert found["answered"] + found["failed"] + found["timed_out"] == PAIRS
    assert found["failed"] > 0
    assert found["timed_out"] > 0
    assert sum(found["kills"].values()) > 0
