"""The maintenance tasks of agents: each is one run under a lease, and says what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._agent import health, purging, recovery
from qdeck._agent.sampling import Sampler
from qdeck._deck import agent_tasks, since
from qdeck._engine import keys
from qdeck._errors import NotAllowed, QdeckError
from qdeck._redis import AsyncClient, Endpoint, reads
from qdeck._rules.report import document
from qdeck._settings.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._agent.lease import Lease
    from qdeck._agent.options import AgentOptions
    from qdeck._agent.readers import Readers
    from qdeck._deck.agent_tasks import Ending
    from qdeck._deck.model import Snapshot
    from qdeck._redis.commands import Program
    from qdeck._rules.health import HealthReport
    from qdeck.messages import LifeCycleCount

KNOCK_S: Final = 2.0  # whoever asks whether all is well does not want to wait
FRESH_S: Final = 2.0  # how long a health report is good for whoever asks
TRIM_EVERY: Final = 6  # runs of `maintain`: what is kept too long may wait a minute


class Maintenance:
    """The maintenance tasks, with what they remember between their runs."""

    def __init__(self, readers: Readers, client: AsyncClient, options: AgentOptions) -> None:
        self.readers = readers
        self.client = client
        self.options = options
        self._quick = AsyncClient(Endpoint(readers.endpoint.url, timeout=KNOCK_S), patience=0.0)
        self._reporting = asyncio.Lock()
        self._report: dict[str, Any] | None = None
        self._stale = 0.0
        self.sampler = Sampler(keep_ms=round(options.history_keep_s * 1000))

    async def close(self) -> None:
        """Closes what it opened."""
        await self._quick.close()

    async def maintain(self, lease: Lease) -> Ending:
        """Takes expired leases back, delivers outboxes, trims, and strikes off workers long gone."""
        trims, done = lease.claim.token % TRIM_EVERY == 1, recovery.WorkDone()
        ended = await self._maintain(done, lease.claim.now_ms, lease.cancelled, trims=trims)
        outcome = "done" if ended else "stopped"
        return agent_tasks.Ending(outcome=outcome, summary=done.summary(), counters=done.counts())

    async def maintain_unclaimed(self) -> dict[str, Any]:
        """The same for an agent that cannot claim the run: whatever it does may be done by several, and twice."""
        done = recovery.WorkDone()
        await self._maintain(done, await self.client.run(reads.clock()), lambda: False, trims=True)
        return done.summary()

    async def _maintain(self, done: recovery.WorkDone, now: int, cancelled: Callable[[], bool], *, trims: bool) -> bool:
        """Whether it came to its end."""
        seen = await self.readers.counts()
        for work in await self.client.run(recovery.find_work(seen.queues, now, trims=trims)):
            if cancelled():
                return False
            await self.client.run(recovery.do_work(work, done))
        if trims:
            unread: list[str] = []
            pruning = recovery.prune_workers(now, done)
            await self.client.run(reads.contained(pruning, "the list of workers", unread))
            done.add_errors(unread)
        return True

    async def history(self, lease: Lease) -> Ending:
        """Takes a sample of every queue."""
        seen = await self.readers.counts()
        await self.client.run(self.sampler.take(seen.queues, lease.claim.started_ms))
        unread = self.sampler.unread
        return agent_tasks.Ending(summary={"errors": len(unread), "error": unread[0]} if unread else {})

    async def clean(self, lease: Lease) -> Ending:
        """Purges temporary queues by `clean_rules`, and removes names of queues that were never made or are gone."""
        settings = self.options.settings.agent
        ending = await self._purge(lease, "clean", settings.clean_rules, dry_run=settings.clean_dry_run)
        if settings.clean_dry_run:
            return ending
        gone = await self.client.run(recovery.prune_queues(lease.claim.now_ms))
        summary = ending.summary if ending.summary["planned"] else {}
        summary = {**summary, "names": gone} if gone else summary
        return replace(ending, summary=summary, counters={**ending.counters, "names": len(gone)})

    async def health(self, lease: Lease) -> Ending:
        """Judges the deck and writes the verdict where others read it, in the step that ends the run."""
        found = await self._check()
        told = health.summary(found)
        with contextlib.suppress(QdeckError):  # good to have, and no reason to leave no report
            await self.client.run(since.note(found.findings, found.thresholds, found.at_ms))
        writer = self.readers.health.writer
        theirs = await writer.write(writer.adapters.write_health(found.at_ms))
        return agent_tasks.Ending(
            summary=told | theirs,
            hash_key=health.KEY,
            hash_fields=health.hash_fields(found),
            live_ms=health.LIVE_MS,
        )

    async def health_alone(self) -> dict[str, Any]:
        """Judges the deck for the log only, where the rights do not reach for more."""
        return health.summary(await self._check())

    async def report(self) -> dict[str, Any]:
        """The health report of now; callers that come while it is made get the same."""
        async with self._reporting:
            began = time.monotonic()
            if self._report is None or began > self._stale:
                found = await self._check()
                self._report = document(found)
                ended = time.monotonic()
                # With thousands of queues it takes seconds: whoever asks in a loop must not keep the server busy.
                self._stale = ended + max(FRESH_S, ended - began)
            return self._report

    async def _check(self) -> HealthReport:
        async with self.readers.health.lock:
            return await self.readers.health.reader.health(Limits.of(self.options.settings))

    async def measured(self) -> tuple[Snapshot, dict[str, Any], list[agent_tasks.AgentTask], list[LifeCycleCount]]:
        """What `/metrics` tells of: a picture of now, the last health report, all agents' runs, temporary queues."""
        seen = await self.readers.snapshot()
        last = await self.client.run(health.read_last()) or {}
        try:
            runs = await self.client.run(agent_tasks.read(keys.MAINTENANCE_TASKS))
        except NotAllowed:
            runs = []
        return seen, last, runs, await self._life_cycle()

    async def _life_cycle(self) -> list[LifeCycleCount]:
        """What happened to temporary queues; nothing where the rights do not reach."""
        from qdeck.messages import _registry

        try:
            return await self.client.run(_registry.metrics())
        except QdeckError:
            return []

    async def knock(self) -> None:
        """Raises when the server does not answer."""
        await self._quick.run(_ping())

    async def purge(self, lease: Lease) -> Ending:
        """Removes what the purge rules name, or with `purge_dry_run` tells what it would remove."""
        return await self._purge(lease, "auto-purge", dry_run=self.options.settings.purge.purge_dry_run)

    async def _purge(self, lease: Lease, reason: str, rules: Sequence[str] = (), *, dry_run: bool) -> Ending:
        settings, client = self.options.settings, self.readers.purge
        plans = purging.planned(client.reader, settings, reason, lease.cancelled, rules=rules)
        async with client.lock, plans as plan:
            if dry_run:
                return agent_tasks.Ending(summary=purging.summary(plan, None))
            if not plan.count:
                return agent_tasks.Ending(summary={"dry_run": False, "planned": 0})
            result = await client.writer.apply(plan, cancelled=lease.cancelled, automatic=True)
            outcome = "failed" if result.error else "stopped" if result.stopped else "done"
            return agent_tasks.Ending(
                outcome=outcome, summary=purging.summary(plan, result), counters=dict(result.by_rule)
            )

    async def purge_asked(self, *, dry_run: bool, limit: int) -> dict[str, Any]:
        """A purge that a caller of the API asked for."""
        settings, client = self.options.settings, self.readers.purge
        async with client.lock, purging.planned(client.reader, settings, "purge through the API") as plan:
            if dry_run:
                return purging.plan_document(plan, limit)
            result = await client.writer.apply(plan) if plan.count else None
            if result is not None:
                await self.client.run(agent_tasks.count("purge", dict(result.by_rule)))
            return purging.batch_document(plan, result)


def _ping() -> Program[None]:
    yield (b"HELLO",)
