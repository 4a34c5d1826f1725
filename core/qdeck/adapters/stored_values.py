"""Values that other programs stored: JSON and compressed bytes, read up to a size."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis import reads
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program

MOST_BYTES: Final = 1 << 20  # of one value: a few bytes that are compressed can stand for gigabytes


def decode_json(raw: bytes | None) -> Any:
    """Return JSON as Python's own reader decodes it; None for other bytes, and for too many."""
    if raw is None or len(raw) > MOST_BYTES:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def stored_json(value: Any) -> bytes:
    """Return a value as JSON that every reader accepts; `null` for one that is nested too deeply."""
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError, TypeError):
        return b"null"


def inflated(data: bytes, most: int = MOST_BYTES) -> bytes | None:
    """Return what zlib compressed, cut at a size; None for other bytes."""
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error:
        return None


def read_short(wanted: Sequence[tuple[bytes, bytes]]) -> Program[list[bytes | None]]:
    """Read fields of hashes, each given by its key and its name; None for a missing and for a very long one."""
    sizes = yield from reads.try_all([(b"HSTRLEN", *one) for one in wanted], chunk=reads.CHUNK_OF_NUMBERS)
    short = [one for one, size in zip(wanted, sizes, strict=True) if not is_error(size) and 0 < size <= MOST_BYTES]
    replies = yield from reads.try_all([(b"HGET", *one) for one in short])
    known = {one: reply for one, reply in zip(short, replies, strict=True) if not is_error(reply)}
    return [known.get(one) for one in wanted]
