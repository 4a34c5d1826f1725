"""The ages of jobs in their state: exact for few jobs, from an even sample for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._engine.codec import BAND
from qdeck._engine.stored_numbers import score_ms
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck.adapters.native.records import read_head, read_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

BUDGET: Final = 200_000  # jobs looked at in all
LEAST: Final = 20  # of one list, however many lists there are
MOST: Final = 1000
_BY_FIELD: Final = {State.RUNNING: "lease", State.DELAYED: "head", State.BLOCKED: "head"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The ages of the jobs of one list, in seconds."""

    oldest_s: float
    average_s: float
    exact: bool


def measure(lists: Sequence[tuple[str, State]], now_ms: int) -> Program[list[Ages | None]]:
    """Return the ages of these lists, by queue and state; None for an empty or unreadable one."""
    most = max(LEAST, min(MOST, BUDGET // max(1, len(lists))))
    found: list[Ages | None] = []
    step = max(1, reads.CHUNK // most)  # lists whose entries come in one round trip
    for at in range(0, len(lists), step):
        found += yield from _measure(lists[at : at + step], now_ms, most)
    return found


def _measure(lists: Sequence[tuple[str, State]], now_ms: int, most: int) -> Program[list[Ages | None]]:
    sizes = yield from reads.try_all([(b"ZCARD", keys.key(queue, state)) for queue, state in lists])
    calls: list[Command] = []
    spans: list[int] = []
    for (queue, state), size in zip(lists, sizes, strict=True):
        key, before = keys.key(queue, state), len(calls)
        if isinstance(size, int) and size > most:
            last = size - 1
            calls += [
                (b"ZRANGE", key, rank, rank, b"WITHSCORES") for rank in (n * last // (most - 1) for n in range(most))
            ]
        elif isinstance(size, int) and size:
            calls.append((b"ZRANGE", key, 0, most - 1, b"WITHSCORES"))
        spans.append(len(calls) - before)
    replies = iter((yield from reads.try_all(calls)))
    entries = [_entries([next(replies) for _ in range(span)]) for span in spans]
    since = yield from _since(lists, entries)
    return [_ages(moments, now_ms, exact=span <= 1) for moments, span in zip(since, spans, strict=True)]


def _entries(replies: Sequence[Any]) -> list[tuple[bytes, bytes]]:
    return [pair for reply in replies if not is_error(reply) for pair in reads.pairs(reply)]


def _since(
    lists: Sequence[tuple[str, State]], entries: Sequence[list[tuple[bytes, bytes]]]
) -> Program[list[list[int]]]:
    """Return since when each job is in its state, from its score, lease or head."""
    by_field = [at for at, (_, state) in enumerate(lists) if state in _BY_FIELD and entries[at]]
    calls: list[Command] = [
        (b"HMGET", keys.key(lists[at][0], _BY_FIELD[lists[at][1]]), *(member for member, _ in entries[at]))
        for at in by_field
    ]
    values = dict(zip(by_field, (yield from reads.try_all(calls)), strict=True))
    found: list[list[int]] = []
    for at, (_, state) in enumerate(lists):
        if at in values:
            found.append([] if is_error(values[at]) else _moments(state, values[at]))
        else:
            scores = [known for _, score in entries[at] if (known := score_ms(score)) is not None]
            found.append([score % BAND for score in scores] if state is State.READY else scores)
    return found


def _moments(state: State, values: Sequence[bytes | None]) -> list[int]:
    if state is State.RUNNING:
        return [lease.claimed_ms for raw in values if (lease := read_lease(raw)) is not None]
    return [head.enqueued_ms for raw in values if (head := read_head(raw)) is not None]


def _ages(moments: Sequence[int], now_ms: int, *, exact: bool) -> Ages | None:
    if not moments:
        return None
    found = [max(0, now_ms - moment) / 1000 for moment in moments]
    return Ages(oldest_s=max(found), average_s=round(sum(found) / len(found), 3), exact=exact)
