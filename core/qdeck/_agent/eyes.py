"""Looks on behalf of chores and callers: those that ask within a moment share one look."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from qdeck._deck.deck import Deck
    from qdeck._deck.model import Snapshot

FRESH_S: Final = 1.0


class Eyes:
    """One deck for everybody; a look that is under way or a moment old is everybody's."""

    def __init__(self, deck: Deck) -> None:
        self.deck = deck
        self._lock = asyncio.Lock()
        self._seen: Snapshot | None = None
        self._at = 0.0

    async def look(self) -> Snapshot:
        """A picture of all queues, at most a second old."""
        async with self._lock:
            if self._seen is None or time.monotonic() - self._at > FRESH_S:
                self._seen = await self.deck.astatus()
                self._at = time.monotonic()
            return self._seen

    async def counts(self) -> Snapshot:
        """A picture of now, without the expensive numbers of every queue."""
        return await self.deck.astatus(visible=())
