"""The agent's life: it claims maintenance tasks as they come due, does them, and ends in an orderly way on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import secrets
import signal
import socket
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._agent.lease import Lease
from qdeck._agent.maintenance import Maintenance
from qdeck._agent.options import AgentOptions
from qdeck._agent.readers import Readers
from qdeck._deck import agent_tasks, identity
from qdeck._errors import LayoutMismatch, NotAllowed, OutcomeUnknown, QdeckError, ServerUnreachable
from qdeck._redis import AsyncClient, Endpoint
from qdeck._schedules.ticker import Ticker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from qdeck._deck.agent_tasks import Ending

Event = dict[str, Any]
RETRY_S: Final = 1.0
DENIED_S: Final = 60.0  # rights may be granted while an agent runs
LONGEST_SLEEP_S: Final = 60.0
GRACE_S: Final = 10.0
PATIENCE: Final = 5.0
QUIET_TASKS: Final = ("clean", "history", "maintain")  # told only when there is something to tell


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTask:
    """Something that one of the agents does every so often."""

    name: str
    every: float
    run: Callable[[Lease], Awaitable[Ending]]
    aligned: bool = False
    alone: Callable[[], Awaitable[dict[str, Any]]] | None = None  # what is left of it where claiming is not allowed
    unclaimed: Callable[[], Awaitable[dict[str, Any]]] | None = None  # the same where the key of its runs is not ours


def _no_event(_: Event) -> None:
    return


class Agent:
    """Looks after the queues of one server until it is told to stop. Any number of them may run at once."""

    def __init__(
        self, url: str, options: AgentOptions | None = None, *, on_event: Callable[[Event], None] = _no_event
    ) -> None:
        self.options = options or AgentOptions()
        self.id = _agent_id()
        self.endpoint = Endpoint(url)
        self.address = ""  # of the API, once it listens
        self._on_event = on_event
        self._asked: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._leases: set[Lease] = set()
        self._troubled: str | None = None
        self._denied: set[str] = set()
        self._last_error = ""

    def run(self) -> str:
        """Runs until SIGTERM, SIGINT, SIGHUP or `stop`; returns what ended it: `stop` or `reload`."""
        return asyncio.run(self.serve(signals=True))

    def stop(self, why: str = "stop") -> None:
        """Asks the agent to end, from any thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ask, why)

    async def serve(self, *, signals: bool = False) -> str:
        """Runs on the calling loop; for a program that has one."""
        self._loop = asyncio.get_running_loop()
        ending = self._ending = asyncio.Event()
        self._check_useful()
        client = AsyncClient(self.endpoint, patience=PATIENCE)
        readers = Readers(self.endpoint.url, self.options)
        maintenance = Maintenance(readers, client, self.options)
        with self._signals() if signals else contextlib.nullcontext():
            try:
                await client.run(_knock())
                if not self.options.read_only:
                    await asyncio.to_thread(identity.check, self.endpoint, self.options.production)
                async with self._api(maintenance):
                    kept = self._maintenance(maintenance)
                    told: Event = {
                        "event": "started",
                        "pid": os.getpid(),
                        "tasks": {task.name: task.every for task in kept},
                    }
                    self.event(told | ({"http": self.address} if self.address else {}))
                    await self._work(kept, client, ending)
            finally:
                await maintenance.close()
                await client.close()
                await readers.close()
        self.event({"event": "stopped"})
        return self._asked or "stop"

    def _check_useful(self) -> None:
        o = self.options
        if o.read_only and o.http is None and o.health_every is None:
            raise NotAllowed(
                f"{self.endpoint} is open read-only, and an agent writes",
                hint=f"{o.read_only_hint}; with --http or --health-every it would at least look",
            )

    def _maintenance(self, maintenance: Maintenance) -> list[MaintenanceTask]:
        o = self.options
        every: list[tuple[str, float | None, Callable[[Lease], Awaitable[Ending]]]] = [
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
                alone=maintenance.health_alone if name == "health" else None,
                unclaimed=maintenance.maintain_unclaimed if name == "maintain" else None,
            )
            for name, seconds, run in every
            if seconds is not None
        ]

    @contextlib.asynccontextmanager
    async def _api(self, maintenance: Maintenance) -> Any:
        if self.options.http is None:
            yield
            return
        from qdeck._agent.serving import listening

        async with listening(self.options, maintenance, self.event) as address:
            self.address = address
            yield

    async def _work(self, kept: list[MaintenanceTask], client: AsyncClient, ending: asyncio.Event) -> None:
        tasks = [asyncio.create_task(self._keep(task, client, ending), name=task.name) for task in kept]
        # Nobody is chosen for schedules: any number of tickers make each turn once.
        ticker = None
        if not self.options.read_only:
            ticker = asyncio.create_task(Ticker(client, on_event=self.event).run(), name="schedules")
        try:
            await ending.wait()
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

    async def _keep(self, task: MaintenanceTask, client: AsyncClient, ending: asyncio.Event) -> None:
        while not ending.is_set():
            try:
                wait_s = await self._once(task, client)
            except NotAllowed as error:
                wait_s = await self._alone(task, error)
            except LayoutMismatch as error:
                wait_s = await self._unclaimed(task, error)
            except QdeckError as error:
                self._tell_trouble(error)
                wait_s = RETRY_S * random.uniform(0.5, 1.5)  # noqa: S311 - spreads the agents, guards nothing
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), min(wait_s, LONGEST_SLEEP_S))

    async def _alone(self, task: MaintenanceTask, error: NotAllowed) -> float:
        """What can be done of a task by who may only look; seconds until the next time."""
        if task.name not in self._denied:
            self._denied.add(task.name)
            self.event({"event": "denied", "task": task.name, "error": str(error), "hint": error.hint})
        if task.alone is None:
            return DENIED_S
        try:
            told = await task.alone()
        except QdeckError as worse:
            self._tell_trouble(worse)
            return RETRY_S
        self.event({"event": "checked", "task": task.name} | told)
        return task.every

    async def _unclaimed(self, task: MaintenanceTask, error: LayoutMismatch) -> float:
        """What can be done of a task whose runs cannot be claimed, by any number of agents at once."""
        if task.name not in self._denied:
            self._denied.add(task.name)
            self.event({"event": "unclaimed", "task": task.name, "error": str(error), "hint": error.hint})
        if task.unclaimed is None:
            return DENIED_S
        try:
            told = await task.unclaimed()
        except QdeckError as worse:
            self._tell_trouble(worse)
            return RETRY_S
        if told:
            self.event({"event": "ran", "task": task.name} | told)
        return task.every

    async def _once(self, task: MaintenanceTask, client: AsyncClient) -> float:
        """Claims the task and does it when it is ours; seconds until it may be due."""
        if self.options.read_only:
            raise NotAllowed(f"{self.endpoint} is open read-only", hint=self.options.read_only_hint)
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
        self._tell_back()
        self._denied.discard(task.name)
        if not claim.token:
            return claim.wait_ms / 1000 + random.uniform(0.001, 0.02)  # noqa: S311 - spreads the agents
        lease = Lease(client, task.name, claim, lease_s)
        self._leases.add(lease)
        try:
            await self._do(task, lease)
        finally:
            self._leases.discard(lease)
        return 0.0

    async def _do(self, task: MaintenanceTask, lease: Lease) -> None:
        began = time.monotonic()
        run: asyncio.Task[Ending] = asyncio.ensure_future(task.run(lease))
        keeper = asyncio.create_task(lease.keep(run))
        failure: QdeckError | None = None
        try:
            ending = await run
        except asyncio.CancelledError:
            if not lease.lost:
                raise
            ending = agent_tasks.Ending(outcome="run_lost")
        except (OutcomeUnknown, ServerUnreachable) as error:
            failure, ending = error, agent_tasks.Ending(outcome="failed", summary={"error": str(error)})
        except QdeckError as error:
            ending = agent_tasks.Ending(outcome="failed", summary={"error": str(error), "hint": error.hint})
        except Exception as error:  # noqa: BLE001 - a task that fails must not end the others, nor go on for ever
            ending = agent_tasks.Ending(outcome="failed", summary={"error": f"{type(error).__name__}: {error}"})
        finally:
            run.cancel()
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        if not lease.lost:
            # How often it runs is known here only; whoever looks can tell from it when the next run is due.
            await lease.finish(replace(ending, summary={**ending.summary, agent_tasks.EVERY: task.every}))
        self._tell_run(task, lease, ending, time.monotonic() - began)
        if failure is not None:
            raise failure

    def _tell_run(self, task: MaintenanceTask, lease: Lease, ending: Ending, seconds: float) -> None:
        if lease.lost:
            why = "another agent took the run over: this one was silent for too long"
            self.event({"event": "run_lost", "task": task.name, "run": lease.claim.token, "error": why})
            return
        word = {"done": "ran", "stopped": "stopped early"}.get(ending.outcome, ending.outcome)
        if self._is_news(task, ending):
            told = {"event": word, "task": task.name, "run": lease.claim.token, "seconds": round(seconds, 3)}
            self.event(told | dict(ending.summary))

    def _is_news(self, task: MaintenanceTask, ending: Ending) -> bool:
        """Whether a run is worth an event: a quiet task reports what it did, and an error once."""
        if ending.outcome != "done" or task.name not in QUIET_TASKS:
            return True
        before = self._last_error
        if task.name == "maintain":
            self._last_error = str(ending.summary.get("error", ""))
        return bool(set(ending.summary) - {"errors", "error"}) or self._last_error not in ("", before)

    def _tell_trouble(self, error: QdeckError) -> None:
        # Once per trouble, not once per try: it may last for hours.
        if self._troubled is None:
            self._troubled = type(error).__name__
            self.event({"event": "waiting", "error": str(error), "hint": error.hint})

    def _tell_back(self) -> None:
        if self._troubled is not None:
            self._troubled = None
            self.event({"event": "reconnected"})

    def event(self, event: Event) -> None:
        """Tells whoever listens what happened."""
        self._on_event({"agent": self.id, **event})

    def _ask(self, why: str) -> None:
        self._asked = why
        if self._ending is not None:
            self._ending.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        asked = {signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGHUP: "reload"}
        for number, why in asked.items():
            loop.add_signal_handler(number, self._ask, why)
        try:
            yield
        finally:
            for number in asked:
                loop.remove_signal_handler(number)


def _knock() -> Any:
    """A server that is not there, or not ours to use, is told at once rather than waited for."""
    yield (b"HELLO",)


def _agent_id() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
