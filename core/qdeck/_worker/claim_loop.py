"""The claim loop: polls one queue after another; a poll reports ended jobs and claims the next ones."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import redis

from qdeck._engine import keys, programs, transitions
from qdeck._errors import OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable
from qdeck._redis import reads
from qdeck._worker.blocking_wait import BlockingWait, WakeUps
from qdeck._worker.fair_share import FairShare

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.transitions import ClaimedJob, Transition
    from qdeck._redis import AsyncClient
    from qdeck._worker.attempt import Attempt
    from qdeck._worker.executor import Executor
    from qdeck._worker.worker_queue import WorkerQueue

T = TypeVar("T")
IDLE_S: Final = 30.0  # the longest sleep; then jobs without a wake-up are found
TRIM_S: Final = 30.0
MAX_ACKS: Final = 400
RETRY_S: Final = 1.0
LEASE_CHECK_S: Final = 5.0
ACK_DELAY_S: Final = 0.005  # how long endings wait to be reported with the next claim of their queue
WOKEN_PAUSE_S: Final = 0.02  # how long wake-ups of a queue are ignored that is polled anyway


class ClaimLoop:
    """The part of a worker that moves jobs between the server and the executor."""

    executor: Executor

    def __init__(
        self,
        client: AsyncClient,
        queues: list[WorkerQueue[Attempt]],
        worker: str,
        lease_ms: int,
        event: Callable[[dict[str, Any]], None],
    ) -> None:
        self._client = client
        self._queues = queues
        self._worker = worker
        self._lease_ms = lease_ms
        self._event = event
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        self.is_claiming = True
        self._finishing = False
        self._wait_for_wakeup = BlockingWait(client.endpoint, WakeUps())
        self._waiting: asyncio.Task[None] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._trimmed = time.monotonic()
        self._offset_ms = time.time() * 1000 - time.monotonic() * 1000
        self._rate = 0.0
        self._rated = (time.monotonic(), 0)
        self._woken_queues: list[WorkerQueue[Attempt]] = []
        self._shares = FairShare()
        self._failure: Exception | None = None
        self.on_jobs: Callable[[], None] = lambda: None  # called after each claim

    async def open(self) -> None:
        """Create the queues, so that they are listed before their first job, and read the server's clock."""
        self._offset_ms = await self._client.run(reads.clock()) - time.monotonic() * 1000
        for queue in self._queues:
            try:
                await self._client.run(programs.make_queue(queue.name))
            except ServerRefused as error:
                # Without memory the jobs of an existing queue can still run, which frees memory.
                self._event({"event": "waiting", "queue": queue.name, "error": str(error)})

    async def close(self) -> None:
        """Cancel the tasks of the loop and close its connections."""
        tasks = [*self._tasks.values(), *([self._waiting] if self._waiting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._wait_for_wakeup.close()

    def finish(self) -> None:
        """End the loop as soon as no job is held."""
        self._finishing = True
        self.wake()

    def server_ms(self) -> int:
        """Return the server's time, as of the last poll."""
        return int(time.monotonic() * 1000 + self._offset_ms)

    async def loop(self) -> None:
        """Poll until `finish` was called and all endings are reported."""
        while True:
            if self._failure is not None:
                raise self._failure
            self._woken.clear()
            now = time.monotonic()
            slots = self._free_slots(now)
            self._check_times(now)
            claimable = self._claimable(slots)
            queue = self._next_queue(now, claimable)
            if slots > 0 and any(not queue.may_have_jobs for queue in self._queues):
                self._start_waiting()
            if queue is not None:
                await self._poll(queue, self._slots_for(queue, claimable, slots))
            elif self._finishing and self.executor.count == 0:
                await self._stop_waiting()
                return
            else:
                await self._wait(now, slots)

    def _free_slots(self, now: float) -> int:
        since, count = self._rated
        if now - since > 0.005:
            rate = (self.executor.done - count) / (now - since)
            self._rate += 0.3 * (rate - self._rate)
            self._rated = now, self.executor.done
        return self.executor.free_slots(self._ends_per_poll) if self.is_claiming else 0

    @property
    def _ends_per_poll(self) -> int:
        """Return how many jobs end in two milliseconds, about the time of a poll."""
        return int(self._rate * 0.002)

    def _claimable(self, slots: int) -> list[WorkerQueue[Attempt]]:
        """Return the queues that may have jobs and can use some of the free slots."""
        found = []
        for queue in self._queues:
            if slots > 0 and queue.lacks_processes and not self.executor.usable_slots(queue, slots):
                # Its wake-ups are ignored: it is polled once it can use slots again.
                queue.may_have_jobs = queue.is_idle = True
            elif slots > 0 and queue.may_have_jobs:
                found.append(queue)
        return found

    def _slots_for(self, queue: WorkerQueue[Attempt], claimable: list[WorkerQueue[Attempt]], slots: int) -> int:
        """Return how many jobs a queue may claim. A queue that only has endings to report gets its share, too."""
        if queue not in claimable:
            return 0
        return self._shares.slots_for(queue, claimable, self.executor.usable_slots(queue, slots), self._ends_per_poll)

    def _check_times(self, now: float) -> None:
        """Mark queues whose jobs are due by now, and check for expired leases."""
        for queue in self._queues:
            if queue.jobs_due_at is not None and now >= queue.jobs_due_at:
                queue.jobs_due_at, queue.may_have_jobs = None, True
            if queue.lease_ends_at is not None and now >= queue.lease_ends_at:
                queue.lease_ends_at = None
                self._start_task("reap", queue, self._reap(queue))
            elif queue.may_have_jobs and now - queue.leases_checked_at > LEASE_CHECK_S:
                # A poll that fills all slots does not return when the leases of dead workers expire.
                queue.leases_checked_at = now
                self._start_task("reap", queue, self._reap(queue))

    def _next_queue(self, now: float, claimable: list[WorkerQueue[Attempt]]) -> WorkerQueue[Attempt] | None:
        """Return the queue to poll: one whose endings cannot wait for its claim, or the next one by weight."""
        if self._woken_queues:
            return self._woken_queues.pop()
        late: WorkerQueue[Attempt] | None = None
        for queue in self._queues:
            if (queue.acks or queue.endings) and (late is None or queue.polled_at < late.polled_at):
                late = queue
        if late is not None and (now - late.polled_at > ACK_DELAY_S or late not in claimable):
            return late
        return self._shares.choose(claimable)

    async def _poll(self, queue: WorkerQueue[Attempt], slots: int) -> None:
        acks, queue.acks = queue.acks[:MAX_ACKS], queue.acks[MAX_ACKS:]
        endings = queue.take_endings()
        queue.number += 1
        sent_at = time.monotonic()
        poll = await self._call_until_answered(
            queue,
            transitions.poll(
                queue.name,
                self._worker,
                queue.number,
                free_slots=slots,
                lease_ms=self._lease_ms,
                acks=acks,
                endings=endings,
                tasks=queue.task_report,
            ),
        )
        self._offset_ms = poll.now_ms - time.monotonic() * 1000
        queue.apply_poll(poll, slots)
        if poll.unknown or queue.tasks:
            queue.update_tasks(poll.unknown, self.executor.has_task)
        if poll.refused:
            self._event({"event": "refused", "queue": queue.name, "ids": poll.refused})
        if poll.jobs:
            queue.claimed = True
            jobs = poll.jobs
            while jobs and time.monotonic() - sent_at > self._lease_ms / 5000:
                jobs, sent_at = await self._confirm(queue, jobs)
            self.executor.take(queue, jobs, sent_at)
            self.on_jobs()
        if queue.outbox:
            self._start_task("deliver", queue, self._deliver(queue))

    async def _confirm(self, queue: WorkerQueue[Attempt], jobs: list[ClaimedJob]) -> tuple[list[ClaimedJob], float]:
        """Renew the leases of a late reply: it does not show whether they are new or nearly over."""
        sent_at = time.monotonic()
        beat = await self._call_until_answered(
            queue, transitions.renew_leases(queue.name, [(job.id, job.token) for job in jobs])
        )
        lost = set(beat.lost)
        return [job for job in jobs if job.id not in lost], sent_at

    async def _call_until_answered(self, queue: WorkerQueue[Attempt], op: Transition[T]) -> T:
        """Send an operation until it is answered; an operation that is sent twice has the effect of one."""
        while True:
            try:
                return await self._client.run(programs.call(op))
            except (OutcomeUnknown, ServerUnreachable, ServerRefused) as error:
                self._event({"event": "waiting", "queue": queue.name, "error": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _wait(self, now: float, slots: int) -> None:
        """Sleep until a job ends, a wake-up arrives, or a queue has work to do by the clock."""
        if slots > 0:
            self._start_waiting()
        if now - self._trimmed > TRIM_S and any(queue.claimed for queue in self._queues):
            self._trimmed = now
            for queue in self._queues:
                if queue.claimed:
                    queue.claimed = bool(queue.held)
                    self._start_task("trim", queue, self._trim(queue))
        times = [t for queue in self._queues for t in (queue.jobs_due_at, queue.lease_ends_at) if t is not None]
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(max(0.0, min(times) - now), self.wake) if times else None
        try:
            await self._woken.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    def _start_waiting(self) -> None:
        """Wait for wake-ups from now on, also while one queue always has jobs: the others must not wait for its end."""
        if (
            self._waiting is None
            and not self._finishing
            and any(self.executor.usable_slots(queue, 1) for queue in self._queues)
        ):
            self._waiting = asyncio.create_task(self._wait_for_tokens())

    async def _wait_for_tokens(self) -> None:
        """Wait for wake-up tokens on a connection of its own. A token means that there may be jobs."""
        # The server returns the first key that has a token: queues that are polled anyway come last.
        can_claim = (queue for queue in self._queues if self.executor.usable_slots(queue, 1))
        queues = sorted(can_claim, key=lambda queue: queue.may_have_jobs)
        keys_of_queues = {keys.key(queue.name, "wakeup"): queue for queue in queues}
        woken: list[bytes] = []
        try:
            woken = await self._wait_for_wakeup.wait(list(keys_of_queues))
        except (redis.RedisError, OSError, TimeoutError, asyncio.IncompleteReadError, QdeckError):
            await self._wait_for_wakeup.close()
            await asyncio.sleep(RETRY_S * random.uniform(0.2, 1.0))  # noqa: S311 - spreads reconnects, guards nothing
            for queue in self._queues:
                queue.may_have_jobs, queue.peeked_at = True, 0.0
        except Exception as error:  # noqa: BLE001 - raised again in the loop: without wake-ups the worker must not continue
            self._failure = error
            self.wake()
            return
        if not woken:
            now = time.monotonic()
            for queue in queues:
                if now - queue.peeked_at >= IDLE_S - 1.0:
                    queue.peeked_at = now
                    self._start_task("peek", queue, self._peek(queue))
        elif all(keys_of_queues[name].may_have_jobs for name in woken) and self._free_slots(time.monotonic()) > 0:
            # They are polled anyway, and a poll that leaves jobs writes a new token. Do not take it at once:
            await asyncio.sleep(WOKEN_PAUSE_S)
        else:
            for name in woken:
                keys_of_queues[name].may_have_jobs = True
                # Poll it next, also without a free slot: that poll writes a new token, for another worker.
                self._woken_queues.append(keys_of_queues[name])
        self._waiting = None
        self.wake()

    async def _stop_waiting(self) -> None:
        """Stop waiting, then poll without a claim: this worker may have taken a token that another needs."""
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.gather(self._waiting, return_exceptions=True)
            await self._wait_for_wakeup.close()
            # The socket closes in the loop's next step; the server must notice before the polls below.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for queue in self._queues:
            queue.number += 1
            op = transitions.poll(queue.name, self._worker, queue.number, free_slots=0, lease_ms=self._lease_ms)
            with contextlib.suppress(QdeckError):
                await self._client.run(programs.call(op))

    def _start_task(self, name: str, queue: WorkerQueue[Attempt], work: Any) -> None:
        key = f"{name} {queue.name}"
        if key in self._tasks:
            work.close()
            return
        task = self._tasks[key] = asyncio.create_task(self._report_errors(queue, work))
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _report_errors(self, queue: WorkerQueue[Attempt], work: Any) -> None:
        try:
            await work
        except QdeckError as error:
            self._event({"event": "waiting", "queue": queue.name, "error": str(error)})
            await asyncio.sleep(RETRY_S)
            queue.may_have_jobs = True
            self.wake()
        except Exception as error:  # noqa: BLE001 - raised again in the loop: no other code does this task
            self._failure = error
            self.wake()

    async def _peek(self, queue: WorkerQueue[Attempt]) -> None:
        """Find jobs that no wake-up announced. A poll would find them, too, at five times as many commands."""
        seen = await self._client.run(programs.peek(queue.name))
        now, server_ms = time.monotonic(), self.server_ms()
        if seen.due_ms:
            queue.jobs_due_at = now + max(0.0, (seen.due_ms - server_ms) / 1000)
        if seen.deadline_ms:
            queue.check_leases_at(now, max(0.0, (seen.deadline_ms - server_ms) / 1000))
        queue.may_have_jobs = queue.may_have_jobs or seen.ready > 0
        if seen.outbox:
            self._start_task("deliver", queue, self._deliver(queue))
        self.wake()

    async def _reap(self, queue: WorkerQueue[Attempt]) -> None:
        while True:
            reaped = await self._client.run(programs.call(transitions.reap(queue.name)))
            if reaped.requeued:
                queue.may_have_jobs = True
                self._event(
                    {"event": "reaped", "queue": queue.name, "requeued": reaped.requeued, "buried": reaped.buried}
                )
            if reaped.warned + reaped.requeued + reaped.buried < 200:
                break
        if reaped.deadline_ms:
            left = max(0.0, (reaped.deadline_ms - reaped.now_ms) / 1000) + 0.001
            queue.lease_ends_at = min(time.monotonic() + left, queue.lease_ends_at or float("inf"))
        self.wake()

    async def _deliver(self, queue: WorkerQueue[Attempt]) -> None:
        def report(error: str) -> None:
            self._event({"event": "quarantined", "queue": queue.name, "error": error})

        while await self._client.run(programs.deliver(queue.name, report=report)) >= programs.OUTBOX_SLICE:
            pass
        queue.may_have_jobs = True
        self.wake()

    async def _trim(self, queue: WorkerQueue[Attempt]) -> None:
        for _ in range(1000):
            if await self._client.run(programs.call(transitions.trim(queue.name))) == 0:
                return
            await asyncio.sleep(0.01)  # lets other clients in between
