"""What the tests of the facades share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.compat import site_tasks
from qdeck.compat import ifdb
from support.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def site(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ifdb.TaskQueue]:
    """The global queue, as new, on the shared server: what `Enqueue` and `EnqueueOrGet` use."""
    monkeypatch.setenv("REDIS_URL", url)
    monkeypatch.setattr(ifdb.task_queue, "_app", None)
    site_tasks.CALLS.clear()
    site_tasks.MENDED.clear()
    site_tasks.HELD.clear()
    yield ifdb.task_queue
    ifdb.task_queue.app.close()


@pytest.fixture
def work(site: ifdb.TaskQueue) -> Iterator[Callable[..., Beside]]:
    """Starts the facade's worker in a thread; ended with the test."""
    made: list[Beside] = []

    def run(concurrency: int = 1) -> Beside:
        app = site.worker_app([site_tasks])
        made.append(Beside(app, {app.queue: 1}, concurrency=concurrency))
        return made[-1]

    yield run
    for beside in made:
        beside.end()
