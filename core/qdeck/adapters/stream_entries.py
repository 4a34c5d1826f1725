"""The entries of a stream for a consumer group: undelivered and pending ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._redis.commands import with_errors
from qdeck._redis.errors import ReplyCode, code_of, good, is_error
from qdeck._redis.reads import pairs, try_all
from qdeck.adapters.cells import packed
from qdeck.adapters.model import Raw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Source

_ABSENT: Final = (ReplyCode.NO_GROUP, ReplyCode.NO_KEY)
Slice = tuple[list[Raw], str | None]


def undelivered(source: Source, mark: str, most: int) -> Program[Slice]:
    """Return the next undelivered entries of the group, and the next position; without the group, all entries."""
    start = mark.encode()
    if not start:
        [groups] = yield with_errors((b"XINFO", b"GROUPS", source.key))
        if _is_absent(groups):
            return [], None
        facts = [dict(pairs(group)) for group in groups]
        start = next((one[b"last-delivered-id"] for one in facts if one[b"name"] == source.group), b"0-0")
    rows = yield (b"XRANGE", source.key, b"(" + start, b"+", b"COUNT", most)
    raws = [Raw(source=source, member=entry, value=packed(tuple(fields))) for entry, fields in rows]
    return raws, raws[-1].member.decode() if len(raws) == most else None


def pending(source: Source, mark: str, most: int) -> Program[Slice]:
    """Return the next entries that consumers of the group have, the oldest first, and where to go on."""
    start = b"(" + mark.encode() if mark else b"-"
    [rows] = yield with_errors((b"XPENDING", source.key, source.group, start, b"+", most))
    if _is_absent(rows):
        return [], None
    found = yield from try_all([(b"XRANGE", source.key, row[0], row[0]) for row in rows])
    raws = [_pending(source, row, fields) for row, fields in zip(rows, found, strict=True)]
    return raws, raws[-1].member.decode() if len(raws) == most else None


def _pending(source: Source, row: Sequence[Any], found: Any) -> Raw:
    entry, consumer, idle_ms, deliveries = row
    fields = None if is_error(found) or not found else packed(tuple(found[0][1]))  # none of one that was deleted
    return Raw(source=source, member=entry, score=b"%d:%b" % (deliveries, consumer), value=fields, idle_ms=idle_ms)


def _is_absent(reply: Any) -> bool:
    """Return whether the stream or the group is missing."""
    if is_error(reply) and code_of(reply) in _ABSENT:
        return True
    good(reply)
    return False
