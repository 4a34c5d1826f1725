"""Counts the records of no job over all queues at once. A purge finds the same ones, queue by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._redis import reads
from qdeck._redis.errors import LOST, is_error
from qdeck.adapters.native import ALL_STATES, purge

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._deck.model import QueueRow
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.limits import Limits

MOST_FIELDS: Final = 200_000  # looked through in all
_AT_ONCE: Final = 200  # hashes in one round trip, of which each answers with a slice
_Ids = dict[str, set[bytes]]  # queue → ids


def count(rows: Sequence[QueueRow], limits: Limits, now_ms: int, notices: list[str]) -> Program[int | None]:
    """How many there are that are old enough to be purged; None, with a notice, where that cannot be known."""
    try:
        sizes = yield from _sizes(rows)
        fields = sum(sizes.values())
        if fields > MOST_FIELDS:
            notices.append(f"records of no job are not counted: {fields:,} to look through (qdeck purge does)")
            return None
        homeless = yield from _homeless(rows, sizes)
        return (yield from _count_old(homeless, limits, now_ms))
    except LOST:
        raise
    except QdeckError as error:
        notices.append(f"records of no job are not counted: {error}")
        return None


def _sizes(rows: Sequence[QueueRow]) -> Program[dict[tuple[str, str], int]]:
    """The sizes of the hashes that are there."""
    places = [(row.name, part) for row in rows for part in purge.PARTS]
    replies = yield from reads.fetch_all([(b"HLEN", keys.key(name, part)) for name, part in places])
    return {place: size for place, size in zip(places, replies, strict=True) if size}


def _homeless(rows: Sequence[QueueRow], sizes: Mapping[tuple[str, str], int]) -> Program[_Ids]:
    """Ids with a record and no state. The states that hold jobs are asked first: there most are found."""
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
    every = dict.fromkeys(homeless, ALL_STATES)
    # Twice: a job may have moved between two reads.
    homeless = yield from _outside(homeless, every)
    return (yield from _outside(homeless, every))


def _scan(places: Sequence[tuple[str, str, bytes]]) -> Program[list[tuple[list[bytes], bytes]]]:
    """A step through each of these hashes: the names of its fields, without the one that only pads, and the cursor."""
    calls: list[Command] = [
        (b"HSCAN", keys.key(name, part), cursor, b"COUNT", purge.SLICE, b"NOVALUES") for name, part, cursor in places
    ]
    replies, step = (yield from reads.ask_all(calls)), 1
    if any(map(is_error, replies)):  # a server that cannot leave the values out
        plain = [(*call[:4], purge.SLICE // 10) for call in calls]
        replies, step = (yield from reads.fetch_all(plain)), 2
    found = []
    for reply in replies:
        following, flat = reply
        cursor = following if isinstance(following, bytes) else b"%d" % following
        found.append(([field for field in flat[::step] if field], cursor))
    return found


def _outside(ids: Mapping[str, Iterable[bytes]], states: Mapping[str, Sequence[str]]) -> Program[_Ids]:
    """Those of these ids that are in none of their queue's states."""
    batches = [
        (name, batch[at : at + purge.SLICE])
        for name, batch in ((name, sorted(some)) for name, some in ids.items())
        for at in range(0, len(batch), purge.SLICE)
    ]
    asked = [(name, batch, state) for name, batch in batches for state in states[name]]
    replies = yield from reads.fetch_all([(b"ZMSCORE", keys.key(name, state), *batch) for name, batch, state in asked])
    left: _Ids = {name: set(some) for name, some in ids.items()}
    for (name, batch, _), scores in zip(asked, replies, strict=True):
        left[name].difference_update(one for one, score in zip(batch, scores, strict=True) if score is not None)
    return {name: some for name, some in left.items() if some}


def _count_old(homeless: _Ids, limits: Limits, now_ms: int) -> Program[int]:
    """How many are over the threshold; one whose age nobody knows is."""
    named = [(name, one) for name, some in homeless.items() for one in some]
    heads = yield from reads.fetch_all([(b"HGET", keys.key(name, "head"), one) for name, one in named])
    limit = limits.ms("max_orphaned_age")
    made = [purge.made_ms(one, head) for (name, one), head in zip(named, heads, strict=True)]
    return sum(at is None or now_ms - at > limit for at in made)
