"""Reads on behalf of the agent's tasks and its callers, one at a time: a client remembers what it read, and two reads
at once would mix.

Health and purges have clients of their own, because they take longer than others want to wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import NATIVE
from qdeck._errors import NotAllowed
from qdeck.admin import AsyncReader, AsyncWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._agent.options import AgentOptions
    from qdeck._deck.model import Snapshot

FRESH_S: Final = 1.0


class AgentReader:
    """A client and whose turn it is to use it."""

    def __init__(self, url: str, options: AgentOptions, *, adapters: Sequence[str] = (NATIVE,)) -> None:
        own = options.settings.adapters
        self.reader: AsyncReader
        if options.read_only:
            self.reader = AsyncReader(url, thresholds=options.thresholds, adapters=adapters, adapter_settings=own)
        else:
            self.reader = AsyncWriter(
                url,
                thresholds=options.thresholds,
                adapters=adapters,
                adapter_settings=own,
                production=options.production,
            )
        self._hint = options.read_only_hint
        self.lock = asyncio.Lock()

    @property
    def writer(self) -> AsyncWriter:
        """The client where it may write; raises where the agent runs read-only."""
        if not isinstance(self.reader, AsyncWriter):
            raise NotAllowed(f"{self.reader.address} is open read-only", hint=self._hint)
        return self.reader


class Readers:
    """The agent's clients; a snapshot that is a moment old is everybody's."""

    def __init__(self, url: str, options: AgentOptions) -> None:
        self._own = AgentReader(url, options)  # what is tended and sampled is ours
        self._status = AgentReader(url, options, adapters=options.adapters)
        self.health = AgentReader(url, options, adapters=options.adapters)
        self.purge = AgentReader(url, options, adapters=options.adapters)
        self.endpoint = self._status.reader.endpoint
        self.jobs = self._status.reader  # lists of jobs keep no memory: anybody may read them at any time
        self._seen: Snapshot | None = None
        self._at = 0.0

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of all queues, at most a second old."""
        async with self._status.lock:
            if self._seen is None or time.monotonic() - self._at > FRESH_S:
                self._seen = await self._status.reader.snapshot()
                self._at = time.monotonic()
            return self._seen

    async def counts(self) -> Snapshot:
        """Return a snapshot of our own queues now, without the expensive numbers of every queue."""
        async with self._own.lock:
            return await self._own.reader.snapshot(visible=())

    async def close(self) -> None:
        """Close the connections of all clients."""
        for client in (self._own, self._status, self.health, self.purge):
            await client.reader.close()
