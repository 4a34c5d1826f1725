"""Looks on behalf of chores and callers, one at a time: a deck remembers what it saw, and two looks at once would mix.

Health and purges have decks of their own, because they take longer than others want to wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from qdeck._deck.deck import Deck
from qdeck._deck.model import NATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._agent.options import AgentOptions
    from qdeck._deck.model import Snapshot

FRESH_S: Final = 1.0


class Sight:
    """A deck and whose turn it is to use it."""

    def __init__(self, url: str, options: AgentOptions, *, layouts: Sequence[str] = (NATIVE,)) -> None:
        self.deck = Deck(
            url,
            options.read_only,
            thresholds=options.thresholds,
            read_only_hint=options.read_only_hint,
            layouts=layouts,
            patterns=options.settings.lists.patterns,
            production=options.production,
        )
        self.lock = asyncio.Lock()


class Eyes:
    """The agent's decks; a picture that is a moment old is everybody's."""

    def __init__(self, url: str, options: AgentOptions) -> None:
        self._own = Sight(url, options)  # what is tended and sampled is ours
        self._status = Sight(url, options, layouts=options.layouts)
        self.health = Sight(url, options, layouts=options.layouts)
        self.purge = Sight(url, options, layouts=options.layouts)
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
        """A picture of our own queues now, without the expensive numbers of every queue."""
        async with self._own.lock:
            return await self._own.deck.astatus(visible=())

    async def close(self) -> None:
        """Closes the connections of all decks."""
        for sight in (self._own, self._status, self.health, self.purge):
            await sight.deck.aclose()
