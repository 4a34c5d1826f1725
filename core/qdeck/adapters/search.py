"""Finding jobs by what names them: an id, a name, or the id of a task or a correlation, in every queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import QdeckError
from qdeck._model.queue_ref import QueueRef
from qdeck._model.values import JobLocation, State
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter

MOST: Final = 200_000
"""How many jobs of one queue a search reads."""
_DEEP: Final = 6  # levels of a payload in which ids are looked for
_PASSES: Final = 2  # the second reads what belongs to the messages that the first found
_CORRELATIONS: Final = frozenset({"correlation_id", "correlationid"})


def _ignored(_scanned: int, _found: int) -> None:
    """Report no progress."""


@dataclass(slots=True, kw_only=True)
class IdSearch:
    """A search: what it looks for, how far it came, and what it could not read."""

    wanted: str
    most: int = MOST
    progress: Callable[[int, int], None] = _ignored
    scanned: int = 0
    cut: dict[str, int] = field(default_factory=dict)
    """The labels of queues of which only a part of the jobs was read."""
    unread: list[str] = field(default_factory=list)
    _found: dict[tuple[str, str, str], JobLocation] = field(default_factory=dict)

    @property
    def found(self) -> list[JobLocation]:
        """The places, those found by id first."""
        return list(self._found.values())

    def add(self, record: JobRecord, match: str) -> None:
        """Add a job once."""
        place = JobLocation(
            adapter=record.adapter, queue=record.queue, id=record.id, key=record.key, state=record.state, match=match
        )
        self._found.setdefault((record.adapter, record.queue, record.key), place)

    def take(self, places: Iterable[JobLocation]) -> None:
        """Add places that were found by id."""
        for place in places:
            self._found.setdefault((place.adapter, place.queue, place.key), place)


def find(queues: Sequence[tuple[Adapter, str]], search: IdSearch, shared: frozenset[str]) -> Program[None]:
    """Look in these queues by id, then read them; a message that matches brings those with its correlation id."""
    by_adapter: dict[str, tuple[Adapter, list[str]]] = {}
    for adapter, name in queues:
        by_adapter.setdefault(adapter.name, (adapter, []))[1].append(name)
    for adapter, names in by_adapter.values():
        asked = adapter.find(names, search.wanted, search.unread)
        places = yield from reads.contained(asked, adapter.name, search.unread)
        search.take(places or ())
    is_known = bool(search.found)
    wanted, done, now = {search.wanted}, set[str](), None
    for _ in range(_PASSES):
        ids = wanted - done
        for adapter, name in queues if ids else ():
            if adapter.knows_ids and is_known and ids == {search.wanted}:
                continue
            now = now or (yield from reads.clock())
            label = QueueRef(adapter.name, name).label(shared)
            found = yield from reads.contained(_read(adapter, name, label, ids, search, now), label, search.unread)
            wanted |= found or set()
        done |= ids


def _read(adapter: Adapter, queue: str, label: str, ids: set[str], search: IdSearch, now: int) -> Program[set[str]]:
    """Read a queue up to the limit; return the correlation ids of the jobs that match."""
    narrowed, correlations = _narrowed(ids), set[str]()
    cursor, scanned = None, 0
    while True:
        got = yield from adapter.page(queue, tuple(State), wanted=narrowed, cursor=cursor, now=now)
        for record in got.jobs:
            if match := _match(record, ids):
                search.add(record, match)
                correlations |= {value for name, value in _ids_of(record) if name in _CORRELATIONS}
        step = max(1, got.scanned)
        cursor, scanned, search.scanned = got.cursor, scanned + step, search.scanned + got.scanned
        search.progress(search.scanned, len(search.found))
        if cursor is None:
            return correlations
        if scanned >= search.most:
            search.cut[label] = scanned
            return correlations


def _narrowed(ids: set[str]) -> Filter | None:
    """Return a filter of the jobs that may match; None where the text of an id is not text of a filter."""
    from qdeck._filter import parse

    if any(sign in text for text in ids for sign in '"\\*\n'):
        return None
    try:
        return parse(" or ".join(f'"{text}"' for text in sorted(ids)))
    except QdeckError:
        return None


def _match(record: JobRecord, ids: set[str]) -> str:
    """Return which field of a job has one of these ids; empty for none."""
    for name, value in (("id", record.id), ("key", record.key), ("name", record.name or "")):
        if value in ids:
            return name
    return next((name for name, value in _ids_of(record) if value in ids), "")


def _ids_of(record: JobRecord) -> Iterator[tuple[str, str]]:
    """Yield the ids in the tags and in the payload of a job."""
    for tag in record.tags:
        name, colon, value = tag.partition(":")
        if colon and name.endswith("_id"):
            yield name, value
    yield from _ids_in(record.payload(), _DEEP)


def _ids_in(value: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth and isinstance(value, list):
        for item in value:
            yield from _ids_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        for name, item in value.items():
            if isinstance(item, str | int) and isinstance(name, str) and name.lower().endswith("id"):
                yield name.lower(), str(item)
            else:
                yield from _ids_in(item, depth - 1)
