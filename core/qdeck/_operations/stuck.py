"""What is stuck, in the queues of every adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._deck.model import NATIVE, QueueRef, State
from qdeck._operations.foreign import ground_of
from qdeck._redis import reads
from qdeck._settings.limits import Limits
from qdeck.adapters.native import stuck
from qdeck.adapters.plans import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._deck.native import Memory
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck.adapters.others import Others
    from qdeck.adapters.plans import Pages, StuckJob

WAITING: Final = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)


def all_stuck(
    memory: Memory,
    others: Others,
    queues: Sequence[str | QueueRef],
    wanted: Filter,
    limit: int | None,
    *,
    unread: list[str],
    each: Callable[[list[StuckJob]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[list[StuckJob]]:
    """Return the stuck jobs of some queues, or of all. Queues that cannot be read are added to `unread`.

    With `each` they are handed over page by page, and none is kept.
    """
    ground = yield from ground_of(memory, others, queues, wanted)
    unread += [why for _, why in ground.unread]
    now = yield from reads.clock()
    todo: list[tuple[QueueRef, Pages]] = [
        (QueueRef(NATIVE, pages.queue), pages) for pages in (yield from stuck.pages(ground.native, wanted, now))
    ]
    search = Search(states=WAITING, now=now, limits=Limits(), wanted=wanted, stuck=True)
    for adapter, queue in ground.foreign:
        todo += [(QueueRef(adapter.name, queue), pages) for pages in (yield from adapter.pages(queue, search))]
    found: list[StuckJob] = []
    for ref, pages in todo:
        while limit is None or len(found) < limit:
            rows = yield from reads.contained(pages.page(), ref.label(ground.shared), unread)
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
