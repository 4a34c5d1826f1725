"""Recurring jobs of other systems: what their rows have in common."""

from __future__ import annotations

from typing import Any, Final

from qdeck._formatting import duration

MOST: Final = 1_000  # rows of one system
_LATE_MS: Final = 60_000
_LONGEST_S: Final = 10**10


def every(seconds: Any) -> str:
    """Return the rule of a schedule that has an interval; empty for what is not one."""
    is_number = isinstance(seconds, int | float) and 0 < seconds < _LONGEST_S
    return f"every {duration(1000 * seconds)}" if is_number else ""


def late_s(next_ms: int | None, now: int) -> float | None:
    """Return for how long a run has been due; None where it is not, or only just."""
    return (now - next_ms) / 1000 if next_ms is not None and next_ms < now - _LATE_MS else None


def table(value: Any) -> dict[str, Any]:
    """Return a value that has to be a table; an empty one for any other."""
    return value if isinstance(value, dict) else {}
