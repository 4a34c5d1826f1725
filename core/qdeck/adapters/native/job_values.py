"""Values of jobs that may be large: what one request reads from the server is bounded by bytes.

The whole server waits for one call, and holds its reply in memory. Small values say nothing about the next one, so
lengths are read first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._engine import keys, transitions
from qdeck._redis import reads
from qdeck._redis.commands import Each, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck._redis.commands import Command, Program

LARGE: Final = frozenset({"body", "error", "log", "result"})
_CALL: Final = 500  # values in one call


class _Piece(NamedTuple):
    """Some values of one part that one call reads, and their bytes."""

    column: int
    call: Command
    bytes: int


def read_values(
    queue: str, parts: Sequence[str], ids: Sequence[bytes], lengths: Mapping[str, Sequence[int]] | None = None
) -> Program[list[list[bytes | None]]]:
    """Return a column of values for each part, in the order of the ids.

    One round trip requests at most `transitions.SLICE_BYTES`, or a single value that is larger. Lengths that were read
    before are not read again.
    """
    columns: list[list[bytes | None]] = [[] for _ in parts]
    known = lengths or {}
    pieces: list[_Piece] = []
    for column, part in enumerate(parts):
        found = known.get(part)
        if found is None:
            found = (yield from read_lengths(queue, part, ids)) if part in LARGE else [0] * len(ids)
        key = keys.key(queue, part)
        pieces += [_Piece(column, (b"HMGET", key, *ids[a:b]), size) for a, b, size in _slices(found)]
    for some in _round_trips(pieces):
        replies = yield [piece.call for piece in some]
        for piece, reply in zip(some, replies, strict=True):
            columns[piece.column] += reply
    return columns


def read_lengths(queue: str, part: str, ids: Sequence[bytes]) -> Program[list[int]]:
    """Return the bytes of one kind of value of each job; 0 where there is none."""
    key = keys.key(queue, part)
    lengths: list[int] = []
    for at in range(0, len(ids), reads.CHUNK):
        lengths += yield Request(Each((b"HSTRLEN", key), ids[at : at + reads.CHUNK]))
    return lengths


def _slices(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Split values into calls, each as start, end and bytes."""
    start = size = 0
    for at, length in enumerate(lengths):
        if at > start and (at - start >= _CALL or size + length > transitions.SLICE_BYTES):
            yield start, at, size
            start, size = at, 0
        size += length
    if start < len(lengths):
        yield start, len(lengths), size


def _round_trips(pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
    some: list[_Piece] = []
    size = 0
    for piece in pieces:
        if some and size + piece.bytes > transitions.SLICE_BYTES:
            yield some
            some, size = [], 0
        some.append(piece)
        size += piece.bytes
    if some:
        yield some
