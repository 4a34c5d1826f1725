"""Pages of the entries of a queue of another system, for every type of key."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from qdeck._errors import InvalidOption, LayoutMismatch, UnknownJob
from qdeck._model.values import JobLocation, Page, State
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck.adapters import stream_entries
from qdeck.adapters.model import ALL, NO_QUEUE, SLICE, Entry, Kind, Part, Raw, Source, Want, age_s
from qdeck.adapters.sorted_sets import SortedSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Command, Program

MOST_EMPTY: Final = 20  # slices without an entry of the queue that one page goes through

NAMES_STEP: Final = 2000  # keys in one slice of a scan for names


# The fields of a filter by the part of an entry that has them; some are known before any part is read.
_KNOWN: Final = frozenset({"id", "queue", "adapter", "state"})
_OF_ERROR: Final = frozenset({"error", "message", "text"})
_OF_BODY: Final = frozenset({"payload", "text"})
# What reading a spoiled value may raise.
_SPOILED: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Listed(Protocol):
    """The part of an adapter that lists its entries."""

    name: str
    repeats: ClassVar[bool]

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the keys that hold the entries of these states."""

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the decoded entries."""

    def named(self, entries: list[Entry]) -> list[Entry]:
        """Return entries as those of this adapter."""


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The position of a walk: a source, and the position in it."""

    source: int = 0
    mark: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.mark}"

    @classmethod
    def read(cls, cursor: str | None) -> PageCursor:
        """Return the position of a cursor."""
        if cursor is None:
            return cls()
        number, _, mark = cursor.partition(" ")
        if not number.isdigit():
            raise InvalidOption(f"{cursor!r} is not a cursor of a list of jobs", hint="Use the cursor of a page.")
        return cls(int(number), mark)


def page(
    adapter: Listed,
    queue: str,
    states: Sequence[str],
    *,
    wanted: Filter | None = None,
    cursor: str | None = None,
    most: int = SLICE,
    now: int | None = None,
    want: Want = ALL,
) -> Program[Page]:
    """Return the next slice of the entries in these states; with `now` the time is not read.

    The parts that are wanted and those that the filter needs are read.
    """
    if now is None:
        now = yield from reads.clock()
    place, sources, scanned = PageCursor.read(cursor), (yield from adapter.sources(queue, states)), 0
    for _ in range(MOST_EMPTY):
        if place.source >= len(sources):
            return Page(jobs=(), cursor=None, scanned=scanned)
        kept, mark, read = yield from slice_of(
            adapter, queue, states, sources[place.source], place.mark, wanted=wanted, now=now, most=most, want=want
        )
        place = PageCursor(place.source + 1) if mark is None else PageCursor(place.source, mark)
        scanned += read
        if kept or scanned >= most:
            end = place.source >= len(sources)
            return Page(jobs=tuple(kept), cursor=None if end else str(place), scanned=scanned)
    return Page(jobs=(), cursor=str(place), scanned=scanned)


def slice_of(
    adapter: Listed,
    queue: str,
    states: Sequence[str],
    source: Source,
    mark: str,
    *,
    wanted: Filter | None,
    now: int,
    most: int = SLICE,
    want: Want = ALL,
) -> Program[tuple[list[Entry], str | None, int]]:
    """Return the matching entries of the next slice of a source, the next position, and how many were read."""
    start = mark if adapter.repeats and source.kind is Kind.LIST else ""
    raws, after = yield from read_slice(source, mark, min(most, SLICE))
    if not raws:
        return [], after, 0
    test = (lambda _: True) if wanted is None or wanted.is_everything else wanted.compile(now)
    entries = yield from fill(adapter, queue, raws, now, want | needed_by(wanted))
    kept = _numbered((e for e in entries if e.state in states and queue in (NO_QUEUE, e.queue)), start)
    return [entry for entry in kept if test(entry)], after, len(raws)


