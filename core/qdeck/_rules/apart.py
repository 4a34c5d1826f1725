"""Counting over all queues at once, and over each by itself where one of them cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from qdeck._deck import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._deck.model import QueueRow
    from qdeck._engine.ops import Program

T = TypeVar("T")


def apart(
    count: Callable[[Sequence[QueueRow]], Program[T]], rows: Sequence[QueueRow], what: str, notices: list[str]
) -> Program[list[T]]:
    """What is counted of all queues in one go, which takes few round trips. Where that fails because of what is stored
    in one of them, what is counted of each; those that cannot be read are noted.
    """
    whole = yield from reads.contained(count(rows), what, [])
    if whole is not None:
        return [whole]
    found: list[T] = []
    for row in rows:
        part = yield from reads.contained(count([row]), f"{what} of {row.name}", notices)
        found += [] if part is None else [part]
    return found
