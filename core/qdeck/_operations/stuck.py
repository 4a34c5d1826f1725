"""The stuck jobs of every adapter's queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.values import QueueRef
from qdeck._operations.queue_scope import places_of
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.plans import Pages, StuckJob


def all_stuck(
    adapters: Adapters,
    queues: Sequence[str | QueueRef],
    wanted: Filter,
    limit: int | None,
    *,
    unread: list[str],
    each: Callable[[list[StuckJob]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[list[StuckJob]]:
    """Return the stuck jobs of some queues, or of all. Queues that cannot be read are added to `unread`.

    With `each` they are passed on page by page, and none is kept.
    """
    places = yield from places_of(adapters, queues, wanted)
    unread += [why for _, why in places.unread]
    now = yield from reads.clock()
    todo: list[tuple[QueueRef, Pages]] = []
    for adapter in places.adapters:
        names = [queue for home, queue in places.queues if home is adapter]
        found_pages = yield from adapter.stuck_pages(names, wanted, now)
        todo += [(QueueRef(adapter.name, queue), pages) for queue, pages in found_pages]
    found: list[StuckJob] = []
    for ref, pages in todo:
        while limit is None or len(found) < limit:
            rows = yield from reads.contained(pages.page(), ref.label(places.shared), unread)
            if rows is None:
                break
            if cancelled is not None and cancelled():
                return found
            some = [job for row in rows if (job := pages.stuck(row)) is not None]
            if each is None:
                found += some
            else:
                each(some)
    return found[:limit]
