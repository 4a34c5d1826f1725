"""Runs async handlers on the loop: a few coroutines take jobs from one deque, without a task for each job."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from qdeck._worker.attempt import STOP_ERRORS
from qdeck._worker.handler_contexts import first_step, further_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.transitions import Ending
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.handler_contexts import HandlerContexts

# Handlers that never suspend would block the loop: after so long it yields.
LOOP_HOLD_S: Final = 0.0007


class AsyncExecutor:
    """Coroutines that run at most `most` handlers at once; one that does not stop is abandoned and replaced.

    A runner whose task was cancelled, by the worker or by a handler, is replaced as well: nothing of it can reach
    another job.
    """

    def __init__(self, finish: Callable[[Attempt, Ending | None], None], contexts: HandlerContexts, most: int) -> None:
        self._finish = finish
        self._contexts = contexts
        self._most = most
        self.waiting: deque[Attempt] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0
        self._waking = False
        self._mark = 0.0
        self._ended = False

    def put(self, attempt: Attempt) -> None:
        """Run a job as soon as a coroutine is free."""
        self.waiting.append(attempt)
        if not self._waking:
            self._wake_one()

    def take_waiting(self) -> list[Attempt]:
        """Remove and return the jobs that have not started."""
        taken = list(self.waiting)
        self.waiting.clear()
        return taken

    def replace(self) -> None:
        """Let another coroutine replace an abandoned one."""
        self._count -= 1
        if self.waiting:
            self._wake_one()

    def interrupt(self, attempt: Attempt) -> None:
        """Cancel the handler of an attempt, if it runs here now."""
        if isinstance(attempt.thread, asyncio.Task):
            attempt.thread.cancel()

    async def stop(self) -> None:
        """Stop the coroutines."""
        self._ended = True
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            # A handler that swallows its cancellation must not keep the worker from ending.
            await asyncio.wait(self._tasks, timeout=1.0)

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():  # else its coroutine was cancelled, and ends
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
            # A callback of an earlier handler cancelled the task that it ran in, which is this one.
            replaced = False
        if not replaced and not self._ended:
            self._waking = False
            self.replace()

    async def _run_waiting(self, me: asyncio.Task[None] | None) -> bool:
        """Run jobs until this task can run no more; return whether another coroutine has replaced it."""
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
            attempt = waiting.popleft()
            if waiting and not self._waking:
                self._wake_one()
            await self._run(attempt, me)
            if attempt.abandoned:
                return True
            if self._ended or (me is not None and me.cancelling()):
                # Timeouts and task groups of the next job would mistake that cancellation for their own.
                return False
            now = time.monotonic()
            if now - self._mark > LOOP_HOLD_S:
                await asyncio.sleep(0)
                self._mark = time.monotonic()

    async def _run(self, attempt: Attempt, me: asyncio.Task[None] | None) -> None:
        attempt.thread = me
        ending: Ending | None
        try:
            attempt.begin()
            if attempt.stop is not None:
                raise STOP_ERRORS[attempt.stop]
            args, kwargs = attempt.arguments()
            context = self._contexts.make()
            coroutine, value = context.run(first_step, attempt, args, kwargs)
            if coroutine is not None:
                value = await further_steps(context, coroutine, value)
            ending = attempt.success(value)
        except asyncio.CancelledError as error:
            if attempt.stop is None and self._ended:
                raise
            # The handler was stopped, or it cancelled itself: then that is its error.
            ending = attempt.failure(error if attempt.stop is None else STOP_ERRORS[attempt.stop]())
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            ending = attempt.failure(error)
        finally:
            attempt.thread = None
        self._finish(attempt, ending)
