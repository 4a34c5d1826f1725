"""The agent: claims maintenance tasks as they come due, runs them, and stops in order on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._agent.maintenance import Maintenance
from qdeck._agent.options import AgentOptions
from qdeck._agent.shared_readers import SharedReaders
from qdeck._agent.task_lease import TaskLease
from qdeck._errors import LayoutMismatch, NotAllowed, OutcomeUnknown, QdeckError, ServerUnreachable
from qdeck._redis import AsyncClient, Endpoint
from qdeck._schedules.ticker import Ticker
from qdeck._server import agent_tasks, server_identity
from qdeck._worker.process import process_id, stop_signals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qdeck._server.agent_tasks import TaskResult

Event = dict[str, Any]
RETRY_S: Final = 1.0
DENIED_S: Final = 60.0  # rights may be granted while an agent runs
MAX_SLEEP_S: Final = 60.0
GRACE_S: Final = 10.0
PATIENCE: Final = 5.0
QUIET_TASKS: Final = ("clean", "history", "maintain")  # reported only when they did something


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTask:
    """A task that one of the agents runs periodically."""

    name: str
    every: float
    run: Callable[[TaskLease], Awaitable[TaskResult]]
    aligned: bool = False
    run_read_only: Callable[[], Awaitable[dict[str, Any]]] | None = None  # instead, without the right to write
    run_unclaimed: Callable[[], Awaitable[dict[str, Any]]] | None = (
        None  # instead, when another program has the key of its runs
    )


def _no_event(_: Event) -> None:
    return


class Agent:
    """A process that maintains the queues of one server until it is stopped. Any number of agents may run."""

    def __init__(
        self, url: str, options: AgentOptions | None = None, *, on_event: Callable[[Event], None] = _no_event
    ) -> None:
        self.options = options or AgentOptions()
        self.id = process_id("-")
        self.endpoint = Endpoint(url)
        self.address = ""  # of the API, while it listens
        self._on_event = on_event
        self._stop_reason: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._leases: set[TaskLease] = set()
        self._reported_failure: str | None = None
        self._denied: set[str] = set()
        self._last_error = ""

    def run(self) -> str:
        """Run until SIGTERM, SIGINT, SIGHUP or `stop`; return the reason: `stop` or `reload`."""
        return asyncio.run(self.serve(signals=True))

    def stop(self, reason: str = "stop") -> None:
        """Request the end of the agent, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._request_stop, reason)

    async def serve(self, *, signals: bool = False) -> str:
        """Run on the calling loop, for a program that has one."""
        self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        self._check_useful()
        client = AsyncClient(self.endpoint, patience=PATIENCE)
        readers = SharedReaders(self.endpoint.url, self.options)
        maintenance = Maintenance(readers, client, self.options)
        with stop_signals(self._request_stop) if signals else contextlib.nullcontext():
            try:
                await client.run(_check_server())
                if not self.options.read_only:
                    await asyncio.to_thread(server_identity.check, self.endpoint, self.options.production)
                async with self._api(maintenance):
                    tasks_to_run = self._maintenance(maintenance)
                    event: Event = {
                        "event": "started",
                        "pid": os.getpid(),
                        "tasks": {task.name: task.every for task in tasks_to_run},
                    }
                    self.event(event | ({"http": self.address} if self.address else {}))
                    await self._work(tasks_to_run, client, stopping)
            finally:
                await maintenance.close()
                await client.close()
                await readers.close()
        self.event({"event": "stopped"})
        return self._stop_reason or "stop"

    def _check_useful(self) -> None:
        o = self.options
        if o.read_only and o.http is None and o.health_every is None:
            raise NotAllowed(
                f"{self.endpoint} is open read-only, so an agent cannot run",
                hint=f"{o.read_only_hint}; or give --http or --health-every, which only read.",
            )

    def _maintenance(self, maintenance: Maintenance) -> list[MaintenanceTask]:
        o = self.options
        every: list[tuple[str, float | None, Callable[[TaskLease], Awaitable[TaskResult]]]] = [
            ("maintain", o.maintain_every, maintenance.maintain),
            ("history", o.history_every, maintenance.history),
            ("clean", o.clean_every, maintenance.clean),
            ("health", o.health_every, maintenance.health),
            ("purge", o.purge_every, maintenance.purge),
        ]
        return [
            MaintenanceTask(
                name=name,
                every=seconds,
                run=run,
                aligned=name == "history",
                run_read_only=maintenance.health_read_only if name == "health" else None,
                run_unclaimed=maintenance.maintain_unclaimed if name == "maintain" else None,
            )
            for name, seconds, run in every
            if seconds is not None
        ]

    @contextlib.asynccontextmanager
    async def _api(self, maintenance: Maintenance) -> Any:
        if self.options.http is None:
            yield
            return
        from qdeck._agent.api_server import serve_api

        async with serve_api(self.options, maintenance, self.event) as address:
            self.address = address
            yield

    async def _work(self, tasks_to_run: list[MaintenanceTask], client: AsyncClient, stopping: asyncio.Event) -> None:
        tasks = [asyncio.create_task(self._repeat(task, client, stopping), name=task.name) for task in tasks_to_run]
        # Schedules need no claim: any number of tickers make each run once.
        ticker = None
        if not self.options.read_only:
            ticker = asyncio.create_task(Ticker(client, on_event=self.event).run(), name="schedules")
        try:
            await stopping.wait()
            if ticker is not None:
                ticker.cancel()
            self.event({"event": "stopping", "running": sorted(lease.task for lease in self._leases)})
            for lease in self._leases:
                lease.stopped = True
            if tasks:
                await asyncio.wait(tasks, timeout=GRACE_S)
        finally:
            every = tasks if ticker is None else [*tasks, ticker]
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)

    async def _repeat(self, task: MaintenanceTask, client: AsyncClient, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                wait_s = await self._run_when_due(task, client)
            except NotAllowed as error:
                wait_s = await self._run_read_only(task, error)
            except LayoutMismatch as error:
                wait_s = await self._run_unclaimed(task, error)
            except QdeckError as error:
                self._report_failure(error)
                wait_s = RETRY_S * random.uniform(0.5, 1.5)  # noqa: S311 - spreads the agents, guards nothing
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), min(wait_s, MAX_SLEEP_S))

    async def _run_read_only(self, task: MaintenanceTask, error: NotAllowed) -> float:
        """Run the part of a task that only reads; return the seconds until the next run."""
        if task.name not in self._denied:
            self._denied.add(task.name)
            self.event({"event": "denied", "task": task.name, "error": str(error), "hint": error.hint})
        if task.run_read_only is None:
            return DENIED_S
        try:
            event = await task.run_read_only()
        except QdeckError as worse:
            self._report_failure(worse)
            return RETRY_S
        self.event({"event": "checked", "task": task.name} | event)
        return task.every

    async def _run_unclaimed(self, task: MaintenanceTask, error: LayoutMismatch) -> float:
        """Run the part of a task that any number of agents may run at once; return the seconds until the next run."""
        if task.name not in self._denied:
            self._denied.add(task.name)
            self.event({"event": "unclaimed", "task": task.name, "error": str(error), "hint": error.hint})
        if task.run_unclaimed is None:
            return DENIED_S
        try:
            event = await task.run_unclaimed()
        except QdeckError as worse:
            self._report_failure(worse)
            return RETRY_S
        if event:
            self.event({"event": "ran", "task": task.name} | event)
        return task.every

    async def _run_when_due(self, task: MaintenanceTask, client: AsyncClient) -> float:
        """Claim a task and run it; return the seconds until it may be due."""
        if self.options.read_only:
            raise NotAllowed.read_only(self.endpoint, hint=self.options.read_only_hint)
        lease_s = self.options.lease
        claim = await client.run(
            agent_tasks.claim(
                task.name,
                self.id,
                every_ms=round(task.every * 1000),
                lease_ms=round(lease_s * 1000),
                aligned=task.aligned,
            )
        )
        self._report_reconnected()
        self._denied.discard(task.name)
        if not claim.token:
            return claim.wait_ms / 1000 + random.uniform(0.001, 0.02)  # noqa: S311 - spreads the agents
        lease = TaskLease(client, task.name, claim, lease_s)
        self._leases.add(lease)
        try:
            await self._run(task, lease)
        finally:
            self._leases.discard(lease)
        return 0.0

    async def _run(self, task: MaintenanceTask, lease: TaskLease) -> None:
        began = time.monotonic()
        run: asyncio.Task[TaskResult] = asyncio.ensure_future(task.run(lease))
        keeper = asyncio.create_task(lease.keep(run))
        failure: QdeckError | None = None
        try:
            stopping = await run
        except asyncio.CancelledError:
            if not lease.lost:
                raise
            stopping = agent_tasks.TaskResult(outcome="run_lost")
        except (OutcomeUnknown, ServerUnreachable) as error:
            failure, stopping = error, agent_tasks.TaskResult(outcome="failed", summary={"error": str(error)})
        except QdeckError as error:
            stopping = agent_tasks.TaskResult(outcome="failed", summary={"error": str(error), "hint": error.hint})
        except Exception as error:  # noqa: BLE001 - a failed task must not end the others
            stopping = agent_tasks.TaskResult(outcome="failed", summary={"error": f"{type(error).__name__}: {error}"})
        finally:
            run.cancel()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if not lease.lost:
            # Only the agent has the interval; readers compute the next run from it.
            await lease.finish(replace(stopping, summary={**stopping.summary, agent_tasks.EVERY: task.every}))
        self._report_run(task, lease, stopping, time.monotonic() - began)
        if failure is not None:
            raise failure

    def _report_run(self, task: MaintenanceTask, lease: TaskLease, stopping: TaskResult, seconds: float) -> None:
        if lease.lost:
            error = "another agent took over this run, because this agent missed its heartbeats"
            self.event({"event": "run_lost", "task": task.name, "run": lease.claim.token, "error": error})
            return
        word = {"done": "ran", "stopped": "stopped early"}.get(stopping.outcome, stopping.outcome)
        if self._is_news(task, stopping):
            event = {"event": word, "task": task.name, "run": lease.claim.token, "seconds": round(seconds, 3)}
            self.event(event | dict(stopping.summary))

    def _is_news(self, task: MaintenanceTask, stopping: TaskResult) -> bool:
        """Return whether a run is worth an event: a quiet task reports what it did, and an error once."""
        if stopping.outcome != "done" or task.name not in QUIET_TASKS:
            return True
        before = self._last_error
        if task.name == "maintain":
            self._last_error = str(stopping.summary.get("error", ""))
        return bool(set(stopping.summary) - {"errors", "error"}) or self._last_error not in ("", before)

    def _report_failure(self, error: QdeckError) -> None:
        # Once per failure, not once per attempt: it may last for hours.
        if self._reported_failure is None:
            self._reported_failure = type(error).__name__
            self.event({"event": "waiting", "error": str(error), "hint": error.hint})

    def _report_reconnected(self) -> None:
        if self._reported_failure is not None:
            self._reported_failure = None
            self.event({"event": "reconnected"})

    def event(self, event: Event) -> None:
        """Report an event to `on_event`."""
        self._on_event({"agent": self.id, **event})

    def _request_stop(self, reason: str) -> None:
        self._stop_reason = reason
        if self._stopping is not None:
            self._stopping.set()


def _check_server() -> Any:
    """Raise at once when the server does not answer or refuses this user."""
    yield (b"HELLO",)
