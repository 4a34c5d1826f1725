"""The worker: starts its parts, runs until it is stopped, then finishes running jobs or gives them back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption
from qdeck._redis import AsyncClient
from qdeck._schedules.ticker import Ticker
from qdeck._worker.claim_loop import ClaimLoop
from qdeck._worker.executor import Executor
from qdeck._worker.heartbeat import Heartbeat
from qdeck._worker.output_capture import OutputCapture
from qdeck._worker.process import process_id, stop_signals
from qdeck._worker.stop_requests import StopRequests
from qdeck._worker.worker_queue import WorkerQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck._app import App
    from qdeck._worker.attempt import Attempt, StopReason

_log = logging.getLogger(__name__)
Event = dict[str, Any]
LEASE_S: Final = 20.0
GRACE_S: Final = 30.0
GIVE_BACK_TIMEOUT_S: Final = 10.0  # how long a worker that stops tries to give back its jobs


def _no_event(_: Event) -> None:
    return


class Worker:
    """A process that runs the jobs of an app's queues until it is stopped."""

    def __init__(
        self,
        app: App,
        queues: Mapping[str, int] | None = None,
        *,
        concurrency: int = 50,
        lease: float = LEASE_S,
        grace: float = GRACE_S,
        processes: int | None = None,
        app_ref: str | None = None,
        on_event: Callable[[Event], None] = _no_event,
    ) -> None:
        """Set up a worker. `queues` maps names to weights, by default all queues of the app's tasks. `lease`
        and `grace` are seconds: how long the worker may miss heartbeats before its jobs are given to another,
        and how long running jobs may continue after SIGTERM."""
        if concurrency < 1 or lease < 0.1 or grace < 0:
            raise InvalidOption(
                f"concurrency {concurrency}, lease {lease}, grace {grace}",
                hint="Give a concurrency of 1 or more, a lease of 0.1s or more and a grace of 0s or more.",
            )
        self.app = app
        self.id = process_id(".")
        own = {task.options.queue: 1 for task in app.tasks.values()} or {app.queue: 1}
        chosen = {app.queue_name(name): weight for name, weight in (queues or own).items()}
        if any(weight < 1 for weight in chosen.values()):
            raise InvalidOption(f"weights are {chosen}", hint="Give whole numbers from 1 up.")
        self.queues: list[WorkerQueue[Attempt]] = [
            WorkerQueue(name, weight, self.id) for name, weight in chosen.items()
        ]
        self.concurrency = concurrency
        self._lease_ms = round(lease * 1000)
        self._grace = grace
        self._processes = processes
        self._app_ref = app_ref
        self._on_event = on_event
        self._started_ms = int(time.time() * 1000)
        self._stop_reason: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._executor: Executor | None = None
        self._claim_loop: ClaimLoop | None = None
        self._heartbeat: Heartbeat | None = None
        self._left_behind = False

    def run(self) -> str:
        """Run until SIGTERM, SIGINT, SIGHUP or `stop`; return the reason: `stop` or `reload`."""
        runner = asyncio.Runner()
        try:
            return runner.run(self._main())
        finally:
            if not self._left_behind:
                runner.close()  # waits for all tasks to end

    async def _main(self) -> str:
        try:
            return await self.serve(signals=True)
        finally:
            await self.app.aclose()  # connections that handlers opened
            self._left_behind = await _end_tasks()

    def stop(self, reason: str = "stop") -> None:
        """Request the end of the worker, from any thread; running jobs finish, or are requeued after the grace
        period.
        """
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._request_stop, reason)

    def wake(self) -> None:
        """Poll all queues now; may be called from any thread. New jobs wake the worker without it."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._poll_all)

    def _poll_all(self) -> None:
        for queue in self.queues:
            queue.may_have_jobs = True
        if self._claim_loop is not None:
            self._claim_loop.wake()

    async def serve(self, *, signals: bool = False) -> str:
        """Run on the calling loop, for a program that has one."""
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        client = AsyncClient(self.app.endpoint, patience=self.app.patience)
        ticker = Ticker(client, declared=self.app.schedules, on_event=self.event)
        claim_loop = self._claim_loop = ClaimLoop(client, self.queues, self.id, self._lease_ms, self.event)
        executor = self._executor = claim_loop.executor = Executor(
            self.app,
            concurrency=self.concurrency,
            processes=self._processes,
            app_ref=self._app_ref,
            wake=claim_loop.wake,
            event=self.event,
        )
        beat = self._heartbeat = Heartbeat(
            self.app.endpoint,
            self.queues,
            lease_ms=self._lease_ms,
            describe=self.describe,
            tasks=lambda: sorted(self.app.tasks),
            stop_attempt=self._stop_attempt_soon,
            on_request=self._on_request,
        )
        beat.now_ms = claim_loop.server_ms
        with OutputCapture(), stop_signals(self._request_stop) if signals else contextlib.nullcontext():
            beside = contextlib.AsyncExitStack()
            try:
                await claim_loop.open()
                for one in self.app.beside:
                    await beside.enter_async_context(one())
                self._started_ms = claim_loop.server_ms()
                beat.start()
                self.event({"event": "started", "queues": [queue.name for queue in self.queues], "pid": os.getpid()})
                requests = StopRequests(
                    client,
                    self.queues,
                    self.id,
                    check_now=beat.check_now,
                    now_ms=claim_loop.server_ms,
                    lease_ms=self._lease_ms,
                )
                claim_loop.on_jobs = requests.wait
                await self._work(claim_loop, executor, beat, ticker, requests)
            finally:
                await beside.aclose()
                if beat.started:
                    await asyncio.to_thread(beat.stop)
                await claim_loop.close()
                await client.close()
        self.event({"event": "stopped", "done": executor.done, "failed": executor.failed})
        return self._stop_reason or "stop"

    async def _work(
        self, claim_loop: ClaimLoop, executor: Executor, beat: Heartbeat, ticker: Ticker, requests: StopRequests
    ) -> None:
        executor.contexts.capture()
        schedules = asyncio.create_task(ticker.run())
        work = asyncio.create_task(claim_loop.loop())
        watcher = asyncio.create_task(self._watch(executor, beat))
        stops = asyncio.create_task(requests.run())
        ending = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({work, watcher, stops, ending}, return_when=asyncio.FIRST_COMPLETED)
            if watcher.done():
                await watcher  # raises: without it no time limit holds
            if stops.done():
                await stops  # raises
            schedules.cancel()
            if not work.done():
                await self._wind_down(claim_loop, executor, work)
            if work.done():
                await work
            else:
                # The server does not answer: the jobs return to the queue when their leases expire.
                self.event({"event": "left", "running": executor.count})
        finally:
            tasks = (work, watcher, stops, ending, schedules)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await executor.stop()

    async def _wind_down(self, claim_loop: ClaimLoop, executor: Executor, work: asyncio.Task[None]) -> None:
        """Finish running jobs within the grace; then stop the others and give them back."""
        self.event({"event": "stopping", "running": executor.count})
        claim_loop.is_claiming = False
        executor.requeue_waiting()
        claim_loop.finish()
        await asyncio.wait({work}, timeout=self._grace)
        if not work.done():
            for queue in self.queues:
                for attempt in list(queue.held.values()):
                    executor.stop_attempt(attempt, "shutdown")
            await asyncio.wait({work}, timeout=2.0)
        if not work.done():
            # Handlers that do not stop end with this process: do not wait for them.
            for queue in self.queues:
                for attempt in list(queue.held.values()):
                    attempt.abandoned = True
                    queue.endings.append(attempt.ending("give"))
                queue.held.clear()
            executor.count = 0
            claim_loop.wake()
            await asyncio.wait({work}, timeout=GIVE_BACK_TIMEOUT_S)

    async def _ended(self) -> None:
        if self._ending is not None:
            await self._ending.wait()

    async def _watch(self, executor: Executor, beat: Heartbeat) -> None:
        while True:
            await asyncio.sleep(0.1)
            beat.check_leases()
            executor.check(self.queues, time.monotonic())

    def event(self, event: Event) -> None:
        """Report an event to `on_event`."""
        try:
            self._on_event({"worker": self.id, **event})
        except Exception:  # noqa: BLE001 - logged with its traceback
            # An error in the callback of an application must not stop the worker.
            _log.exception("on_event failed for %s", event.get("event"))

    def describe(self) -> dict[str, object]:
        """Return what the worker publishes about itself."""
        executor = self._executor
        return {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": _version(),
            "queues": [queue.name for queue in self.queues],
            "concurrency": self.concurrency,
            "started_ms": self._started_ms,
            "state": self._state(),
            "running": executor.count if executor else 0,
            "done": executor.done if executor else 0,
            "failed": executor.failed if executor else 0,
            "lost": executor.lost if executor else 0,
            "stuck_handlers": executor.stuck if executor else 0,
            "rss": _resident_bytes(),
        }

    def _state(self) -> str:
        if self._ending is not None and self._ending.is_set():
            return "stopping"
        return "running" if self._claim_loop is None or self._claim_loop.is_claiming else "quiet"

    def _request_stop(self, reason: str) -> None:
        if self._stop_reason == "stop" and reason == "reload":
            return  # a reload does not replace a requested stop
        if self._stop_reason == "stop" and self._executor is not None:
            # A second request stops running jobs at once.
            for queue in self.queues:
                for attempt in list(queue.held.values()):
                    self._executor.stop_attempt(attempt, "shutdown")
        self._stop_reason = reason
        if self._ending is not None:
            self._ending.set()

    def _on_request(self, word: str) -> None:
        if self._loop is None:
            return
        if word == "stop":
            self._loop.call_soon_threadsafe(self._request_stop, "stop")
        else:
            self._loop.call_soon_threadsafe(self._set_quiet, word == "quiet")

    def _set_quiet(self, is_quiet: bool) -> None:
        """Claim no more jobs, or claim them again."""
        loop = self._claim_loop
        if loop is None or loop.is_claiming is not is_quiet or (self._ending is not None and self._ending.is_set()):
            return
        loop.is_claiming = not is_quiet
        self.event({"event": "quiet" if is_quiet else "resumed"})
        if not is_quiet:
            loop.wake()

    def _stop_attempt_soon(self, attempt: Attempt, reason: StopReason) -> None:
        if self._loop is not None and self._executor is not None:
            # Handlers in threads read this event at once; the loop does the rest.
            if reason == "lost":
                attempt.context().lease_lost.set()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._executor.stop_attempt, attempt, reason)


async def _end_tasks() -> bool:
    """Cancel the tasks that handlers left on the loop; return whether some of them still run."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return bool(others and (await asyncio.wait(others, timeout=1.0))[1])


def _version() -> str:
    from qdeck import __version__

    return __version__


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read often, a Path costs more than the read
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
