"""Runs blocking handlers in threads. All pull from one queue, and report back to the loop in bundles."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from qdeck._context import running
from qdeck._worker.run import STOPS, current_thread, raise_in_thread

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qdeck._engine.ops import Ending
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

    def __init__(self, reports: Reports, most: int) -> None:
        self._reports = reports
        self._most = most
        self._jobs: SimpleQueue[Run | None] = SimpleQueue()
        self._idle = 0
        self._count = 0
        self._lock = threading.Lock()

    def put(self, run: Run) -> None:
        """Runs a job as soon as a thread is free."""
        self._jobs.put(run)
        if self._jobs.qsize() > self._idle and self._count < self._most:
            self._grow()

    def replace(self) -> None:
        """A thread is given up; another may take its place."""
        self._count -= 1
        self._grow()

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
        return taken

    def stop(self) -> None:
        """Lets idle threads end."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        me = current_thread()
        while True:
            with self._lock:
                self._idle += 1
            try:
                run = self._jobs.get()
            finally:
                with self._lock:
                    self._idle -= 1
            if run is None:
                return
            self._run(run, me)
            if run.abandoned:
                return

    def _run(self, run: Run, me: int) -> None:
        running.set(run)
        ending: Ending | None
        try:
            run.thread = me
            run.begin()
            if run.stop is not None:
                raise STOPS[run.stop]
            args, kwargs = run.arguments()
            ending = run.ended_well(run.function()(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            ending = run.ended_badly(error)
        finally:
            run.thread = None
            running.set(None)
        self._reports.put(run, ending)


def interrupt(run: Run) -> None:
    """Raises the reason to stop inside the handler, if it runs in a thread now."""
    if isinstance(run.thread, int) and run.stop is not None:
        raise_in_thread(run.thread, STOPS[run.stop])
