"""Runs blocking handlers in threads. All pull from one queue, and report back to the loop in bundles."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from qdeck._worker.contexts import call
from qdeck._worker.run import STOPS, raise_in_thread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qdeck._engine.ops import Ending
    from qdeck._worker.contexts import Contexts
    from qdeck._worker.run import Run

Done = tuple["Run", "Ending | None"]


class Reports:
    """Carries ends from threads to the loop: one wake-up for all that came meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[Done]], None]) -> None:
        self._loop = loop
        self._take = take
        self._ended: deque[Done] = deque()
        self._called = False

    def put(self, run: Run, ending: Ending | None) -> None:
        """Reports an end, from any thread."""
        self._ended.append((run, ending))
        if not self._called:
            self._called = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop is closed: the worker is gone, and the lease will bring the job back.
                return

    def _drain(self) -> None:
        self._called = False
        done = []
        while self._ended:
            done.append(self._ended.popleft())
        if done:
            self._take(done)


class Threads:
    """A pool that grows to what is asked for, and replaces a thread whose handler does not end."""

    def __init__(self, reports: Reports, contexts: Contexts, most: int) -> None:
        self._reports = reports
        self._contexts = contexts
        self._most = most
        self._jobs: SimpleQueue[Run | None] = SimpleQueue()
        # Jobs put and not ended. There is a thread for each, up to the most: a job never waits behind another while
        # there is room, which counting idle threads cannot promise (one that just got a job still counts as idle).
        self._open = 0
        self._count = 0
        self._lock = threading.Lock()

    def put(self, run: Run) -> None:
        """Runs a job as soon as a thread is free."""
        self._add(1)
        self._jobs.put(run)
        if self._open > self._count and self._count < self._most:
            self._grow()

    def replace(self) -> None:
        """A thread is given up; another may take its place."""
        self._add(-1)
        self._count -= 1
        if self._open > self._count:
            self._grow()

    def _add(self, change: int) -> None:
        with self._lock:
            self._open += change

    def _grow(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, name=f"qdeck-job-{self._count}", daemon=True).start()

    def take_waiting(self) -> list[Run]:
        """Takes out the jobs that no thread has begun."""
        taken = []
        with contextlib.suppress(Empty):
            while True:
                run = self._jobs.get_nowait()
                if run is not None:
                    taken.append(run)
                    self._add(-1)
        return taken

    def stop(self) -> None:
        """Lets idle threads end."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        me = threading.get_ident()
        while True:
            run = self._jobs.get()
            if run is None:
                return
            self._run(run, me)
            if run.abandoned:
                return

    def _run(self, run: Run, me: int) -> None:
        ending: Ending | None
        try:
            try:
                run.begin()
                run.thread = me
                if run.stop is not None:
                    raise STOPS[run.stop]
                args, kwargs = run.arguments()
                value = self._contexts.make().run(call, run, args, kwargs)
            finally:
                _leave(run, me)
            ending = run.ended_well(value)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            # The interruption may have come within the `finally`. There is one at most, so this time it is done.
            _leave(run, me)
            ending = run.ended_badly(error)
        if not run.abandoned:
            self._add(-1)
        self._reports.put(run, ending)


# Held while a thread is interrupted and while one leaves its handler: so the error is raised in the handler it is meant
# for, or not at all. Elsewhere it would end the thread, and its job would be held for ever.
_handover: Final = threading.Lock()


def _leave(run: Run, me: int) -> None:
    with _handover:
        run.thread = None
        if run.stop is not None:
            raise_in_thread(me, None)


def interrupt(run: Run) -> None:
    """Raises the reason to stop inside the handler, if it runs in a thread now."""
    with _handover:
        if isinstance(run.thread, int) and run.stop is not None:
            raise_in_thread(run.thread, STOPS[run.stop])
