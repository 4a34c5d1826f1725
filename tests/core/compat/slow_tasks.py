"""A task that takes its time."""

from __future__ import annotations

import time


def Slow(seconds: float) -> None:  # noqa: N802 - as the other tasks of such a site are named
    """Take so long."""
    time.sleep(seconds)
