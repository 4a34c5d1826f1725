"""Runs async handlers on the loop: a few coroutines that take jobs from one line, no task per job."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from qdeck._context import running
from qdeck._worker.run import STOPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.ops import Ending
    from qdeck._worker.run import Run

# Handlers that never suspend would hold the loop: after so long the others get a turn.
HOLD_S: Final = 0.0007


class Runners:
    """At most `most` handlers at once. One that does not end when told is given up and replaced."""

    def __init__(self, finish: Callable[[Run, Ending | None], None], most: int) -> None:
        self._finish = finish
        self._most = most
        self.waiting: deque[Run] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._waking = False
        self._mark = 0.0
        self._ended = False

    def put(self, run: Run) -> None:
        """Runs a job as soon as there is room."""
        self.waiting.append(run)
        if not self._waking:
            self._wake_one()

    def take_waiting(self) -> list[Run]:
        """Takes out the jobs that were not begun."""
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def replace(self) -> None:
        """A runner is given up; another may take its place."""
        self._count -= 1
        if self.waiting:
            self._wake_one()

    def interrupt(self, run: Run) -> None:
        """Cancels the handler of a run, if it runs here now."""
        if isinstance(run.thread, asyncio.Task):
            run.thread.cancel()

    async def stop(self) -> None:
        """Ends the runners."""
        self._ended = True
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            # A handler that swallows its cancellation must not keep the worker from ending.
            await asyncio.wait(self._tasks, timeout=1.0)

    def _wake_one(self) -> None:
        if self._idle:
            self._waking = True
            self._idle.pop().set_result(None)
        elif self._count < self._most:
            self._waking = True
            self._count += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        me = asyncio.current_task()
        loop = asyncio.get_running_loop()
        self._waking = False
        waiting = self.waiting
        while True:
            if not waiting:
                idle = loop.create_future()
                self._idle.append(idle)
                await idle
                self._waking = False
                self._mark = time.monotonic()
                continue
            run = waiting.popleft()
            if waiting and not self._waking:
                self._wake_one()
            await self._run(run, me)
            if run.abandoned or self._ended:
                return
            now = time.monotonic()
            if now - self._mark > HOLD_S:
                await asyncio.sleep(0)
                self._mark = time.monotonic()

    async def _run(self, run: Run, me: asyncio.Task[None] | None) -> None:
        running.set(run)
        run.thread = me
        ending: Ending | None
        try:
            run.begin()
            if run.stop is not None:
                raise STOPS[run.stop]
            args, kwargs = run.arguments()
            ending = run.ended_well(await run.function()(*args, **kwargs))
        except asyncio.CancelledError as error:
            if run.stop is None and me is not None and me.cancelling():
                raise  # the worker ends
            # Else the handler was told to stop, or something of its own was cancelled: then that is its error.
            ending = run.ended_badly(error if run.stop is None else STOPS[run.stop]())
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            ending = run.ended_badly(error)
        finally:
            run.thread = None
            running.set(None)
        if run.stop is not None and me is not None:
            # Also when the handler swallowed it: the next one's time-outs and task groups look at this count.
            while me.cancelling():
                me.uncancel()
        self._finish(run, ending)
