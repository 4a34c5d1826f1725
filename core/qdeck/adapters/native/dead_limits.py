"""The headroom of dead letters: how near a queue is to its limits, beyond which the oldest are removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

# What a queue keeps where nothing else is set; the script that trims has the same numbers.
MOST: Final = 100_000
KEEP_MS: Final = 604_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """The dead letters of a queue and its limits; `dropped` were removed because of them since the queue was made."""

    queue: str
    count: int
    most: int = MOST
    keep_ms: int = KEEP_MS
    oldest_ms: int | None = None
    dropped: int = 0


def read_headroom(queues: Sequence[str]) -> Program[list[Headroom]]:
    """Return the headroom of these queues, without those that cannot be read."""
    calls: list[Command] = []
    for queue in queues:
        calls.append((b"HMGET", keys.key(queue, "meta"), "dead_max", "dead_ttl", "dead_letter", "n:dropped_dead"))
        calls.append((b"ZRANGE", keys.key(queue, State.DEAD), 0, 0, b"WITHSCORES"))
    replies = yield from reads.try_all(calls)
    found = []
    for queue, meta, oldest in zip(queues, replies[::2], replies[1::2], strict=True):
        if is_error(meta) or is_error(oldest):
            continue
        most, keep, count, dropped = (digits(raw or b"") for raw in meta)
        found.append(
            Headroom(
                queue=queue,
                count=count or 0,
                most=MOST if most is None else most,
                keep_ms=KEEP_MS if keep is None else keep,
                oldest_ms=score_ms(oldest[1]) if oldest else None,
                dropped=dropped or 0,
            )
        )
    return found
