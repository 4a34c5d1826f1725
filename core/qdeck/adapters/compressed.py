"""Values that a system compressed, read up to a size: a few bytes can stand for gigabytes."""

from __future__ import annotations

import zlib
from typing import Final

MOST_BYTES: Final = 1 << 20


def inflated(data: bytes, most: int = MOST_BYTES) -> bytes | None:
    """Return what zlib compressed, cut at a size; None where it is something else."""
    try:
        return zlib.decompressobj().decompress(data, most)
    except zlib.error:
        return None
