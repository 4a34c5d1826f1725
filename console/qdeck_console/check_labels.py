"""The labels of health checks, the same in commands and on screens."""

from __future__ import annotations

from typing import Final

_LABELS: Final = {
    "ready_queue": "ready",
    "pending_queue": "overdue or pending",
    "late": "waiting too long",
    "readable": "unreadable queue",
    "unreadable": "unreadable values",
    "workers": "no live worker",
    "eviction": "eviction policy",
    "saving": "saving to disk",
    "loading": "data loaded",
}

_OF_DOCTOR: Final = {"looking": "read commands", "changing": "write commands", "abilities": "summary"}


def doctor_label(name: str) -> str:
    """Return the label of a check of `qdeck doctor`, by its name in JSON."""
    return _OF_DOCTOR.get(name, name.replace("_", " "))


def check_label(name: str) -> str:
    """Return the label of a check, by its name in JSON."""
    return _LABELS.get(name, name.replace("_", " "))
