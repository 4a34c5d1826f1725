"""Words that every part of the core uses."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things in words: `1 queue`, `1,200 queues`; `many` where it is not `one` and an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
