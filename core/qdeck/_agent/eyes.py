"""Looks on behalf of chores and callers, one at a time: a deck remembers what it saw, and two looks at once would mix.

Health and purges have decks of their own, because they take longer than others want to wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from qdeck._deck.deck import Deck

if TYPE_CHECKING:
    from qdeck._agent.options import AgentOptions
    from qdeck._deck.model import Snapshot

FRESH_S: Final = 1.0


class Sight:
    """A deck and whose turn it is to use it."""

    def __init__(self, url: str, options: AgentOptions) -> None:
        self.deck = Deck(url, options.read_only, thresholds=options.thresholds, read_only_hint=options.read_only_hint)
        self.lock = asyncio.Lock()


class Eyes:
    """The agent's decks; a picture that is a moment old is everybody's."""

    def __init__(self, url: str, options: AgentOptions) -> None:
        self._status = Sight(url, options)
        self.health = Sight(url, options)
        self.purge = Sight(url, options)
        self.endpoint = self._status.deck.endpoint
        self.jobs = self._status.deck  # lists of jobs keep no memory: anybody may read them at any time
        self._seen: Snapshot | None = None
        self._at = 0.0

    async def look(self) -> Snapshot:
        """A picture of all queues, at most a second old."""
        async with self._status.lock:
            if self._seen is None or time.monotonic() - self._at > FRESH_S:
                self._seen = await self._status.deck.astatus()
                self._at = time.monotonic()
            return self._seen

    async def counts(self) -> Snapshot:
        """A picture of now, without the expensive numbers of every queue."""
        async with self._status.lock:
            return await self._status.deck.astatus(visible=())

    async def close(self) -> None:
        """Closes the connections of all decks."""
        for sight in (self._status, self.health, self.purge):
            await sight.deck.aclose()
