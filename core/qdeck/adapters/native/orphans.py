"""Orphaned records: a purge takes those of one queue, and health counts those of all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._formatting import duration
from qdeck._model.values import NO_STATE
from qdeck._redis import reads
from qdeck._redis.errors import LOST, is_error
from qdeck.adapters.native import ALL_STATES
from qdeck.adapters.native.records import Row, read_head
from qdeck.adapters.plans import Pages

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.plans import Search

PARTS: Final = ("head", "body", "attempts", "error", "result", "log")  # what is kept of a job, by its id
MOST_FIELDS: Final = 200_000  # looked through in all
_AT_ONCE: Final = 200  # hashes in one round trip, of which each answers with a slice
_SLICE: Final = 500
_ID_HEX: Final = 13  # digits at the start of an id that are the microseconds of its making
_ID_LENGTH: Final = 20
_Ids = dict[str, set[bytes]]  # queue → ids


class Orphans(Pages):
    """Fields stored for a job that is in no state, each found once, in the first hash that has it."""

    def __init__(self, queue: str, search: Search) -> None:
        super().__init__()
        self.queue, self._now, self._limits = queue, search.now, search.limits
        self._part, self._cursor = 0, b"0"

    def page(self) -> Program[list[Row] | None]:
        """Return the orphaned ones among the next fields."""
        if self._part == len(PARTS):
            return None
        part, queue = self._part, self.queue
        [(fields, self._cursor)] = yield from _scan([(queue, PARTS[part], self._cursor)])
        self._part += self._cursor == b"0"
        self.scanned += len(fields)
        homeless = (yield from self._homeless(fields)) if fields else []
        if homeless and part:
            calls: list[Command] = [
                (b"HEXISTS", keys.key(queue, known), raw) for raw in homeless for known in PARTS[:part]
            ]
            replies = yield from reads.fetch_all(calls)
            homeless = [raw for at, raw in enumerate(homeless) if not any(replies[at * part : (at + 1) * part])]
        if not homeless:
            return []
        heads = yield (b"HMGET", keys.key(queue, "head"), *homeless)
        rows = [
            Row(queue, NO_STATE, raw, b"", self._now, True, _made_ms(raw, head))
            for raw, head in zip(homeless, heads, strict=True)
        ]
        # A record of unknown age is not newer than this purge, and would otherwise never be removed.
        limit = self._limits.ms("max_orphaned_age")
        return [row for row in rows if row.since is None or self._now - row.since > limit]

    def _homeless(self, fields: Sequence[bytes]) -> Program[list[bytes]]:
        sizes = yield [(b"ZCARD", keys.key(self.queue, state)) for state in ALL_STATES]
        usual = [state for state, size in zip(ALL_STATES, sizes, strict=True) if size]
        found = yield from _outside({self.queue: fields}, {self.queue: usual})
        return sorted((yield from _confirmed(found)).get(self.queue, ()))

    def why(self, row: Any) -> tuple[float | None, str] | None:
        """Return how long ago it was created, and the reason."""
        if row.since is None:
            return None, "orphaned record of unknown age"
        age_ms, over = self._now - row.since, self._limits.words("max_orphaned_age")
        return age_ms / 1000, f"orphaned record, created {duration(age_ms)} ago (limit {over})"


def count(rows: Sequence[QueueRow], limits: Limits, now_ms: int, notices: list[str]) -> Program[int | None]:
    """Return how many are old enough to be purged; None, with a notice, if that cannot be known."""
    try:
        sizes = yield from _sizes(rows)
        fields = sum(sizes.values())
        if fields > MOST_FIELDS:
            notices.append(f"orphaned records are not counted among {fields:,} records; qdeck purge reads all of them")
            return None
        homeless = yield from _homeless(rows, sizes)
        return (yield from _count_old(homeless, limits, now_ms))
    except LOST:
        raise
    except QdeckError as error:
        notices.append(f"orphaned records are not counted: {error}")
        return None


def _sizes(rows: Sequence[QueueRow]) -> Program[dict[tuple[str, str], int]]:
    """Return the sizes of the hashes that exist."""
    places = [(row.name, part) for row in rows for part in PARTS]
    replies = yield from reads.fetch_all([(b"HLEN", keys.key(name, part)) for name, part in places])
    return {place: size for place, size in zip(places, replies, strict=True) if size}


def _homeless(rows: Sequence[QueueRow], sizes: Mapping[tuple[str, str], int]) -> Program[_Ids]:
    """Return ids with a record and no state. The states with jobs come first: most ids are found there."""
    usual = {row.name: [state for state in ALL_STATES if getattr(row, state)] for row in rows}
    homeless: _Ids = {}
    left = [(name, part, b"0") for name, part in sizes]
    while left:
        some, left = left[:_AT_ONCE], left[_AT_ONCE:]
        seen: _Ids = {}
        for (name, part, _), (fields, cursor) in zip(some, (yield from _scan(some)), strict=True):
            seen.setdefault(name, set()).update(fields)
            if cursor != b"0":
                left.append((name, part, cursor))
        for name, ids in (yield from _outside(seen, usual)).items():
            homeless.setdefault(name, set()).update(ids)
    return (yield from _confirmed(homeless))


def _confirmed(homeless: _Ids) -> Program[_Ids]:
    """Return the ids that are in no state, checked twice: a job may have moved between two reads."""
    every = dict.fromkeys(homeless, ALL_STATES)
    homeless = yield from _outside(homeless, every)
    return (yield from _outside(homeless, every))


def _scan(places: Sequence[tuple[str, str, bytes]]) -> Program[list[tuple[list[bytes], bytes]]]:
    """A step through each of these hashes: the names of its fields, without the one that only pads, and the cursor."""
    calls: list[Command] = [
        (b"HSCAN", keys.key(name, part), cursor, b"COUNT", _SLICE, b"NOVALUES") for name, part, cursor in places
    ]
    replies, step = (yield from reads.try_all(calls)), 1
    if any(map(is_error, replies)):  # a server that cannot leave the values out
        plain = [(*call[:4], _SLICE // 10) for call in calls]
        replies, step = (yield from reads.fetch_all(plain)), 2
    found = []
    for reply in replies:
        following, flat = reply
        cursor = following if isinstance(following, bytes) else b"%d" % following
        found.append(([field for field in flat[::step] if field], cursor))
    return found


def _outside(ids: Mapping[str, Iterable[bytes]], states: Mapping[str, Sequence[str]]) -> Program[_Ids]:
    """Return the ids that are in none of their queue's states."""
    batches = [
        (name, batch[at : at + _SLICE])
        for name, batch in ((name, sorted(some)) for name, some in ids.items())
        for at in range(0, len(batch), _SLICE)
    ]
    asked = [(name, batch, state) for name, batch in batches for state in states[name]]
    replies = yield from reads.fetch_all([(b"ZMSCORE", keys.key(name, state), *batch) for name, batch, state in asked])
    left: _Ids = {name: set(some) for name, some in ids.items()}
    for (name, batch, _), scores in zip(asked, replies, strict=True):
        left[name].difference_update(one for one, score in zip(batch, scores, strict=True) if score is not None)
    return {name: some for name, some in left.items() if some}


def _count_old(homeless: _Ids, limits: Limits, now_ms: int) -> Program[int]:
    """Return how many are over the threshold, including those of unknown age."""
    named = [(name, one) for name, some in homeless.items() for one in some]
    heads = yield from reads.fetch_all([(b"HGET", keys.key(name, "head"), one) for name, one in named])
    limit = limits.ms("max_orphaned_age")
    made = [_made_ms(one, head) for (name, one), head in zip(named, heads, strict=True)]
    return sum(at is None or now_ms - at > limit for at in made)


def _made_ms(job_id: bytes, head_text: bytes | None) -> int | None:
    """Return when a record was created, from its head, or from an id that qdeck generated."""
    head = read_head(head_text)
    if head is not None:
        return head.enqueued_ms
    if len(job_id) != _ID_LENGTH:
        return None
    try:
        return int(job_id[:_ID_HEX], 16) // 1000
    except ValueError:
        return None
