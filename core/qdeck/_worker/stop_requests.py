"""Requests to stop running jobs: a worker waits for them while it holds jobs, and acts at once."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._errors import NotAllowed, QdeckError
from qdeck._worker.blocking_wait import BlockingWait, StopStreams

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis import AsyncClient
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.worker_queue import WorkerQueue

RETRY_S: Final = 1.0
DENIED_S: Final = 60.0  # until the next attempt without the right to read requests
PAUSE_S: Final = 0.05  # between two reactions: requests that arrive meanwhile are handled together


class StopRequests:
    """A wait for stop requests on a connection of its own; heartbeats find missed ones a quarter of a lease later."""

    def __init__(
        self,
        client: AsyncClient,
        queues: list[WorkerQueue[Attempt]],
        worker: str,
        *,
        check_now: Callable[[WorkerQueue[Attempt]], None],
        now_ms: Callable[[], int],
        lease_ms: int,
    ) -> None:
        self._queues = {keys.key(queue.name, "stop_requests"): queue for queue in queues}
        self._requests = StopStreams(worker)
        self._blocking_wait = BlockingWait(client.endpoint, self._requests)
        self._poll_all = check_now
        self._now_ms = now_ms
        self._lease_ms = lease_ms
        self._busy = asyncio.Event()
        self.wait = self._busy.set

    async def run(self) -> None:
        """Wait for requests, from the first job on, until cancelled."""
        try:
            while True:
                await self._busy.wait()
                # From before the claim of the held jobs, so that no request for them is missed.
                self._requests.start_at(self._now_ms() - self._lease_ms)
                while any(queue.held for queue in self._queues.values()):
                    await self._beat_all()
                self._busy.clear()
        finally:
            await self._blocking_wait.close()

    async def _beat_all(self) -> None:
        try:
            for name in await self._blocking_wait.wait(list(self._queues)):
                self._poll_all(self._queues[name])
            await asyncio.sleep(PAUSE_S)
        except NotAllowed:
            await self._blocking_wait.close()
            await asyncio.sleep(DENIED_S)  # heartbeats find requests meanwhile
        except QdeckError:
            await self._blocking_wait.close()
            await asyncio.sleep(RETRY_S * random.uniform(0.2, 1.0))  # noqa: S311 - spreads reconnects, guards nothing
