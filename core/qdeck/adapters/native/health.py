"""The health of native queues in numbers: ages by an even sample, what is late or stuck, records of no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._deck.model import State
from qdeck._engine import keys
from qdeck._redis import reads
from qdeck.adapters.model import AdapterHealth, StateHealth
from qdeck.adapters.native import ages
from qdeck.adapters.native import orphans as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._deck.model import QueueRow
    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits


def measure(rows: Sequence[QueueRow], now: int, stuck_age_ms: int, orphans: Limits | None) -> Program[AdapterHealth]:
    """Return the numbers of the states that hold jobs, and how many records are of no job where that is asked for."""
    notices: list[str] = []
    lists = [(row, state) for row in rows for state in State if getattr(row, state.value)]
    measured = yield from ages.measure([(row.name, state) for row, state in lists], now)
    late = yield from _late_delayed([row for row, state in lists if state is State.DELAYED], now - stuck_age_ms)
    states = [
        _state_health(row, state, age, late.get(row.name, 0)) for (row, state), age in zip(lists, measured, strict=True)
    ]
    orphaned = None
    if orphans is not None:
        readable = [row for row in rows if row.problem is None]
        orphaned = yield from records.count(readable, orphans, now, notices)
    return AdapterHealth(states=tuple(states), orphaned=orphaned, own=None, notices=tuple(notices))


def _state_health(row: QueueRow, state: State, age: ages.Ages | None, late_delayed: int) -> StateHealth:
    size = getattr(row, state.value)
    if age is None:  # it may not be read, or has gone since
        return StateHealth(queue=row.name, state=state, size=size, stuck=None if row.problem else 0)
    return StateHealth(
        queue=row.name, state=state, size=size, oldest_s=age.oldest_s, average_s=age.average_s, exact=age.exact,
        stuck=_stuck(row, state, late_delayed),
    )  # fmt: skip


def _stuck(row: QueueRow, state: State, late_delayed: int) -> int | None:
    """What is stuck is late, when it waits, and without owner or over its time, when it runs."""
    if state is State.RUNNING:
        return row.stuck
    if state is State.DELAYED:
        return late_delayed
    if state is State.READY:
        return None if row.late is None else max(0, row.late - late_delayed)
    return 0


def _late_delayed(rows: Sequence[QueueRow], limit: int) -> Program[dict[str, int]]:
    rows = [row for row in rows if row.late]
    calls = [(b"ZCOUNT", keys.key(row.name, "delayed"), b"-inf", b"(%d" % limit) for row in rows]
    counts = yield from reads.ask_all(calls)
    return {row.name: count for row, count in zip(rows, counts, strict=True) if isinstance(count, int)}
