"""Runs blocking handlers in threads that share one queue and report endings to the loop in batches."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from qdeck._worker.attempt import STOP_ERRORS, raise_in_thread
from qdeck._worker.handler_contexts import call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from qdeck._engine.transitions import Ending
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.handler_contexts import HandlerContexts

AttemptEnding = tuple["Attempt", "Ending | None"]


class Reporter:
    """Carries endings from threads to the loop: one callback for all that arrived meanwhile."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[AttemptEnding]], None]) -> None:
        self._loop = loop
        self._take = take
        self._ended: deque[AttemptEnding] = deque()
        self._called = False

    def put(self, attempt: Attempt, ending: Ending | None) -> None:
        """Report an ending, from any thread."""
        self._ended.append((attempt, ending))
        if not self._called:
            self._called = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop is closed: the worker has ended, and the job returns when its lease expires.
                return

    def _drain(self) -> None:
        self._called = False
        done = []
        while self._ended:
            done.append(self._ended.popleft())
        if done:
            self._take(done)


class AttemptQueue:
    """Attempts that wait for a thread of an executor, and the number of those that have not ended."""

    def __init__(self) -> None:
        self.open = 0
        self._waiting: SimpleQueue[Attempt | None] = SimpleQueue()
        self._lock = threading.Lock()  # for `open`, which the loop and the threads change

    def put(self, attempt: Attempt) -> None:
        """Add an attempt."""
        self._count(1)
        self._waiting.put(attempt)

    def get(self) -> Attempt | None:
        """Wait for an attempt; None ends a thread."""
        return self._waiting.get()

    def ended(self) -> None:
        """Count an attempt as ended."""
        self._count(-1)

    def take_waiting(self) -> list[Attempt]:
        """Remove and return the attempts that no thread has taken."""
        taken = []
        with contextlib.suppress(Empty):
            while True:
                attempt = self._waiting.get_nowait()
                if attempt is not None:
                    taken.append(attempt)
                    self._count(-1)
        return taken

    def stop(self, threads: int) -> None:
        """End this number of threads, as each becomes idle."""
        for _ in range(threads):
            self._waiting.put(None)

    def _count(self, change: int) -> None:
        with self._lock:
            self.open += change


class ThreadExecutor:
    """A pool that grows up to its limit, and replaces a thread whose handler does not end."""

    def __init__(self, reporter: Reporter, contexts: HandlerContexts, most: int) -> None:
        self._reporter = reporter
        self._contexts = contexts
        self._most = most
        # Each open job has a thread, up to the limit: a job never waits behind another while slots are free, which a
        # count of idle threads cannot promise (one that just got a job still counts as idle).
        self._jobs = AttemptQueue()
        self._count = 0

    def put(self, attempt: Attempt) -> None:
        """Run a job as soon as a thread is free."""
        self._jobs.put(attempt)
        if self._jobs.open > self._count and self._count < self._most:
            self._grow()

    def replace(self) -> None:
        """Let another thread replace an abandoned one."""
        self._jobs.ended()
        self._count -= 1
        if self._jobs.open > self._count:
            self._grow()

    def _grow(self) -> None:
        self._count += 1
        threading.Thread(target=self._work, name=f"qdeck-job-{self._count}", daemon=True).start()

    def take_waiting(self) -> list[Attempt]:
        """Remove and return the jobs that have not started."""
        return self._jobs.take_waiting()

    def stop(self) -> None:
        """End idle threads."""
        self._jobs.stop(self._count)

    def _work(self) -> None:
        me = threading.get_ident()
        while True:
            attempt = self._jobs.get()
            if attempt is None:
                return
            self._run(attempt, me)
            if attempt.abandoned:
                return

    def _run(self, attempt: Attempt, me: int) -> None:
        ending: Ending | None
        try:
            try:
                attempt.begin()
                attempt.thread = me
                if attempt.stop is not None:
                    raise STOP_ERRORS[attempt.stop]
                args, kwargs = attempt.arguments()
                value = self._contexts.make().run(call, attempt, args, kwargs)
            finally:
                _leave(attempt, me)
            ending = attempt.success(value)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the job, not the worker
            # The interruption may have been raised inside the `finally`. There is one at most, so this call succeeds.
            _leave(attempt, me)
            ending = attempt.failure(error)
        if not attempt.abandoned:
            self._jobs.ended()
        self._reporter.put(attempt, ending)


# Held while a thread is interrupted and while one leaves its handler: the error is raised in the intended handler or
# not at all. Elsewhere it would end the thread, and its job would be held for ever.
_handover: Final = threading.Lock()


def _leave(attempt: Attempt, me: int) -> None:
    with _handover:
        attempt.thread = None
        if attempt.stop is not None:
            raise_in_thread(me, None)


def interrupt(attempt: Attempt) -> None:
    """Raise the reason to stop inside the handler, if it runs in a thread now."""
    with _handover:
        if isinstance(attempt.thread, int) and attempt.stop is not None:
            raise_in_thread(attempt.thread, STOP_ERRORS[attempt.stop])
