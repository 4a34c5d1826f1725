"""A run in hand: its lease is renewed beside it, and it ends when the lease is another's."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from qdeck._deck import agent_tasks
from qdeck._errors import QdeckError

if TYPE_CHECKING:
    from qdeck._deck.agent_tasks import Claim
    from qdeck._redis import AsyncClient


class Lease:
    """What a run holds. Work in threads asks `cancelled` between its slices."""

    def __init__(self, client: AsyncClient, task: str, claim: Claim, lease_s: float) -> None:
        self.task = task
        self.claim = claim
        self.lost = False
        self.stopped = False
        self._client = client
        self._lease_s = lease_s
        self._renewed = time.monotonic()

    def cancelled(self) -> bool:
        """Whether to stop here: told to, fenced, or silent for so long that somebody else may have taken over."""
        return self.stopped or self.lost or time.monotonic() - self._renewed > self._lease_s * 0.9

    async def keep(self, run: asyncio.Task[agent_tasks.Ending]) -> None:
        """Renews until it is cancelled; ends the run when it is not ours any more."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            sent = time.monotonic()
            try:
                kept = await self._client.run(
                    agent_tasks.renew(self.task, self.claim.token, round(self._lease_s * 1000))
                )
            except QdeckError:
                continue  # the next one may get through; `cancelled` watches the time
            if not kept:
                self.lost = True
                run.cancel()
                return
            self._renewed = sent

    async def finish(self, ending: agent_tasks.Ending) -> bool:
        """Ends the run on the server; False when it had been taken over, and what it leaves was not written."""
        done = await self._client.run(agent_tasks.finish(self.task, self.claim.token, ending))
        self.lost = self.lost or not done
        return done
