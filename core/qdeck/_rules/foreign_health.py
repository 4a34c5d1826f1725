"""The health of the queues of other systems: their numbers beside our own, and what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from qdeck._deck.model import QueueRef
from qdeck._errors import QdeckError
from qdeck._redis.errors import LOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.model import AdapterHealth, StateHealth


@dataclass(slots=True)
class Theirs:
    """What other adapters add to a report. `states` is state → queue → numbers."""

    states: dict[str, dict[QueueRef, StateHealth]] = field(default_factory=dict)
    tasks: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    orphaned: int | None = 0
    adapters: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def measure(adapters: Adapters, now: int) -> Program[Theirs]:
    """Asks each other system that is there; one that cannot be read is told, and does not stop the others."""
    found = Theirs()
    for adapter in adapters.foreign:
        if not adapter.is_there:
            continue
        try:
            health = yield from adapter.health(now)
        except LOST:
            raise
        except QdeckError as error:
            found.notices.append(f"{adapter.name} was not measured: {error}")
            found.orphaned = None
            continue
        _take(found, adapter, health)
    return found


def _take(found: Theirs, adapter: Adapter, health: AdapterHealth) -> None:
    name = adapter.name
    for one in health.states:
        found.states.setdefault(one.state.value, {})[QueueRef(name, one.queue)] = one
    for task, counts in health.tasks.items():
        found.tasks[task if task not in found.tasks else f"{name}/{task}"] = counts
    if found.orphaned is not None and adapter.counts_orphans:
        found.orphaned = None if health.orphaned is None else found.orphaned + health.orphaned
    found.adapters[name] = MappingProxyType(
        {"clones_per_min": health.clones_per_min, "orphaned": health.orphaned, "own": health.own or None}
    )
    # What a look at the queues tells anyhow is told there.
    found.notices += [notice for notice in health.notices if notice not in found.notices]
