"""Jobs that ended, of several queues and systems: one list by time, the newest first.

A sorted set that is listed from its highest score gives its newest entries first and is read slice by slice. Another
type of key has no order: it is read to its end first.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck._model.queue_ref import Feature, QueueRef
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.parallel_programs import all_of
from qdeck.adapters import paging
from qdeck.adapters.model import NO_QUEUE, SLICE, Kind, Source

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter

T = TypeVar("T")
ENDED: Final = (State.DEAD, State.CANCELLED, State.DONE)
MOST_SORTED: Final = 50_000
"""How many entries of a key without an order are sorted; the rest of them follows as it is stored."""
_MOMENT: Final = attrgetter("moment_ms")
_TOGETHER: Final = 100  # queues whose first jobs are read side by side


@dataclass(slots=True)
class _Stream:
    """The jobs of one list, or of one key that several queues of an adapter have in common."""

    adapter: Adapter
    names: list[str]
    source: Source | None = None  # None for a queue that is paged by its adapter
    rows: deque[JobRecord] = field(default_factory=deque)
    place: str | None = None
    size: int = SLICE
    is_over: bool = False

    @property
    def is_ordered(self) -> bool:
        return self.source is None or (self.source.kind is Kind.ZSET and self.source.down)


class NewestWalk:
    """A walk through the ended jobs of some queues, the newest first; at most `limit` of them are needed.

    `unread` receives what cannot be read; without it, that raises.
    """

    def __init__(
        self,
        queues: Sequence[tuple[Adapter, str]],
        states: Sequence[State],
        wanted: Filter,
        *,
        limit: int | None = None,
        shared: Collection[str] = (),
        unread: list[str] | None = None,
    ) -> None:
        self._queues, self._states, self._wanted, self._limit, self._shared = queues, states, wanted, limit, shared
        self._streams: list[_Stream] | None = None
        self._now = 0
        self._unread = unread

    def page(self) -> Program[list[JobRecord] | None]:
        """Return the next jobs; None at the end."""
        if self._streams is None:
            self._now = yield from reads.clock()
            self._streams = yield from self._open()
        while True:
            empty = [one for one in self._streams if not one.rows and not one.is_over]
            for at in range(0, len(empty), _TOGETHER):
                yield from all_of([self._fill(one) for one in empty[at : at + _TOGETHER]])
            self._streams = [one for one in self._streams if one.rows or not one.is_over]
            if not self._streams:
                return None
            if found := self._merged(self._streams):
                return found

    def _open(self) -> Program[list[_Stream]]:
        found: list[_Stream] = []
        by_source: dict[tuple[str, bytes, Kind], _Stream] = {}
        for adapter, name in self._queues:
            if Feature.ORDER in adapter.features:
                found.append(_Stream(adapter, [name]))
                continue
            label = QueueRef(adapter.name, name).label(self._shared)
            sources = yield from self._contained(adapter.sources(name, self._states), label)
            for source in sources or ():
                same = by_source.setdefault(
                    (adapter.name, source.key, source.kind), stream := _Stream(adapter, [], source)
                )
                same.names.append(name)
                found += [stream] if same is stream else []
        for stream in found:
            stream.size = max(1, SLICE // len(found))
        return found

    def _contained(self, program: Program[T], label: str) -> Program[T | None]:
        if self._unread is None:
            return (yield from program)
        return (yield from reads.contained(program, label, self._unread))

    def _merged(self, streams: Sequence[_Stream]) -> list[JobRecord]:
        """Return jobs by time, until one of the lists has to be read first."""
        heap = [(-one.rows[0].moment_ms, at) for at, one in enumerate(streams) if one.rows]
        if len(heap) < len(streams):
            return []
        heapq.heapify(heap)
        found: list[JobRecord] = []
        while heap and len(found) < SLICE:
            _, at = heap[0]
            stream = streams[at]
            found.append(stream.rows.popleft())
            if stream.rows:
                heapq.heapreplace(heap, (-stream.rows[0].moment_ms, at))
            elif stream.is_over:
                heapq.heappop(heap)
            else:
                break
        return found

    def _fill(self, stream: _Stream) -> Program[None]:
        label = QueueRef(stream.adapter.name, stream.names[0]).label(self._shared)
        read = self._next if stream.is_ordered else self._all
        rows = yield from self._contained(read(stream), label)
        stream.is_over = stream.is_over or rows is None
        stream.rows.extend(sorted(rows or (), key=_MOMENT, reverse=True))
        stream.size = SLICE

    def _next(self, stream: _Stream) -> Program[list[JobRecord]]:
        """Return the matching jobs of the next slice."""
        if stream.source is None:
            page = yield from stream.adapter.page(
                stream.names[0], self._states, wanted=self._wanted, cursor=stream.place, most=stream.size, now=self._now
            )
            stream.place, stream.is_over = page.cursor, page.cursor is None
            return list(page.jobs)
        queue = stream.names[0] if len(stream.names) == 1 else NO_QUEUE
        rows, stream.place, _ = yield from paging.slice_of(
            stream.adapter, queue, self._states, stream.source, stream.place or "",
            wanted=self._wanted, now=self._now, most=stream.size,
        )  # fmt: skip
        stream.is_over = stream.place is None
        return [row for row in rows if row.queue in stream.names]

    def _all(self, stream: _Stream) -> Program[list[JobRecord]]:
        """Return the newest of all matching jobs of a key without an order; a scan may show an entry twice."""
        found: dict[str, JobRecord] = {}
        if stream.place is not None:  # so many that they are not sorted
            return (yield from self._next(stream))
        stream.size = SLICE
        is_cut = self._limit is not None and self._limit < MOST_SORTED  # then only the newest are kept
        while not stream.is_over and (is_cut or len(found) < MOST_SORTED):
            found |= {row.key: row for row in (yield from self._next(stream))}
            if self._limit is not None and len(found) > 2 * max(self._limit, SLICE):
                found = {row.key: row for row in heapq.nlargest(self._limit, found.values(), key=_MOMENT)}
        return list(found.values())
