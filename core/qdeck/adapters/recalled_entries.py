"""Reading the entries of a plan again: of long ones a plan keeps a digest and the place."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters import paging
from qdeck.adapters.cells import packed
from qdeck.adapters.model import Kind, Part, Raw, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.model import Entry, Seen, Source
    from qdeck.adapters.paging import Listed

MOST_SEARCHED: Final = 100_000  # entries of one list that are looked through
SLICE: Final = 100  # of them in one round trip
_WANT: Final = frozenset({Part.RECORD})  # as for the plan: errors and payloads change nothing
_Place = tuple[bytes, bool]  # a list, and whether its places count from the right end


class Finder:
    """Finds list entries by their digests, at their old place or nearer to the end, as others were removed."""

    def __init__(self) -> None:
        self._moved: dict[_Place, tuple[int, int]] = {}

    def recall(
        self, adapter: Listed, sources: Mapping[bytes, Source], queue: str, state: str, seen: Sequence[Seen], now: int
    ) -> Program[list[Entry | None]]:
        """Return planned entries as they are now; None for one that is gone or has changed."""
        by_key: dict[bytes, list[Raw]] = defaultdict(list)
        for raw in (yield from self.raws(sources, seen)):
            if raw is not None:
                by_key[raw.source.key].append(raw)
        found: dict[tuple[str, int | None], Entry] = {}
        for raws in by_key.values():
            for entry in (yield from paging.fill(adapter, queue, raws, now, _WANT)):
                if (entry.queue, entry.state) == (queue, state):
                    found[entry.seen.mark, entry.seen.at] = entry
        return [found.get((one.mark, one.at)) for one in seen]

    def raws(self, sources: Mapping[bytes, Source], seen: Sequence[Seen]) -> Program[list[Raw | None]]:
        """Return planned members with their values now; None for one that is gone."""
        members = yield from self._members([one for one in seen if one.key in sources and one.hides_member])
        there = [one for one in seen if one.key in sources and (not one.hides_member or one in members)]
        values = yield from _values(sources, [one for one in there if one.hides_value])
        found: dict[Seen, Raw] = {}
        for one in there:
            member, value = members.get(one, one.member), values.get(one, None if one.hides_value else one.value)
            found[one] = Raw(source=sources[one.key], member=member, score=one.score, value=value, at=one.at)
        return [found.get(one) for one in seen]

    def _members(self, seen: Sequence[Seen]) -> Program[dict[Seen, bytes]]:
        found: dict[Seen, bytes] = {}
        by_place: dict[_Place, list[Seen]] = defaultdict(list)
        for one in seen:
            by_place[one.key, (one.at or 0) < 0].append(one)
        for place, some in by_place.items():
            moved, count = self._moved.get(place, (0, 0))
            for guess in dict.fromkeys((moved + count, moved)):  # those that were found last were taken, or left
                missing = [one for one in some if one not in found]
                calls: list[Command] = [(b"LINDEX", one.key, _index(one, guess)) for one in missing]
                replies = yield from reads.try_all(calls)
                same = {one: raw for one, raw in zip(missing, replies, strict=True) if _is_same(one, raw)}
                if same:
                    self._moved[place] = guess, len(same)
                found |= same
            missing = [one for one in some if one not in found]
            if missing:
                found |= yield from self._search(place, missing)
        return found

    def _search(self, place: _Place, missing: Sequence[Seen]) -> Program[dict[Seen, bytes]]:
        """Search a list from the end that its places count from."""
        key, from_right = place
        wanted: dict[bytes, list[Seen]] = defaultdict(list)
        for one in missing:
            wanted[one.member].append(one)
        found: dict[Seen, bytes] = {}
        for start in range(0, MOST_SEARCHED, SLICE):
            first, last = (-start - SLICE, -start - 1) if from_right else (start, start + SLICE - 1)
            [entries] = yield with_errors((b"LRANGE", key, first, last))
            if is_error(entries) or not entries:
                break
            for number, raw in enumerate(reversed(entries) if from_right else entries, start):
                for one in wanted.pop(digest_of(raw), ()):
                    found[one] = raw
                    self._moved[place] = _distance(one) - number, len(found)
            if not wanted:
                break
        return found


def _values(sources: Mapping[bytes, Source], seen: Sequence[Seen]) -> Program[dict[Seen, bytes | None]]:
    """Read the values that come with a source; other values are read with the entries."""
    calls: dict[Seen, Command] = {}
    for one in seen:
        source = sources[one.key]
        if source.kind is Kind.HASH:
            calls[one] = (b"HGET", source.key, one.member)
        elif source.kind in (Kind.STREAM, Kind.PENDING):
            calls[one] = (b"XRANGE", source.key, one.member, one.member)
    replies = yield from reads.try_all(list(calls.values()))
    found: dict[Seen, bytes | None] = {}
    for one, reply in zip(calls, replies, strict=True):
        if not is_error(reply):
            found[one] = packed(tuple(reply[0][1])) if isinstance(reply, list) and reply else reply or None
    return found


def _distance(one: Seen) -> int:
    """Return how far an entry was from the end that its place counts from."""
    at = one.at or 0
    return at if at >= 0 else -1 - at


def _index(one: Seen, moved: int) -> int:
    distance = max(0, _distance(one) - moved)
    return distance if (one.at or 0) >= 0 else -1 - distance


def _is_same(one: Seen, raw: object) -> bool:
    return isinstance(raw, bytes) and digest_of(raw) == one.member
