"""The pause of a queue of BullMQ, as cells: version 5 renames its list of jobs, version 6 only marks the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._errors import UsageError
from qdeck.adapters import cells
from qdeck.adapters.bullmq.keys import TICKS, major_of
from qdeck.adapters.cells import ANY, GUARD, Cell, Change

if TYPE_CHECKING:
    from qdeck._redis.commands import Program


def build(base: bytes, *, paused: bool) -> Program[Change | None]:
    """Return the change that pauses or resumes a queue; None where that is done already."""
    said, waiting, held, prioritized, delayed = yield [
        (b"HMGET", base + b"meta", b"version", b"paused"), (b"EXISTS", base + b"wait"), (b"EXISTS", base + b"paused"),
        (b"EXISTS", base + b"prioritized"), (b"ZRANGE", base + b"delayed", 0, 0, b"WITHSCORES"),
    ]  # fmt: skip
    version, stands = said
    major = major_of(version)
    if major is None:
        raise UsageError("its queue was written by an unknown version of BullMQ", hint="Pause it with BullMQ itself.")
    if paused is (stands is not None):
        return None
    made = [
        cells.field(base + b"meta", b"version", version),
        cells.field(base + b"meta", b"paused", stands, b"1" if paused else None),
    ]
    if paused:
        made += _moved(base, b"wait", b"paused", there=waiting) if major == 5 else []
        made.append(cells.whole_key(base + b"marker", ANY))
    else:
        made += _moved(base, b"paused", b"wait", there=held)
        made += _marked(base, {b"wait": waiting or held, b"prioritized": prioritized}, delayed)
    event = b"paused" if paused else b"resumed"
    made.append(cells.effect("XADD", base + b"events", b"*", b"event", event, kind="stream"))
    return Change(id="", cells=tuple(made), effect=event.decode())


def _moved(base: bytes, source: bytes, target: bytes, *, there: int) -> list[Cell]:
    """Return the cell that renames a list, which must have been there or not when it was read."""
    return [cells.rename(base + source, base + target) if there else cells.whole_key(base + source, None, GUARD)]


def _marked(base: bytes, lists: dict[bytes, int], delayed: list[Any]) -> list[Cell]:
    """Return what wakes the workers: for jobs that wait, else at the time of the next delayed one."""
    marker = base + b"marker"
    found = [cells.effect("ZADD", marker, b"0", b"0", kind="zset")] if any(lists.values()) else []
    if found:
        return found
    found = [cells.whole_key(base + name, None, GUARD) for name in lists]
    if delayed:
        at = b"%.17g" % (float(delayed[1]) / TICKS)
        found += [
            cells.score(base + b"delayed", delayed[0], delayed[1]),
            cells.effect("ZADD", marker, at, b"1", kind="zset"),
        ]
    return found
