"""Renews leases from a thread of its own, so that a handler that blocks the loop does not lose its job."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from qdeck._engine import codec, keys, ops, programs
from qdeck._errors import QdeckError
from qdeck._redis import Endpoint, SyncClient
from qdeck._redis.commands import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis.commands import Program
    from qdeck._worker.lane import Lane
    from qdeck._worker.run import Run, StopReason

_log = logging.getLogger(__name__)
IDLE_PRESENCE_S: Final = 20.0
BUSY_PRESENCE_S: Final = 10.0
BEAT_SLICE: Final = 500


class Heartbeat:
    """Beats for all that a worker holds, says that the worker is there, and hears what it is asked to do."""

    def __init__(
        self,
        endpoint: Endpoint,
        lanes: list[Lane[Run]],
        *,
        lease_ms: int,
        describe: Callable[[], dict[str, object]],
        tasks: Callable[[], list[str]],
        stop_run: Callable[[Run, StopReason], None],
        obey: Callable[[str], None],
    ) -> None:
        # A beat that does not get through soon is of no use: the next one says the same.
        self._timeout = max(0.5, min(5.0, lease_ms / 3000))
        self._client = SyncClient(Endpoint(endpoint.url, timeout=self._timeout), patience=0.0)
        self._lanes = lanes
        self._lease_s = lease_ms / 1000
        self._describe = describe
        self._tasks = tasks
        self._stop_run = stop_run
        self._obey = obey
        self._ended = threading.Event()
        self._woken = threading.Event()
        self._asked: deque[Lane[Run]] = deque()  # queues to look at now
        self._thread = threading.Thread(target=self._loop, name="qdeck-heartbeat", daemon=True)
        self._told = 0.0
        self._held_up = False
        self._watched = self._woke = 0.0
        self.started = False
        self.now_ms: Callable[[], int] = lambda: int(time.time() * 1000)

    def start(self) -> None:
        """Starts to beat."""
        self.started = True
        self._thread.start()

    def stop(self) -> None:
        """Stops, and takes the worker's name off the list."""
        self._ended.set()
        self._woken.set()
        self._thread.join(timeout=10)
        worker = str(self._describe()["id"])
        with contextlib.suppress(QdeckError):
            self._client.run(_leave(worker))
        self._client.close()

    def _pause(self) -> float:
        shortest = self._lease_s
        for lane in self._lanes:
            for run in list(lane.held.values()):
                own = run.plan.head.lease_ms
                shortest = min(shortest, own / 1000) if own else shortest
        return shortest / 4

    def _loop(self) -> None:
        while not self._ended.is_set():
            try:
                self._once()
            except Exception:  # noqa: BLE001 - logged with its traceback
                # Without this thread every lease runs out: the next beat may go better.
                _log.exception("a heartbeat failed")
            self._woken.wait(0.0 if self._held_up else min(self._pause(), 1.0))
            self._woken.clear()

    def _once(self) -> None:
        began = time.monotonic()
        asked = {self._asked.popleft() for _ in range(len(self._asked))}
        for lane in self._lanes:
            self._beat(lane, lane in asked)
        # A beat that took longer than it may have was held up by a stop of this process: the next one tells.
        self._held_up = time.monotonic() - began > 2 * self._timeout + 0.5
        if not self._held_up:
            self._judge(time.monotonic())
        busy = any(lane.held for lane in self._lanes)
        if time.monotonic() - self._told >= (BUSY_PRESENCE_S if busy else IDLE_PRESENCE_S):
            self._tell()

    def look(self, lane: Lane[Run]) -> None:
        """Ask at once what became of the jobs of a queue; from any thread."""
        self._asked.append(lane)
        self._woken.set()

    def _beat(self, lane: Lane[Run], at_once: bool) -> None:
        # A copy, because the loop takes jobs in and out meanwhile. Jobs claimed a moment ago need no beat yet.
        now = time.monotonic()
        runs = [run for run in list(lane.held.values()) if at_once or now - run.renewed >= self._length(run) / 5]
        for at in range(0, len(runs), BEAT_SLICE):
            part = runs[at : at + BEAT_SLICE]
            self._renew(lane, part)

    def watch(self) -> None:
        """Tells handlers for whom nothing got through for nearly the whole lease: they must know before others start.

        The worker's loop calls it often, because a beat may wait for its answer until the lease is over.
        """
        now = time.monotonic()
        if now - self._watched > max(0.3, self._lease_s / 5):
            # This process was stopped, and perhaps the server with it, as on a laptop that slept. Leases that ran out
            # meanwhile have a time of grace there: a beat must tell what became of them, not the clock.
            self._woke = now
        self._watched = now
        if now - self._woke > self._lease_s / 3:
            self._judge(now)

    def _judge(self, now: float) -> None:
        for lane in self._lanes:
            for run in list(lane.held.values()):
                if run.stop is None and now - run.renewed > self._length(run) * 0.85:
                    self._stop_run(run, "lost")

    def _length(self, run: Run) -> float:
        own = run.plan.head.lease_ms
        return own / 1000 if own else self._lease_s

    def _renew(self, lane: Lane[Run], runs: list[Run]) -> None:
        sent = time.monotonic()
        try:
            beat = self._client.run(
                programs.call(ops.beat(lane.queue, [(run.claimed.id, run.claimed.token) for run in runs]))
            )
        except QdeckError:
            return
        lost, cancels = set(beat.lost), set(beat.cancels)
        for run in runs:
            job_id = run.claimed.id
            if job_id in lost:
                # A job that ended while the beat was under way is not in hand any more, and not lost.
                if lane.held.get(job_id) is run and not run.abandoned:
                    self._stop_run(run, "lost")
            else:
                run.renewed = sent
            if job_id in cancels:
                self._stop_run(run, "cancelled")

    def _tell(self) -> None:
        described = self._describe() | {"heartbeat_ms": self.now_ms()}
        try:
            word = self._client.run(
                _tell(str(described["id"]), codec.encode_json(described), codec.encode_json(self._tasks()))
            )
        except QdeckError:
            return
        self._told = time.monotonic()
        if word:
            self._obey(word)


def _tell(worker: str, text: bytes, tasks: bytes) -> Program[str]:
    replies = yield ask(
        (b"HSET", keys.WORKERS, worker, text),
        (b"HGET", keys.CONTROL, worker),
        (b"HSET", keys.TASKS, worker, tasks),
        key=keys.WORKERS.encode(),
    )
    return replies[1].decode() if isinstance(replies[1], bytes) else ""


def _leave(worker: str) -> Program[None]:
    yield ask(*((b"HDEL", key, worker) for key in (keys.WORKERS, keys.CONTROL, keys.TASKS)), key=keys.WORKERS.encode())
