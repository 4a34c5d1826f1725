"""A deck that knows what it costs the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from qdeck._deck.deck import Deck

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

T = TypeVar("T")


class Cost:
    """What looking costs the server: commands and bytes sent, over the last seconds."""

    def __init__(self) -> None:
        self._sent: list[tuple[float, int, int]] = []
        self._since = time.monotonic()

    def add(self, commands: int, size: int) -> None:
        """Notes one request."""
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


class CountedDeck(Deck):
    """A deck that counts what it asks of the server, so that the console can tell its own cost."""

    def __init__(self, *args: Any, cost: Cost | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.cost = cost or Cost()

    async def alook(self, program: Program[T]) -> T:
        """Runs a program that only reads, in asyncio."""
        return await super().alook(self._counted(program))

    async def awrite(self, program: Program[T]) -> T:
        """Runs a program that writes, in asyncio."""
        return await super().awrite(self._counted(program))

    def _counted(self, program: Program[T]) -> Program[T]:
        try:
            send = next(program)
            while True:
                self.cost.add(send.count, len(send.data))
                send = program.send((yield send))
        except StopIteration as stop:
            value: T = stop.value
            return value
