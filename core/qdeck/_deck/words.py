"""The words for where a job stands and how a deck is, apart from the values that are read: they load at once."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

NATIVE: Final = "native"


class State(StrEnum):
    """Where a job stands; the same words for every layout."""

    READY = "ready"
    DELAYED = "delayed"
    BLOCKED = "blocked"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Status(StrEnum):
    """The verdict on a deck, from good to bad."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"

    @property
    def exit_code(self) -> int:
        """What a command that asked for the verdict ends with."""
        return list(Status).index(self)
