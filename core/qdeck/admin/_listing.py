"""Lists of jobs as they are read: the pages of a queue, and what ended, merged by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._model.queue_ref import Feature, has_feature
from qdeck._model.values import State
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import JobRecord, QueueRef
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.newest import NewestWalk


# The leases of running jobs are renewed while they are listed, and `ready` becomes `running`.
_MOVING: Final = ("running", "ready")


class JobListing:
    """The progress of a list: the pages of some states, then the jobs that ended. One that moves is listed once."""

    def __init__(self, limit: int | None, ended: NewestWalk | None = None) -> None:
        self._left = limit
        self._ended = ended
        self._paged: tuple[Adapter, str, Sequence[State], Filter, bool | None] | None = None
        self._cursor: str | None = None
        self._seen: set[str] = set()

    def paging(
        self, adapter: Adapter, queue: str, states: Sequence[State], wanted: Filter, newest: bool | None
    ) -> None:
        """List these states first, in the order of the adapter."""
        self._paged = (adapter, queue, states, wanted, newest)

    def page(self) -> Program[Sequence[JobRecord] | None]:
        """Return the next jobs; None at the end."""
        if self._left == 0:
            return None
        if self._paged is None:
            return None if self._ended is None else (yield from self._ended.page())
        adapter, queue, states, wanted, newest = self._paged
        page = yield from adapter.page(queue, states, wanted=wanted, cursor=self._cursor, newest=newest)
        self._cursor = page.cursor
        if page.cursor is None:
            self._paged = None
        return page.jobs

    def new(self, jobs: Iterable[JobRecord]) -> Iterator[JobRecord]:
        """Yield the jobs that were not listed before, within the limit."""
        for record in jobs:
            if self._left == 0:
                return
            if record.handle in self._seen:
                continue
            if record.state in _MOVING:
                self._seen.add(record.handle)
            if self._left is not None:
                self._left -= 1
            yield record


def of_queue(
    adapters: Adapters,
    queue: str | QueueRef,
    states: Sequence[State],
    wanted: Filter,
    *,
    limit: int | None,
    newest: bool | None,
) -> Program[JobListing]:
    """Return the list of a queue; raise for one that does not exist.

    Native queues store what ended by time. Of others it is sorted, unless `newest` is false.
    """
    from qdeck.adapters.newest import ENDED, NewestWalk

    ref, adapter = yield from adapters.resolve(queue)
    yield from adapter.need(ref.name)
    is_stored = has_feature(ref.adapter, Feature.ORDER) or newest is False
    ended = [] if is_stored else [state for state in states if state in ENDED]
    listing = JobListing(limit, NewestWalk([(adapter, ref.name)], ended, wanted, limit=limit) if ended else None)
    if paged := [state for state in states if state not in ended]:
        listing.paging(adapter, ref.name, paged, wanted, newest)
    return listing


def dead_letters(
    adapters: Adapters, queues: Sequence[str | QueueRef], wanted: Filter, *, limit: int | None, unread: list[str] | None
) -> Program[JobListing]:
    """Return the dead letters of some queues, or of all that have some or cannot be counted, the newest first."""
    from qdeck._operations.queue_scope import places_of
    from qdeck.adapters.newest import NewestWalk

    if queues:
        places = (yield from places_of(adapters, queues)).queues
    else:
        only = wanted.pushdown().queues
        rows = [row for row in (yield from adapters.look(())).queues if row.dead or row.problem is not None]
        unread = [] if unread is None else unread
        unread += adapters.unread
        places = []
        for row in rows:
            if not row.ref.is_in(only):
                continue
            place = adapters.instance(row.adapter), row.name
            left_out = len(unread)
            if row.problem is not None:  # some of it may still be read
                yield from reads.contained(place[0].need(row.name), row.ref.label(adapters.shared), unread)
            places += [place] if len(unread) == left_out else []
    walk = NewestWalk(places, (State.DEAD,), wanted, limit=limit, shared=adapters.shared, unread=unread)
    return JobListing(limit, walk)
