"""Requests to stop jobs that run: a worker waits for them while it holds any, and acts on them at once."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._errors import NotAllowed, QdeckError
from qdeck._worker.ears import Ear, Requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis import AsyncClient
    from qdeck._worker.lane import Lane
    from qdeck._worker.run import Run

RETRY_S: Final = 1.0
DENIED_S: Final = 60.0  # until the right to read requests may have been given
PAUSE_S: Final = 0.05  # between two answers to requests: what comes meanwhile is answered at once


class StopRequests:
    """Waits on a connection of its own; heartbeats find what is missed here, a quarter of a lease later."""

    def __init__(
        self,
        client: AsyncClient,
        lanes: list[Lane[Run]],
        worker: str,
        *,
        look: Callable[[Lane[Run]], None],
        now_ms: Callable[[], int],
        lease_ms: int,
    ) -> None:
        self._lanes = {keys.key(lane.queue, "stop_requests"): lane for lane in lanes}
        self._requests = Requests(worker)
        self._ear = Ear(client.endpoint, self._requests)
        self._look = look
        self._now_ms = now_ms
        self._lease_ms = lease_ms
        self._busy = asyncio.Event()
        self.wait = self._busy.set

    async def run(self) -> None:
        """Wait for requests, from the first job on. Ends by being cancelled."""
        try:
            while True:
                await self._busy.wait()
                # From before the jobs that are held now: only then are requests for them surely behind it.
                self._requests.start_at(self._now_ms() - self._lease_ms)
                while any(lane.held for lane in self._lanes.values()):
                    await self._once()
                self._busy.clear()
        finally:
            await self._ear.close()

    async def _once(self) -> None:
        try:
            for name in await self._ear.hear(list(self._lanes)):
                self._look(self._lanes[name])
            await asyncio.sleep(PAUSE_S)
        except NotAllowed:
            await self._ear.close()
            await asyncio.sleep(DENIED_S)  # the heartbeats have to do meanwhile
        except QdeckError:
            await self._ear.close()
            await asyncio.sleep(RETRY_S * random.uniform(0.2, 1.0))  # noqa: S311 - spreads reconnects, guards nothing
