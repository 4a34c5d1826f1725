"""The numbers of an adapter for the health checks, from its rows and entries."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from qdeck._model.values import State
from qdeck.adapters import paging
from qdeck.adapters.model import AdapterHealth, StateHealth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import JobRecord, QueueRow
    from qdeck._redis.commands import Program

MOST: Final = 2000  # entries of one queue whose ages are read
MEASURED: Final = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED, State.DEAD)


def measure(
    adapter: paging.Listed, rows: Sequence[QueueRow], states: Sequence[State] = MEASURED
) -> Program[AdapterHealth]:
    """Return the sizes of all states of all queues, and ages in some, for long lists of their first entries."""
    found: list[StateHealth] = []
    for row in rows:
        by_state: dict[str, list[JobRecord]] = defaultdict(list)
        for entry in (yield from paging.every(adapter, row.name, states, most=MOST)):
            by_state[entry.state].append(entry)
        found += [_state(row, state, by_state[state]) for state in State if getattr(row, state.value) is not None]
    return AdapterHealth(states=tuple(found))


def _state(row: QueueRow, state: State, entries: list[JobRecord]) -> StateHealth:
    size = getattr(row, state.value)
    known = [entry.age_s for entry in entries if entry.age_s is not None]
    return StateHealth(
        queue=row.name,
        state=state,
        size=size,
        oldest_s=max(known) if known else None,
        average_s=sum(known) / len(known) if known else None,
        stuck=sum(entry.stuck is not None for entry in entries),
        exact=len(entries) >= (size or 0),
        unknown=sum(entry.age_s is None for entry in entries),
    )
