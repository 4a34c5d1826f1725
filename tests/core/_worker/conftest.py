"""Workers that run beside the test: in a thread with a loop of its own, or as a process of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from support.beside import Beside
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import redis


@pytest.fixture
def app(url: str) -> qdeck.App:
    """An app without tasks on the shared server."""
    return qdeck.App(url, queue="test:actions")


@pytest.fixture
def start(app: qdeck.App) -> Iterator[Callable[..., Beside]]:
    """Starts a worker in a thread: `start(concurrency=2)`; ended with the test."""
    made: list[Beside] = []

    def run(other: qdeck.App | None = None, *, queues: Mapping[str, int] | None = None, **more: object) -> Beside:
        made.append(Beside(other or app, queues, **more))
        return made[-1]

    yield run
    for beside in made:
        beside.end()
    app.close()


@pytest.fixture
def idle(raw: redis.Redis) -> Callable[[int], None]:
    """Waits until so many workers have nothing to do: each blocks on the wake-ups of its queues."""

    def wait(workers: int) -> None:
        wait_until(lambda: sum(client["cmd"] == "blpop" for client in raw.client_list()) == workers)

    return wait


@pytest.fixture
def jobs(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the jobs for processes, as the worker and, by the environment, its children import it."""
    monkeypatch.setenv("QDECK_URL", url)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    module = importlib.reload(importlib.import_module("core._worker.process_jobs"))
    yield module
    module.app.close()