def needed_by(wanted: Filter | None) -> Want:
    """Return the parts of entries that a filter looks at."""
    fields = frozenset() if wanted is None else wanted.fields - _KNOWN
    of_record = fields - (_OF_ERROR | _OF_BODY) or "text" in fields
    needs = {Part.RECORD: of_record, Part.ERROR: fields & _OF_ERROR, Part.BODY: fields & _OF_BODY}
    return frozenset(part for part, is_needed in needs.items() if is_needed)


def fill(adapter: Listed, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
    """Return the entries of some members as those of this adapter, with their ages.

    An entry that the adapter fails to decode has a problem and does not affect the others.
    """
    try:
        entries = adapter.named((yield from adapter.fill(queue, raws, now, want)))
    except _SPOILED as error:
        if len(raws) == 1:
            return [_unreadable(adapter, queue, raws[0], error)]
        half = len(raws) // 2
        left = yield from fill(adapter, queue, raws[:half], now, want)
        return left + (yield from fill(adapter, queue, raws[half:], now, want))
    return [_aged(entry, now) for entry in entries]


def _aged(entry: Entry, now: int) -> Entry:
    is_known = entry.age_s is not None or entry.since_ms is None
    return entry if is_known else replace(entry, age_s=age_s(now, entry.since_ms))


def _unreadable(adapter: Listed, queue: str, raw: Raw, error: Exception) -> Entry:
    source, member = raw.source, text_of(raw.member)
    return Entry(
        id=member,
        key=f"{adapter.name}/{queue}/{source.native_state}/{member}",
        adapter=adapter.name,
        queue=queue,
        state=source.state,
        native_state=source.native_state,
        problem=f"it cannot be read: {type(error).__name__}: {error}",
        seen=raw.seen(),
    )


def _numbered(entries: Iterable[Entry], start: str) -> list[Entry]:
    """Number the entries with equal bytes, so that each key identifies one entry.

    Behind the first page of a list, from `start` on, all do: they may be the same as one before.
    """
    found: list[Entry] = []
    times: dict[str, int] = {}
    for entry in entries:
        count = times[entry.key] = times.get(entry.key, 0) + 1
        number = f"#{start}+{count}" if start else "" if count == 1 else f"#{count}"
        found.append(replace(entry, key=entry.key + number) if number else entry)
    return found


def every(
    adapter: Listed, queue: str, states: Sequence[State], *, most: int, now: int | None = None
) -> Program[list[Entry]]:
    """Return all entries of these states, until `most` were read."""
    found: list[Any] = []
    keys: set[str] = set()
    cursor, scanned = None, 0
    while scanned < most:
        got = yield from page(adapter, queue, states, cursor=cursor, now=now)
        for entry in got.jobs:
            if entry.key not in keys:  # a scan may show an entry twice
                keys.add(entry.key)
                found.append(entry)
        cursor, scanned = got.cursor, scanned + max(1, got.scanned)
        if cursor is None:
            break
    return found


def by_id(adapter: Listed, names: Sequence[str], job_id: str) -> Program[list[JobLocation]]:
    """Return the jobs of an id in the states whose keys have ids for members."""
    now = yield from reads.clock()
    member, found = job_id.encode(), list[JobLocation]()
    for name in names:
        sources = [
            one for one in (yield from adapter.sources(name, tuple(State))) if one.kind in (Kind.ZSET, Kind.HASH)
        ]
        replies = yield from reads.try_all([_question(source, member) for source in sources])
        raws = [_raw(source, member, reply) for source, reply in zip(sources, replies, strict=True) if _is_there(reply)]
        if not raws:
            continue
        for entry in (yield from fill(adapter, name, raws, now, ALL)):
            if entry.id == job_id:
                found.append(
                    JobLocation(adapter=adapter.name, queue=name, id=entry.id, key=entry.key, state=entry.state)
                )
    return found


def _question(source: Source, member: bytes) -> Command:
    return (b"ZSCORE" if source.kind is Kind.ZSET else b"HGET", source.key, member)


def _is_there(reply: object) -> bool:
    return isinstance(reply, bytes | int | float)


def _raw(source: Source, member: bytes, reply: Any) -> Raw:
    is_score = source.kind is Kind.ZSET
    text = reply if isinstance(reply, bytes) else str(reply).encode()
    return Raw(source=source, member=member, score=text if is_score else None, value=None if is_score else text)


def first(
    adapter: Listed, queue: str, states: Sequence[State], test: Callable[[Entry], bool], most: int = 100_000
) -> Program[Entry | None]:
    """Return the first entry that passes a test; raise an error if it is not among the first `most`."""
    cursor, scanned = None, 0
    while scanned < most:
        got = yield from page(adapter, queue, states, cursor=cursor)
        for entry in got.jobs:
            if isinstance(entry, Entry) and test(entry):
                return entry
        cursor, scanned = got.cursor, scanned + max(1, got.scanned)
        if cursor is None:
            return None
    raise UnknownJob(
        f"it is not among the first {most:,} entries of queue {queue!r}",
        hint="Run qdeck jobs QUEUE --where FILTER: it searches all of them.",
    )


def read_slice(source: Source, mark: str, most: int) -> Program[tuple[list[Raw], str | None]]:
    """Return the next entries of a source and the next position; none for a key of another type, which rows report."""
    try:
        return (yield from _read_slice(source, mark, most))
    except LayoutMismatch:
        return [], None


def _read_slice(source: Source, mark: str, most: int) -> Program[tuple[list[Raw], str | None]]:
    if source.kind is Kind.ZSET:
        return (yield from _zset(source, mark, most))
    if source.kind is Kind.LIST:
        return (yield from _list(source, mark, most))
    if source.kind is Kind.STREAM:
        return (yield from stream_entries.undelivered(source, mark, most))
    if source.kind is Kind.PENDING:
        return (yield from stream_entries.pending(source, mark, most))
    if source.kind is Kind.NAMES:
        cursor, names = yield (b"SCAN", mark or "0", b"MATCH", source.key, b"COUNT", NAMES_STEP)
        text = cursor.decode() if isinstance(cursor, bytes) else str(cursor)
        return [Raw(source=source, member=name) for name in names], None if text == "0" else text
    command = b"SSCAN" if source.kind is Kind.SET else b"HSCAN"
    cursor, flat = yield (command, source.key, mark or "0", b"COUNT", most)
    text = cursor.decode() if isinstance(cursor, bytes) else str(cursor)
    if source.kind is Kind.SET:
        raws = [Raw(source=source, member=member) for member in flat]
    else:
        raws = [Raw(source=source, member=name, value=value) for name, value in reads.pairs(flat)]
    return raws, None if text == "0" else text


def _list(source: Source, mark: str, most: int) -> Program[tuple[list[Raw], str | None]]:
    start = int(mark or 0)
    first, last = (-start - most, -start - 1) if source.down else (start, start + most - 1)
    reply = yield (b"LRANGE", source.key, first, last)
    if source.down:
        raws = [Raw(source=source, member=member, at=-start - at) for at, member in enumerate(reversed(reply), 1)]
    else:
        raws = [Raw(source=source, member=member, at=start + at) for at, member in enumerate(reply)]
    return raws, None if len(raws) < most else str(start + most)


def _zset(source: Source, mark: str, most: int) -> Program[tuple[list[Raw], str | None]]:
    score, _, coded = mark.partition(" ")
    after = (base64.urlsafe_b64decode(coded), score.encode()) if mark else None
    entries = SortedSet(source.key, down=source.down, after=after)
    pairs = reads.pairs((yield from entries.take(most)))
    raws = [Raw(source=source, member=member, score=text) for member, text in pairs]
    if entries.over or entries.last is None:
        return raws, None
    member, text = entries.last
    return raws, f"{text.decode()} {base64.urlsafe_b64encode(member).decode()}"
