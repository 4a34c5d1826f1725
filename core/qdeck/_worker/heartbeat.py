"""The heartbeat: renews leases from its own thread, so that a handler that blocks the loop keeps its job."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from qdeck._engine import codec, keys, programs, transitions
from qdeck._errors import QdeckError
from qdeck._redis import Endpoint, SyncClient
from qdeck._redis.commands import with_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis.commands import Program
    from qdeck._worker.attempt import Attempt, StopReason
    from qdeck._worker.worker_queue import WorkerQueue

_log = logging.getLogger(__name__)
IDLE_PRESENCE_S: Final = 20.0
BUSY_PRESENCE_S: Final = 10.0
BEAT_SLICE: Final = 500


class Heartbeat:
    """A thread that renews leases, publishes the worker's state and reads requests to the worker."""

    def __init__(
        self,
        endpoint: Endpoint,
        queues: list[WorkerQueue[Attempt]],
        *,
        lease_ms: int,
        describe: Callable[[], dict[str, object]],
        tasks: Callable[[], list[str]],
        stop_attempt: Callable[[Attempt, StopReason], None],
        on_request: Callable[[str], None],
    ) -> None:
        # A beat that does not arrive soon is of no use: the next one sends the same.
        self._timeout = max(0.5, min(5.0, lease_ms / 3000))
        self._client = SyncClient(Endpoint(endpoint.url, timeout=self._timeout), patience=0.0)
        self._queues = queues
        self._lease_s = lease_ms / 1000
        self._describe = describe
        self._tasks = tasks
        self._stop_attempt = stop_attempt
        self._on_request = on_request
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._to_check: deque[WorkerQueue[Attempt]] = deque()  # queues to check now
        self._thread = threading.Thread(target=self._loop, name="qdeck-heartbeat", daemon=True)
        self._registered_at = 0.0
        self._was_suspended = False
        self._checked_at = self._resumed_at = 0.0
        self.started = False
        self.now_ms: Callable[[], int] = lambda: int(time.time() * 1000)

    def start(self) -> None:
        """Start the thread."""
        self.started = True
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and remove the worker from the list of workers."""
        self._ended.set()
        self._woken.set()
        self._thread.join(timeout=10)
        worker = str(self._describe()["id"])
        with contextlib.suppress(QdeckError):
            self._client.run(unregister(worker))
        self._client.close()

    def _interval(self) -> float:
        shortest = self._lease_s
        for queue in self._queues:
            for attempt in list(queue.held.values()):
                own = attempt.spec.head.lease_ms
                shortest = min(shortest, own / 1000) if own else shortest
        return shortest / 4

    def _loop(self) -> None:
        while not self._ended.is_set():
            try:
                self._beat_all()
            except Exception:  # noqa: BLE001 - logged with its traceback
                # Without this thread every lease expires: the next beat may succeed.
                _log.exception("a heartbeat failed")
            self._woken.wait(0.0 if self._was_suspended else min(self._interval(), 1.0))
            self._woken.clear()

    def _beat_all(self) -> None:
        began = time.monotonic()
        at_once = {self._to_check.popleft() for _ in range(len(self._to_check))}
        for queue in self._queues:
            self._beat(queue, queue in at_once)
        # A beat that took longer than its timeout means that this process was suspended: wait for the next one.
        self._was_suspended = time.monotonic() - began > 2 * self._timeout + 0.5
        if not self._was_suspended:
            self._stop_lost(time.monotonic())
        busy = any(queue.held for queue in self._queues)
        if time.monotonic() - self._registered_at >= (BUSY_PRESENCE_S if busy else IDLE_PRESENCE_S):
            self._publish()

    def check_now(self, queue: WorkerQueue[Attempt]) -> None:
        """Renew the leases of a queue's jobs now, from any thread; the reply names cancelled and lost ones."""
        self._to_check.append(queue)
        self._woken.set()

    def _beat(self, queue: WorkerQueue[Attempt], at_once: bool) -> None:
        # A copy, because the loop changes `held` meanwhile. Jobs claimed a moment ago need no beat yet.
        now = time.monotonic()
        attempts = [
            attempt
            for attempt in list(queue.held.values())
            if at_once or now - attempt.renewed >= self._lease_of(attempt) / 5
        ]
        for at in range(0, len(attempts), BEAT_SLICE):
            part = attempts[at : at + BEAT_SLICE]
            self._renew(queue, part)

    def check_leases(self) -> None:
        """Stop handlers whose lease was not renewed for most of its length, before others start their jobs.

        The worker's loop calls it often, because a beat may wait for its answer until the lease is over.
        """
        now = time.monotonic()
        if now - self._checked_at > max(0.3, self._lease_s / 5):
            # This process was suspended, and perhaps the server with it, as on a laptop that slept. Leases that expired
            # meanwhile have a grace period there: only a beat shows which are lost, not the clock.
            self._resumed_at = now
        self._checked_at = now
        if now - self._resumed_at > self._lease_s / 3:
            self._stop_lost(now)

    def _stop_lost(self, now: float) -> None:
        for queue in self._queues:
            for attempt in list(queue.held.values()):
                if attempt.stop is None and now - attempt.renewed > self._lease_of(attempt) * 0.85:
                    self._stop_attempt(attempt, "lost")

    def _lease_of(self, attempt: Attempt) -> float:
        own = attempt.spec.head.lease_ms
        return own / 1000 if own else self._lease_s

    def _renew(self, queue: WorkerQueue[Attempt], attempts: list[Attempt]) -> None:
        sent = time.monotonic()
        try:
            beat = self._client.run(
                programs.call(
                    transitions.renew_leases(
                        queue.name, [(attempt.claimed.id, attempt.claimed.token) for attempt in attempts]
                    )
                )
            )
        except QdeckError:
            return
        lost, cancels = set(beat.lost), set(beat.cancels)
        for attempt in attempts:
            job_id = attempt.claimed.id
            if job_id in lost:
                # A job that ended while the beat was sent is not held any more, and not lost.
                if queue.held.get(job_id) is attempt and not attempt.abandoned:
                    self._stop_attempt(attempt, "lost")
            else:
                attempt.renewed = sent
            if job_id in cancels:
                self._stop_attempt(attempt, "cancelled")

    def _publish(self) -> None:
        state = self._describe() | {"heartbeat_ms": self.now_ms()}
        try:
            request = self._client.run(
                publish(str(state["id"]), codec.encode_json(state), codec.encode_json(self._tasks()))
            )
        except QdeckError:
            return
        self._registered_at = time.monotonic()
        self._on_request(request)


def publish(worker: str, text: bytes, tasks: bytes) -> Program[str]:
    """Register a worker, and return what an operator requested of it; empty for nothing."""
    replies = yield with_errors(
        (b"HSET", keys.WORKERS, worker, text),
        (b"HGET", keys.CONTROL, worker),
        (b"HSET", keys.TASKS, worker, tasks),
        key=keys.WORKERS.encode(),
    )
    return replies[1].decode() if isinstance(replies[1], bytes) else ""


def unregister(worker: str) -> Program[None]:
    """Remove a worker from the list of workers."""
    yield with_errors(
        *((b"HDEL", key, worker) for key in (keys.WORKERS, keys.CONTROL, keys.TASKS)), key=keys.WORKERS.encode()
    )
