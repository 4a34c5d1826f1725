"""The lease of a maintenance task: renewed beside the run, which ends when another agent took it over."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from qdeck._errors import QdeckError
from qdeck._server import agent_tasks

if TYPE_CHECKING:
    from qdeck._redis import AsyncClient
    from qdeck._server.agent_tasks import TaskClaim


class TaskLease:
    """The lease of a run. Work in threads checks `cancelled` between its slices."""

    def __init__(self, client: AsyncClient, task: str, claim: TaskClaim, lease_s: float) -> None:
        self.task = task
        self.claim = claim
        self.lost = False
        self.stopped = False
        self._client = client
        self._lease_s = lease_s
        self._renewed = time.monotonic()

    def cancelled(self) -> bool:
        """Return whether to stop: requested, lost, or so late that another agent may have taken over."""
        return self.stopped or self.lost or time.monotonic() - self._renewed > self._lease_s * 0.9

    async def keep(self, run: asyncio.Task[agent_tasks.TaskResult]) -> None:
        """Renew until cancelled; end the run when the lease is lost."""
        while True:
            await asyncio.sleep(self._lease_s / 3)
            sent = time.monotonic()
            try:
                renewed = await self._client.run(
                    agent_tasks.renew(self.task, self.claim.token, round(self._lease_s * 1000))
                )
            except QdeckError:
                continue  # the next one may succeed; `cancelled` checks the time
            if not renewed:
                self.lost = True
                run.cancel()
                return
            self._renewed = sent

    async def finish(self, ending: agent_tasks.TaskResult) -> bool:
        """End the run on the server; return False when it was lost, and its result was not stored."""
        done = await self._client.run(agent_tasks.finish(self.task, self.claim.token, ending))
        self.lost = self.lost or not done
        return done
