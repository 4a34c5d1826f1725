"""Values that other programs stored: JSON and compressed bytes, read up to a size."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

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
