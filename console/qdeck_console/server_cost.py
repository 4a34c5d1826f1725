"""The cost of the console for the server."""

from __future__ import annotations

import time


class RequestCost:
    """The cost of refreshes for the server: commands and bytes sent in the last seconds."""

    def __init__(self) -> None:
        self._sent: list[tuple[float, int, int]] = []
        self._since = time.monotonic()

    def add(self, commands: int, size: int) -> None:
        """Record one request."""
        self._sent.append((time.monotonic(), commands, size))
        if len(self._sent) > 2000:
            self._trim()

    def _trim(self, seconds: float = 10.0) -> None:
        start = time.monotonic() - seconds
        self._sent = [row for row in self._sent if row[0] >= start]

    def per_second(self) -> tuple[float, float]:
        """Commands and bytes a second."""
        self._trim()
        passed = max(1.0, min(10.0, time.monotonic() - self._since))
        return sum(row[1] for row in self._sent) / passed, sum(row[2] for row in self._sent) / passed
