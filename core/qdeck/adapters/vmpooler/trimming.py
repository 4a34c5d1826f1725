"""Trimming the dead letters of VMPooler: `dlq_ttl` and `dlq_max_entries` hold for each of its keys without a purge.

The manager lets a whole key expire a week after its last write, so that a busy one keeps every letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck.adapters.changes import apply_once
from qdeck.adapters.model import Kind, Skipped
from qdeck.adapters.paging import read_slice
from qdeck.adapters.vmpooler.changes import remove_item
from qdeck.adapters.vmpooler.read import dead_sources, fill_letters

if TYPE_CHECKING:
    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.model import Source

SLICE: Final = 500
MOST_SLICES: Final = 40  # of one key in one call; the next call continues


def trim(limits: Limits, now: int) -> Program[int]:
    """Remove what is too old, and the oldest beyond the number that is kept; return how many."""
    removed = 0
    for source in (yield from dead_sources()):
        removed += yield from (_trim_tasks if source.kind is Kind.HASH else _trim_zset)(source, limits, now)
    return removed


def _trim_zset(source: Source, limits: Limits, now: int) -> Program[int]:
    removed, key = 0, source.key
    edge, keep = b"(%d" % ((now - limits.ms("dlq_ttl")) // 1000), int(limits.value("dlq_max_entries"))
    for _ in range(MOST_SLICES):
        old, size = yield from reads.try_all(
            [(b"ZRANGEBYSCORE", key, b"-inf", edge, b"LIMIT", 0, SLICE), (b"ZCARD", key)]
        )
        if is_error(old) or is_error(size):
            return removed
        over = yield (b"ZRANGE", key, 0, min(SLICE, size - keep) - 1) if size > keep else (b"ZRANGE", key, 1, 0)
        # By member: what another agent has removed meanwhile makes no other letter the oldest.
        members = list(dict.fromkeys([*old, *over]))
        if not members:
            return removed
        removed += yield (b"ZREM", key, *members)
    return removed


def _trim_tasks(source: Source, limits: Limits, now: int) -> Program[int]:
    """Remove failed tasks one by one: a type of task is one value with all of its failures."""
    removed = 0
    raws, _ = yield from read_slice(source, "", SLICE)
    oldest = sorted(fill_letters(raws, now), key=lambda one: -(one.age_s or 0))
    over = len(oldest) - int(limits.value("dlq_max_entries"))
    for number, entry in enumerate(oldest):
        if number >= over and 1000 * (entry.age_s or 0) <= limits.ms("dlq_ttl"):
            break  # all others are younger
        try:
            removed += (yield from apply_once((yield from remove_item(entry)))).done
        except Skipped:
            continue
    return removed
