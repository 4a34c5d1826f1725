"""The maintenance tasks of agents: each runs under a lease, and returns its result."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._agent import health_record, purging, queue_maintenance
from qdeck._agent.history_sampler import HistorySampler
from qdeck._engine import keys
from qdeck._errors import NotAllowed, QdeckError
from qdeck._redis import AsyncClient, Endpoint, reads
from qdeck._rules.health_document import document
from qdeck._server import agent_tasks, finding_times
from qdeck._settings.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._agent.options import AgentOptions
    from qdeck._agent.shared_readers import SharedReaders
    from qdeck._agent.task_lease import TaskLease
    from qdeck._model.values import Snapshot
    from qdeck._redis.commands import Program
    from qdeck._rules.health import HealthReport
    from qdeck._server.agent_tasks import TaskResult
    from qdeck.adapters.adapter import Adapter
    from qdeck.messages import LifeCycleCount

PING_TIMEOUT_S: Final = 2.0  # callers of `/healthz` must not wait
FRESH_S: Final = 2.0  # how long a health report is shared
TRIM_EVERY: Final = 6  # runs of `maintain`: trimming may wait a minute


class Maintenance:
    """The maintenance tasks, with what they keep between their runs."""

    def __init__(self, readers: SharedReaders, client: AsyncClient, options: AgentOptions) -> None:
        self.readers = readers
        self.client = client
        self.options = options
        self._ping_client = AsyncClient(Endpoint(readers.endpoint.url, timeout=PING_TIMEOUT_S), patience=0.0)
        self._reporting = asyncio.Lock()
        self._report: dict[str, Any] | None = None
        self._report_expires = 0.0
        self.sampler = HistorySampler(keep_ms=round(options.history_keep_s * 1000))

    async def close(self) -> None:
        """Close the connections that it opened."""
        await self._ping_client.close()

    async def maintain(self, lease: TaskLease) -> TaskResult:
        """Requeue jobs with expired leases, deliver outboxes, trim, and remove dead workers."""
        trims, done = lease.claim.token % TRIM_EVERY == 1, queue_maintenance.WorkDone()
        ended = await self._maintain(done, lease.claim.now_ms, lease.cancelled, trims=trims)
        outcome = "done" if ended else "stopped"
        return agent_tasks.TaskResult(outcome=outcome, summary=done.summary(), counters=done.counts())

    async def maintain_unclaimed(self) -> dict[str, Any]:
        """Do the same for an agent that cannot claim the run: several may do it, and twice."""
        done = queue_maintenance.WorkDone()
        await self._maintain(done, await self.client.run(reads.clock()), lambda: False, trims=True)
        return done.summary()

    async def _maintain(
        self, done: queue_maintenance.WorkDone, now: int, cancelled: Callable[[], bool], *, trims: bool
    ) -> bool:
        """Maintain all queues; return whether it was not cancelled."""
        snapshot = await self.readers.counts()
        for work in await self.client.run(queue_maintenance.find_work(snapshot.queues, now, trims=trims)):
            if cancelled():
                return False
            await self.client.run(queue_maintenance.do_work(work, done))
        if trims:
            unread: list[str] = []
            pruning = queue_maintenance.prune_workers(now, done)
            await self.client.run(reads.contained(pruning, "the list of workers", unread))
            done.add_errors(unread)
            await self._trim_others(done, now)
        return True

    async def _trim_others(self, done: queue_maintenance.WorkDone, now: int) -> None:
        """Hold the limits of dead letters of other systems, where these are enabled: native queues have their own."""
        limits = Limits.of(self.options.settings)
        if not limits.dlq_enabled:
            return
        await self.readers.snapshot()
        for adapter in self.readers.jobs.adapters.non_native:
            if adapter.is_there:
                unread: list[str] = []
                trimming = reads.contained(_trim(adapter, limits, now, done), adapter.name, unread)
                await self.client.run(trimming)
                done.add_errors(unread)

    async def history(self, lease: TaskLease) -> TaskResult:
        """Take a sample of every queue."""
        snapshot = await self.readers.counts()
        await self.client.run(self.sampler.take(snapshot.queues, lease.claim.started_ms))
        unread = self.sampler.unread
        return agent_tasks.TaskResult(summary={"errors": len(unread), "error": unread[0]} if unread else {})

    async def clean(self, lease: TaskLease) -> TaskResult:
        """Purge temporary queues by `clean_rules`, and remove names of queues that do not exist."""
        settings = self.options.settings.agent
        result = await self._purge(lease, "clean", settings.clean_rules, dry_run=settings.clean_dry_run)
        if settings.clean_dry_run:
            return result
        gone = await self.client.run(queue_maintenance.prune_queues(lease.claim.now_ms))
        summary = result.summary if result.summary["planned"] else {}
        summary = {**summary, "names": gone} if gone else summary
        return replace(result, summary=summary, counters={**result.counters, "names": len(gone)})

    async def health(self, lease: TaskLease) -> TaskResult:
        """Check the health and store the report, in the step that ends the run."""
        found = await self._check()
        summary = health_record.summary(found)
        with contextlib.suppress(QdeckError):  # useful, but the report is stored without it, too
            await self.client.run(finding_times.note(found.findings, found.thresholds, found.at_ms))
        writer = self.readers.health.writer
        theirs = await writer.write(writer.adapters.write_health(found.at_ms))
        return agent_tasks.TaskResult(
            summary=summary | theirs,
            hash_key=health_record.KEY,
            hash_fields=health_record.hash_fields(found),
            live_ms=health_record.LIVE_MS,
        )

    async def health_read_only(self) -> dict[str, Any]:
        """Check the health for the log only, without the right to store it."""
        return health_record.summary(await self._check())

    async def report(self) -> dict[str, Any]:
        """Return the current health report; callers share one that is being made."""
        async with self._reporting:
            began = time.monotonic()
            if self._report is None or began > self._report_expires:
                found = await self._check()
                self._report = document(found)
                ended = time.monotonic()
                # With thousands of queues it takes seconds: a caller in a loop must not keep the server busy.
                self._report_expires = ended + max(FRESH_S, ended - began)
            return self._report

    async def _check(self) -> HealthReport:
        async with self.readers.health.lock:
            return await self.readers.health.reader.health(Limits.of(self.options.settings))

    async def metrics_data(
        self,
    ) -> tuple[Snapshot, dict[str, Any], list[agent_tasks.AgentTask], list[LifeCycleCount], dict[str, int | None]]:
        """Return the data of `/metrics`: a snapshot, the last health report, the runs of agents, temporary queues, and
        dead letters by kind.
        """
        snapshot = await self.readers.snapshot()
        last = await self.client.run(health_record.read_last()) or {}
        try:
            runs = await self.client.run(agent_tasks.read(keys.MAINTENANCE_TASKS))
        except NotAllowed:
            runs = []
        dead: dict[str, int | None] = {}
        for adapter in self.readers.jobs.adapters.shown:
            if adapter.is_there:
                dead.update(await self.readers.jobs.run(adapter.dead_sizes()))
        return snapshot, last, runs, await self._life_cycle(), dead

    async def _life_cycle(self) -> list[LifeCycleCount]:
        """Return what happened to temporary queues; empty without the right to read it."""
        from qdeck.messages import _registry

        try:
            return await self.client.run(_registry.metrics())
        except QdeckError:
            return []

    async def ping(self) -> None:
        """Raise when the server does not answer."""
        await self._ping_client.run(_ping())

    async def purge(self, lease: TaskLease) -> TaskResult:
        """Remove what the purge rules select, or with `purge_dry_run` report it."""
        return await self._purge(lease, "auto-purge", dry_run=self.options.settings.purge.purge_dry_run)

    async def _purge(self, lease: TaskLease, reason: str, rules: Sequence[str] = (), *, dry_run: bool) -> TaskResult:
        settings, client = self.options.settings, self.readers.purge
        plans = purging.planned(client.reader, settings, reason, lease.cancelled, rules=rules)
        async with client.lock, plans as plan:
            if dry_run:
                return agent_tasks.TaskResult(summary=purging.summary(plan, None))
            if not plan.count:
                return agent_tasks.TaskResult(summary={"dry_run": False, "planned": 0, **purging.left_out(plan)})
            result = await client.writer.apply(plan, cancelled=lease.cancelled, automatic=True)
            outcome = "failed" if result.error else "stopped" if result.stopped else "done"
            return agent_tasks.TaskResult(
                outcome=outcome, summary=purging.summary(plan, result), counters=dict(result.by_rule)
            )

    async def purge_on_request(self, *, dry_run: bool, limit: int) -> dict[str, Any]:
        """Run a purge that a caller of the API requested."""
        settings, client = self.options.settings, self.readers.purge
        async with client.lock, purging.planned(client.reader, settings, "purge through the API") as plan:
            if dry_run:
                return purging.plan_document(plan, limit)
            result = await client.writer.apply(plan) if plan.count else None
            if result is not None:
                await self.client.run(agent_tasks.count("purge", dict(result.by_rule)))
            return purging.batch_document(plan, result)


def _trim(adapter: Adapter, limits: Limits, now: int, done: queue_maintenance.WorkDone) -> Program[None]:
    done.trimmed += yield from adapter.trim(limits, now)


def _ping() -> Program[None]:
    yield (b"HELLO",)
