"""Clients that the agent's tasks and its callers share, one read at a time: a client keeps state between reads.

Health and purges have clients of their own, because they take longer than other callers can wait.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from qdeck._errors import NotAllowed
from qdeck._model.values import NATIVE
from qdeck.admin import AsyncReader, AsyncWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._agent.options import AgentOptions
    from qdeck._model.values import Snapshot

FRESH_S: Final = 1.0


class LockedReader:
    """A client and the lock of its reads."""

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
        """Return the client as a writer; raise when the agent is read-only."""
        if not isinstance(self.reader, AsyncWriter):
            raise NotAllowed.read_only(self.reader.address, hint=self._hint)
        return self.reader


class SharedReaders:
    """The agent's clients; callers share a snapshot that is a moment old."""

    def __init__(self, url: str, options: AgentOptions) -> None:
        self._own = LockedReader(url, options)  # only native queues are maintained and sampled
        self._status = LockedReader(url, options, adapters=options.adapters)
        self.health = LockedReader(url, options, adapters=options.adapters)
        self.purge = LockedReader(url, options, adapters=options.adapters)
        self.endpoint = self._status.reader.endpoint
        self.jobs = self._status.reader  # lists of jobs keep no state: they need no lock
        self._snapshot: Snapshot | None = None
        self._at = 0.0

    async def snapshot(self) -> Snapshot:
        """Return a snapshot of all queues, at most a second old."""
        async with self._status.lock:
            if self._snapshot is None or time.monotonic() - self._at > FRESH_S:
                self._snapshot = await self._status.reader.snapshot()
                self._at = time.monotonic()
            return self._snapshot

    async def counts(self) -> Snapshot:
        """Return a snapshot of the native queues now, without the expensive numbers of every queue."""
        async with self._own.lock:
            return await self._own.reader.snapshot(visible=())

    async def close(self) -> None:
        """Close the connections of all clients."""
        for client in (self._own, self._status, self.health, self.purge):
            await client.reader.close()
