"""The numbers for the health of native queues: ages from a sample, late and stuck jobs, orphaned records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.values import State
from qdeck.adapters.model import AdapterHealth, StateHealth
from qdeck.adapters.native import ages
from qdeck.adapters.native import orphans as records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import QueueRow
    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits


def measure(rows: Sequence[QueueRow], now: int, orphans: Limits | None) -> Program[AdapterHealth]:
    """Return the numbers of the states that hold jobs, and the number of orphaned records if it is wanted."""
    notices: list[str] = []
    lists = [(row, state) for row in rows for state in State if getattr(row, state.value)]
    measured = yield from ages.measure([(row.name, state) for row, state in lists], now)
    states = [_state_health(row, state, age) for (row, state), age in zip(lists, measured, strict=True)]
    orphaned = None
    if orphans is not None:
        readable = [row for row in rows if row.problem is None]
        orphaned = yield from records.count(readable, orphans, now, notices)
    return AdapterHealth(states=tuple(states), orphaned=orphaned, facts=None, notices=tuple(notices))


def _state_health(row: QueueRow, state: State, age: ages.Ages | None) -> StateHealth:
    size = getattr(row, state.value)
    if age is None:  # it may not be read, or has gone since
        return StateHealth(queue=row.name, state=state, size=size, stuck=None if row.problem else 0)
    return StateHealth(
        queue=row.name, state=state, size=size, oldest_s=age.oldest_s, average_s=age.average_s, exact=age.exact,
        stuck=_stuck(row, state),
    )  # fmt: skip


def _stuck(row: QueueRow, state: State) -> int | None:
    """Return what is stuck is late, when it waits, and without owner or over its time, when it runs."""
    if state is State.RUNNING:
        return row.stuck
    if state is State.DELAYED:
        return row.late_delayed
    if state is State.READY:
        return None if row.late is None else row.late - (row.late_delayed or 0)
    return 0
