"""The worker's life: it starts, takes its turns, finishes or gives back on SIGTERM, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
import socket
import time
from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import InvalidOption
from qdeck._redis import AsyncClient
from qdeck._schedules.ticker import Ticker
from qdeck._worker.capture import Capture
from qdeck._worker.hands import Hands
from qdeck._worker.heartbeat import Heartbeat
from qdeck._worker.lane import Lane
from qdeck._worker.pump import Pump
from qdeck._worker.requests import StopRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck._app import App
    from qdeck._worker.run import Run, StopReason

_log = logging.getLogger(__name__)
Event = dict[str, Any]
LEASE_S: Final = 20.0
GRACE_S: Final = 30.0
FAREWELL_S: Final = 10.0  # how long a worker that ends tries to give back what it holds


def _no_event(_: Event) -> None:
    return


class Worker:
    """Runs the jobs of an app's queues until it is told to stop."""

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
        """`queues` maps names to weights, by default all queues of the app's tasks. `lease` and `grace` are seconds:
        how long a job stays ours without a sign of life, and how long running jobs may go on after SIGTERM."""
        if concurrency < 1 or lease < 0.1 or grace < 0:
            raise InvalidOption(
                f"concurrency {concurrency}, lease {lease}, grace {grace}",
                hint="give a concurrency of 1 or more, a lease of 0.1 s or more and a grace of 0 or more",
            )
        self.app = app
        self.id = _worker_id()
        own = {task.options.queue: 1 for task in app.tasks.values()} or {app.queue: 1}
        chosen = {app.queue_name(name): weight for name, weight in (queues or own).items()}
        if any(weight < 1 for weight in chosen.values()):
            raise InvalidOption(f"weights {chosen}", hint="give whole numbers from 1 up")
        self.lanes: list[Lane[Run]] = [Lane(name, weight, self.id) for name, weight in chosen.items()]
        self.concurrency = concurrency
        self._lease_ms = round(lease * 1000)
        self._grace = grace
        self._processes = processes
        self._app_ref = app_ref
        self._on_event = on_event
        self._started_ms = int(time.time() * 1000)
        self._asked: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._hands: Hands | None = None
        self._pump: Pump | None = None
        self._heartbeat: Heartbeat | None = None
        self._left_behind = False

    def run(self) -> str:
        """Runs until SIGTERM, SIGINT, SIGHUP or `stop`; returns what ended it: `stop` or `reload`."""
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
            await self.app.aclose()  # what handlers used
            self._left_behind = await _end_tasks()

    def stop(self, why: str = "stop") -> None:
        """Asks the worker to end, from any thread: it finishes what runs, or gives it back after the grace."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ask, why)

    def wake(self) -> None:
        """Lets the worker look for work now, from any thread; it does by itself when there is new work."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        for lane in self.lanes:
            lane.hungry = True
        if self._pump is not None:
            self._pump.stir()

    async def serve(self, *, signals: bool = False) -> str:
        """Runs on the calling loop; for a program that has one."""
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        client = AsyncClient(self.app.endpoint, patience=self.app.patience)
        ticker = Ticker(client, declared=self.app.schedules, on_event=self.event)
        pump = self._pump = Pump(client, self.lanes, self.id, self._lease_ms, self.event)
        hands = self._hands = pump.hands = Hands(
            self.app,
            concurrency=self.concurrency,
            processes=self._processes,
            app_ref=self._app_ref,
            stir=pump.stir,
            event=self.event,
        )
        beat = self._heartbeat = Heartbeat(
            self.app.endpoint,
            self.lanes,
            lease_ms=self._lease_ms,
            describe=self.describe,
            tasks=lambda: sorted(self.app.tasks),
            stop_run=self._stop_run_soon,
            obey=self._obey,
        )
        beat.now_ms = pump.server_ms
        with Capture(), self._signals() if signals else contextlib.nullcontext():
            beside = contextlib.AsyncExitStack()
            try:
                await pump.open()
                for one in self.app.beside:
                    await beside.enter_async_context(one())
                self._started_ms = pump.server_ms()
                beat.start()
                self.event({"event": "started", "queues": [lane.queue for lane in self.lanes], "pid": os.getpid()})
                requests = StopRequests(
                    client, self.lanes, self.id, look=beat.look, now_ms=pump.server_ms, lease_ms=self._lease_ms
                )
                pump.on_jobs = requests.wait
                await self._work(pump, hands, beat, ticker, requests)
            finally:
                await beside.aclose()
                if beat.started:
                    await asyncio.to_thread(beat.stop)
                await pump.close()
                await client.close()
        self.event({"event": "stopped", "done": hands.done, "failed": hands.failed})
        return self._asked or "stop"

    async def _work(self, pump: Pump, hands: Hands, beat: Heartbeat, ticker: Ticker, requests: StopRequests) -> None:
        hands.contexts.capture()
        schedules = asyncio.create_task(ticker.run())
        work = asyncio.create_task(pump.loop())
        ticks = asyncio.create_task(self._tick(hands, beat))
        stops = asyncio.create_task(requests.run())
        ending = asyncio.create_task(self._ended())
        try:
            await asyncio.wait({work, ticks, stops, ending}, return_when=asyncio.FIRST_COMPLETED)
            if ticks.done():
                await ticks  # raises: without it no time limit holds
            if stops.done():
                await stops  # raises
            schedules.cancel()
            if not work.done():
                await self._wind_down(pump, hands, work)
            if work.done():
                await work
            else:
                # The server does not answer: the leases bring back what is in hand.
                self.event({"event": "left", "running": hands.count})
        finally:
            tasks = (work, ticks, stops, ending, schedules)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hands.stop()

    async def _wind_down(self, pump: Pump, hands: Hands, work: asyncio.Task[None]) -> None:
        """Finishes what runs within the grace; what still runs then is stopped and given back."""
        self.event({"event": "stopping", "running": hands.count})
        pump.claims = False
        hands.give_back_waiting()
        pump.finish()
        await asyncio.wait({work}, timeout=self._grace)
        if not work.done():
            for lane in self.lanes:
                for run in list(lane.held.values()):
                    hands.stop_run(run, "shutdown")
            await asyncio.wait({work}, timeout=2.0)
        if not work.done():
            # Handlers that do not stop end with this process: from here on nobody waits for them.
            for lane in self.lanes:
                for run in list(lane.held.values()):
                    run.abandoned = True
                    lane.endings.append(run.ending("give"))
                lane.held.clear()
            hands.count = 0
            pump.stir()
            await asyncio.wait({work}, timeout=FAREWELL_S)

    async def _ended(self) -> None:
        if self._ending is not None:
            await self._ending.wait()

    async def _tick(self, hands: Hands, beat: Heartbeat) -> None:
        while True:
            await asyncio.sleep(0.1)
            beat.watch()
            hands.check(self.lanes, time.monotonic())

    def event(self, event: Event) -> None:
        """Tells whoever listens what happened."""
        try:
            self._on_event({"worker": self.id, **event})
        except Exception:  # noqa: BLE001 - logged with its traceback
            # It is called from the middle of everything: who listens must not stop who works.
            _log.exception("on_event failed for %s", event.get("event"))

    def describe(self) -> dict[str, object]:
        """What the worker says about itself."""
        hands = self._hands
        return {
            "id": self.id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": _version(),
            "queues": [lane.queue for lane in self.lanes],
            "concurrency": self.concurrency,
            "started_ms": self._started_ms,
            "state": self._state(),
            "running": hands.count if hands else 0,
            "done": hands.done if hands else 0,
            "failed": hands.failed if hands else 0,
            "lost": hands.lost if hands else 0,
            "stuck_handlers": hands.stuck if hands else 0,
            "rss": _resident_bytes(),
        }

    def _state(self) -> str:
        if self._ending is not None and self._ending.is_set():
            return "stopping"
        return "running" if self._pump is None or self._pump.claims else "quiet"

    def _ask(self, why: str) -> None:
        if self._asked == "stop" and why == "reload":
            return  # who asked to end is not served by a new start
        if self._asked == "stop" and self._hands is not None:
            # Asked twice: what runs is stopped at once.
            for lane in self.lanes:
                for run in list(lane.held.values()):
                    self._hands.stop_run(run, "shutdown")
        self._asked = why
        if self._ending is not None:
            self._ending.set()

    def _obey(self, word: str) -> None:
        if self._loop is None:
            return
        if word == "stop":
            self._loop.call_soon_threadsafe(self._ask, "stop")
        elif word == "quiet":
            self._loop.call_soon_threadsafe(self._be_quiet)

    def _be_quiet(self) -> None:
        if self._pump is not None and self._pump.claims:
            self._pump.claims = False
            self.event({"event": "quiet"})

    def _stop_run_soon(self, run: Run, reason: StopReason) -> None:
        if self._loop is not None and self._hands is not None:
            # At once for handlers in threads, which look at the event; the rest happens on the loop.
            if reason == "lost":
                run.context().lease_lost.set()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hands.stop_run, run, reason)

    @contextlib.contextmanager
    def _signals(self) -> Any:
        loop = asyncio.get_running_loop()
        asked = {signal.SIGTERM: "stop", signal.SIGINT: "stop", signal.SIGHUP: "reload"}
        for number, why in asked.items():
            loop.add_signal_handler(number, self._ask, why)
        try:
            yield
        finally:
            for number in asked:
                loop.remove_signal_handler(number)


async def _end_tasks() -> bool:
    """Cancels what handlers left on the loop; true when some of it goes on for all that, and ends with the process."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    return bool(others and (await asyncio.wait(others, timeout=1.0))[1])


def _worker_id() -> str:
    # Scripts put it in JSON and in front of a colon: letters, digits, dots and dashes only.
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
    return f"{host}.{os.getpid()}.{secrets.token_hex(3)}"


def _version() -> str:
    from qdeck import __version__

    return __version__


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - read often, a Path costs more than the read
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
