"""The dead letters of every adapter in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.queue_ref import Feature
from qdeck._model.values import QueueRef, State
from qdeck._operations.queue_scope import places_of
from qdeck._redis import reads
from qdeck._settings.limits import Limits
from qdeck.adapters.groups import Gathering
from qdeck.adapters.plans import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.groups import Groups
    from qdeck.adapters.plans import Pages


def read_groups(
    queues: Sequence[tuple[Adapter, str]],
    *,
    wanted: Filter | None = None,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
    unread: Sequence[str] = (),
    shared: Collection[str] = (),
) -> Program[Groups]:
    """Return the groups of the dead letters of these queues, from the queues' own counts where these are enough.

    With a filter, and for dead letters that the counts do not include, they are read in slices, without those that die
    meanwhile. `unread` lists the queues that were left out.
    """
    now = yield from reads.clock()
    gathering = Gathering(now_ms=now)
    gathering.unread += unread
    limits = None if wanted is None else wanted.pushdown(now)
    exact, counted = True, wanted is None or wanted.is_everything
    search = Search(states=(State.DEAD,), now=now, limits=Limits(), wanted=wanted, errors=True)
    for adapter, queue in queues:
        ref = QueueRef(adapter.name, queue)
        if limits is not None and not ref.is_in(limits.queues):
            continue
        if Feature.GROUP_COUNTS in adapter.features:
            if counted and (yield from reads.contained(adapter.take_counts(queue, gathering, now), queue, [])):
                continue
            exact = False
        if not (yield from _gather(adapter.pages(queue, search), ref.label(shared), gathering, most_read, cancelled)):
            return gathering.finish(exact=False)
    return gathering.finish(exact=exact)


def _gather(
    reading: Program[list[Pages]],
    label: str,
    gathering: Gathering,
    most_read: int | None,
    cancelled: Callable[[], bool] | None,
) -> Program[bool]:
    """Count the dead letters of a queue one by one; return False when that ended before all were read."""
    found = yield from reads.contained(reading, label, gathering.unread)
    for pages in found or ():
        while (rows := (yield from reads.contained(pages.page(), label, gathering.unread))) is not None:
            for row in rows:
                gathering.add(row)
            if (most_read is not None and gathering.total >= most_read) or (cancelled is not None and cancelled()):
                return False
    return True


def all_groups(
    adapters: Adapters,
    queues: Sequence[str | QueueRef],
    wanted: Filter,
    *,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Groups]:
    """Return the dead letters of some queues, or of all, in groups."""
    places = yield from places_of(adapters, queues, wanted)
    unread = [why for _, why in places.unread]
    return (
        yield from read_groups(
            places.queues, wanted=wanted, most_read=most_read, cancelled=cancelled, unread=unread, shared=places.shared
        )
    )
