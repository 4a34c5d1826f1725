"""How many workers serve each queue, from what the workers of a system say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._server.workers import by_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._model.values import WorkerRow


def counter_of(rows: Sequence[WorkerRow], *, are_known: bool = True) -> Callable[[str], int | None]:
    """Return what counts the live workers of a queue; None is unknown, as where one does not say what it serves."""
    if not are_known or any(row.alive and not row.queues for row in rows):
        return lambda _queue: None
    found = by_queue(rows)
    return lambda queue: found.get(queue, 0)
