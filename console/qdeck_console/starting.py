"""How the console starts: its first frame, then what reads the server, then the other screens when there is time.

What is not needed for the first frame is imported where it is needed, here and in the screens. Each import is one step,
and between two of them keys are answered.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from qdeck_console.actions import ACTIVITY, DEAD, HEALTH, JOBS, PURGE, QUEUES, SCHEDULES, STUCK, WORKERS
from qdeck_console.loading import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.screen import Screen

_SCREENS: Final = {
    QUEUES: "queues:QueuesScreen",
    JOBS: "jobs:JobsScreen",
    STUCK: "stuck:StuckScreen",
    DEAD: "dead:DeadScreen",
    PURGE: "purge:PurgeScreen",
    SCHEDULES: "schedules:SchedulesScreen",
    WORKERS: "workers:WorkersScreen",
    HEALTH: "health:HealthScreen",
    ACTIVITY: "activity:ActivityScreen",
}
# What reads a server, from the bottom up.
READING: Final = (
    "redis",
    "msgspec",
    "qdeck._engine.programs",
    "qdeck._connection.clients",
    "qdeck._connection.endpoint",
    "qdeck._deck.model",
    "qdeck._deck.native",
    "qdeck._layouts.base",
    "qdeck._layouts.lists",
    "qdeck._layouts.vmpooler",
    "qdeck._layouts.ifdb",
    "qdeck._layouts.scheduler",
    "qdeck_console.counted",
)
# The other screens, and what several of them need, from the bottom up.
OTHERS: Final = (
    "qdeck._filter",
    "qdeck._operations.model",
    "qdeck._operations.planning",
    "qdeck._operations.applying",
    "qdeck._operations.api",
    "qdeck_console.operating",
    "qdeck_console.screens.editor",
    "qdeck._operations.closeup",
    *(f"qdeck_console.screens.{place.partition(':')[0]}" for place in _SCREENS.values()),
    *(f"qdeck_console.screens.{name}" for name in ("job", "palette", "help", "confirm", "export", "contexts", "live")),
)
SEEN_S: Final = 0.01  # for the first frame to get out
CALM_S: Final = 0.5  # without a key, before more is loaded
PAUSE_S: Final = 0.03


def _late(place: str) -> Callable[[], Screen[Any]]:
    module, _, name = place.partition(":")

    def make() -> Screen[Any]:
        made: Screen[Any] = getattr(import_module(f"qdeck_console.screens.{module}"), name)()
        return made

    return make


SCREENS: Final = {mode: _late(place) for mode, place in _SCREENS.items()}
"""How each screen is made; it is imported then."""


async def load(names: Iterable[str], *, pause_s: float = 0.0, calm: Callable[[], bool] = lambda: True) -> None:
    """Imports modules, one a step, with pauses in between; where `calm` is false it waits."""
    for name in names:
        while not calm():  # noqa: ASYNC110 - that no key is pressed is no event
            await asyncio.sleep(CALM_S / 5)
        with loading():
            import_module(name)
        await asyncio.sleep(pause_s)
