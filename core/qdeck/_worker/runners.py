"""Runs async handlers on the loop: a few coroutines that take jobs from one line, no task per job."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from qdeck._worker.contexts import first_step, further_steps
from qdeck._worker.run import STOPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.ops import Ending
    from qdeck._worker.contexts import Contexts
    from qdeck._worker.run import Run

# Handlers that never suspend would hold the loop: after so long the others get a turn.
HOLD_S: Final = 0.0007


class Runners:
    """At most `most` handlers at once. One that does not end when told is given up and replaced.

    A runner whose task was cancelled, by the worker or by a handler, is replaced as well: nothing of it can reach
    another job.
    """

    def __init__(self, finish: Callable[[Run, Ending | None], None], contexts: Contexts, most: int) -> None:
        self._finish = finish
        self._contexts = contexts
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
        """Let another runner take the place of one that is given up."""
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
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():  # else its runner was cancelled meanwhile, and ends
                self._waking = True
                idle.set_result(None)
                return
        if self._count < self._most:
            self._waking = True
            self._count += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            replaced = await self._run_waiting(asyncio.current_task())
        except asyncio.CancelledError:
            if self._ended:
                raise
            # A handler that ended long ago left something behind that cancels its task, which is this one.
            replaced = False
        if not replaced and not self._ended:
            self._waking = False
            self.replace()

    async def _run_waiting(self, me: asyncio.Task[None] | None) -> bool:
        """Run jobs until the task cannot run another; true when another runner took its place already."""
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
            if run.abandoned:
                return True
            if self._ended or (me is not None and me.cancelling()):
                # The time-outs and task groups of the next job would take that cancellation for their own.
                return False
            now = time.monotonic()
            if now - self._mark > HOLD_S:
                await asyncio.sleep(0)
                self._mark = time.monotonic()

    async def _run(self, run: Run, me: asyncio.Task[None] | None) -> None:
        run.thread = me
        ending: Ending | None
        try:
            run.begin()
            if run.stop is not None:
                raise STOPS[run.stop]
            args, kwargs = run.arguments()
            context = self._contexts.make()
            coroutine, value = context.run(first_step, run, args, kwargs)
            if coroutine is not None:
                value = await further_steps(context, coroutine, value)
            ending = run.ended_well(value)
        except asyncio.CancelledError as error:
            if run.stop is None and self._ended:
                raise
            # The handler was told to stop, or it cancelled itself: then that is its error.
            ending = run.ended_badly(error if run.stop is None else STOPS[run.stop]())
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            ending = run.ended_badly(error)
        finally:
            run.thread = None
        self._finish(run, ending)
