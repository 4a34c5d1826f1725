"""The pump: one poll after another, without timers. What ended and what is next go over in one call."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

import redis

from qdeck._engine import keys, ops, programs
from qdeck._errors import OutcomeUnknown, QdeckError, ServerRefused, ServerUnreachable
from qdeck._redis import reads
from qdeck._worker.ears import Ear, Tokens
from qdeck._worker.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.ops import Claimed, Op
    from qdeck._redis import AsyncClient
    from qdeck._worker.hands import Hands
    from qdeck._worker.lane import Lane
    from qdeck._worker.run import Run

T = TypeVar("T")
IDLE_S: Final = 30.0  # the longest sleep: what no bell told is found then
TRIM_S: Final = 30.0
MOST_ENDS: Final = 400
RETRY_S: Final = 1.0
LOOK_S: Final = 5.0
LATE_S: Final = 0.005  # how long ends wait for the next claim of their queue, to be reported with it
BUSY_S: Final = 0.02  # how long a bell is not listened to whose queue is being worked on


class Pump:
    """Moves jobs between the server and the hands of one worker."""

    hands: Hands

    def __init__(
        self,
        client: AsyncClient,
        lanes: list[Lane[Run]],
        worker: str,
        lease_ms: int,
        event: Callable[[dict[str, Any]], None],
    ) -> None:
        self._client = client
        self._lanes = lanes
        self._worker = worker
        self._lease_ms = lease_ms
        self._event = event
        self._stirred = asyncio.Event()
        self.stir = self._stirred.set
        self.claims = True
        self._finishing = False
        self._ear = Ear(client.endpoint, Tokens())
        self._listening: asyncio.Task[None] | None = None
        self._chores: dict[str, asyncio.Task[None]] = {}
        self._trimmed = time.monotonic()
        self._offset_ms = time.time() * 1000 - time.monotonic() * 1000
        self._rate = 0.0
        self._rated = (time.monotonic(), 0)
        self._rung: list[Lane[Run]] = []
        self._shares = Shares()
        self._failure: Exception | None = None
        self.on_jobs: Callable[[], None] = lambda: None  # called when jobs were claimed

    async def open(self) -> None:
        """Makes the queues, so that they are seen before their first job, and asks what time it is there."""
        self._offset_ms = await self._client.run(reads.clock()) - time.monotonic() * 1000
        for lane in self._lanes:
            try:
                await self._client.run(programs.make_queue(lane.queue))
            except ServerRefused as error:
                # Without memory a queue that is there can still be worked off, and that is what helps then.
                self._event({"event": "waiting", "queue": lane.queue, "error": str(error)})

    async def close(self) -> None:
        """Ends what listens and what is under way."""
        tasks = [*self._chores.values(), *([self._listening] if self._listening else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._ear.close()

    def finish(self) -> None:
        """Lets the loop end when nothing is left in hand."""
        self._finishing = True
        self.stir()

    def server_ms(self) -> int:
        """The server's clock, as far as the last poll told."""
        return int(time.monotonic() * 1000 + self._offset_ms)

    async def loop(self) -> None:
        """Takes polls until `finish` was called and all is told."""
        while True:
            if self._failure is not None:
                raise self._failure
            self._stirred.clear()
            now = time.monotonic()
            room = self._room(now)
            self._look_at_clock(now)
            claimers = self._claimers(room)
            lane = self._next_lane(now, claimers)
            if room > 0 and any(not lane.hungry for lane in self._lanes):
                self._prick_up()
            if lane is not None:
                await self._poll(lane, self._part(lane, claimers, room))
            elif self._finishing and self.hands.count == 0:
                await self._stop_listening()
                return
            else:
                await self._wait(now, room)

    def _room(self, now: float) -> int:
        since, count = self._rated
        if now - since > 0.005:
            rate = (self.hands.done - count) / (now - since)
            self._rate += 0.3 * (rate - self._rate)
            self._rated = now, self.hands.done
        return self.hands.room(self._quick) if self.claims else 0

    @property
    def _quick(self) -> int:
        """How many jobs end in two milliseconds, about the time of a poll."""
        return int(self._rate * 0.002)

    def _claimers(self, room: int) -> list[Lane[Run]]:
        """The queues that may have work and can use some of the room."""
        found = []
        for lane in self._lanes:
            if room > 0 and lane.crowded and not self.hands.most_of(lane, room):
                # Its wake-ups are not listened to: it is polled once it can use room again.
                lane.hungry = lane.rests = True
            elif room > 0 and lane.hungry:
                found.append(lane)
        return found

    def _part(self, lane: Lane[Run], claimers: list[Lane[Run]], room: int) -> int:
        """How many jobs a queue that is polled may claim. A queue that has ends to report gets its share, too."""
        if lane not in claimers:
            return 0
        return self._shares.part(lane, claimers, self.hands.most_of(lane, room), self._quick)

    def _look_at_clock(self, now: float) -> None:
        """Note which queues have work by now, and look for leases that ran out."""
        for lane in self._lanes:
            if lane.due is not None and now >= lane.due:
                lane.due, lane.hungry = None, True
            if lane.deadline is not None and now >= lane.deadline:
                lane.deadline = None
                self._do("reap", lane, self._reap(lane))
            elif lane.hungry and now - lane.looked > LOOK_S:
                # While there is always more to claim, no poll tells when leases run out: those of a dead worker.
                lane.looked = now
                self._do("reap", lane, self._reap(lane))

    def _next_lane(self, now: float, claimers: list[Lane[Run]]) -> Lane[Run] | None:
        """The queue to poll: one with ends that cannot wait for its claim, or the one that comes next by its weight."""
        if self._rung:
            return self._rung.pop()
        late: Lane[Run] | None = None
        for lane in self._lanes:
            if (lane.acks or lane.endings) and (late is None or lane.turned < late.turned):
                late = lane
        if late is not None and (now - late.turned > LATE_S or late not in claimers):
            return late
        return self._shares.choose(claimers)

    async def _poll(self, lane: Lane[Run], room: int) -> None:
        acks, lane.acks = lane.acks[:MOST_ENDS], lane.acks[MOST_ENDS:]
        endings = lane.take_endings()
        lane.number += 1
        asked = time.monotonic()
        poll = await self._insist(
            lane,
            ops.poll(
                lane.queue,
                self._worker,
                lane.number,
                room=room,
                lease_ms=self._lease_ms,
                acks=acks,
                endings=endings,
                tasks=lane.told_tasks,
            ),
        )
        self._offset_ms = poll.now_ms - time.monotonic() * 1000
        lane.settle(poll, room)
        if poll.unknown or lane.tasks:
            lane.learn(poll.unknown, self.hands.knows)
        if poll.refused:
            self._event({"event": "refused", "queue": lane.queue, "ids": poll.refused})
        if poll.jobs:
            lane.claimed = True
            jobs = poll.jobs
            while jobs and time.monotonic() - asked > self._lease_ms / 5000:
                jobs, asked = await self._confirm(lane, jobs)
            self.hands.take(lane, jobs, asked)
            self.on_jobs()
        if lane.outbox:
            self._do("deliver", lane, self._deliver(lane))

    async def _confirm(self, lane: Lane[Run], jobs: list[Claimed]) -> tuple[list[Claimed], float]:
        """Renews what a late answer brought: it does not tell whether the leases are new or nearly over."""
        asked = time.monotonic()
        beat = await self._insist(lane, ops.beat(lane.queue, [(job.id, job.token) for job in jobs]))
        lost = set(beat.lost)
        return [job for job in jobs if job.id not in lost], asked

    async def _insist(self, lane: Lane[Run], op: Op[T]) -> T:
        """Sends a step until it is answered; sent again it has the effect of one."""
        while True:
            try:
                return await self._client.run(programs.call(op))
            except (OutcomeUnknown, ServerUnreachable, ServerRefused) as error:
                self._event({"event": "waiting", "queue": lane.queue, "error": str(error)})
                await asyncio.sleep(RETRY_S)

    async def _wait(self, now: float, room: int) -> None:
        """Sleeps until something ended, a bell rang, or a time came."""
        if room > 0:
            self._prick_up()
        if now - self._trimmed > TRIM_S and any(lane.claimed for lane in self._lanes):
            self._trimmed = now
            for lane in self._lanes:
                if lane.claimed:
                    lane.claimed = bool(lane.held)
                    self._do("trim", lane, self._trim(lane))
        times = [t for lane in self._lanes for t in (lane.due, lane.deadline) if t is not None]
        loop = asyncio.get_running_loop()
        alarm = loop.call_later(max(0.0, min(times) - now), self.stir) if times else None
        try:
            await self._stirred.wait()
        finally:
            if alarm is not None:
                alarm.cancel()

    def _prick_up(self) -> None:
        """Listens from now on, also while one queue always has work: the others are not to wait for its end."""
        if self._listening is None and not self._finishing and any(self.hands.most_of(lane, 1) for lane in self._lanes):
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Waits for bells, on connections of its own. A ring means that there may be work."""
        # The server answers with the first that rings: those of queues that are worked on anyway come last.
        can_claim = (lane for lane in self._lanes if self.hands.most_of(lane, 1))
        lanes = sorted(can_claim, key=lambda lane: lane.hungry)
        bells = {keys.key(lane.queue, "wakeup"): lane for lane in lanes}
        rung: list[bytes] = []
        try:
            rung = await self._ear.hear(list(bells))
        except (redis.RedisError, OSError, TimeoutError, asyncio.IncompleteReadError, QdeckError):
            await self._ear.close()
            await asyncio.sleep(RETRY_S * random.uniform(0.2, 1.0))  # noqa: S311 - spreads reconnects, guards nothing
            for lane in self._lanes:
                lane.hungry, lane.peeked = True, 0.0
        except Exception as error:  # noqa: BLE001 - raised again in the loop: a worker that hears no bell must not go on
            self._failure = error
            self.stir()
            return
        if not rung:
            now = time.monotonic()
            for lane in lanes:
                if now - lane.peeked >= IDLE_S - 1.0:
                    lane.peeked = now
                    self._do("peek", lane, self._peek(lane))
        elif all(bells[name].hungry for name in rung) and self._room(time.monotonic()) > 0:
            # Their polls come anyway, and ring again where work is left. Not to hear the same bells at once again:
            await asyncio.sleep(BUSY_S)
        else:
            for name in rung:
                bells[name].hungry = True
                # Its poll comes next, also when there is no room by then: that poll rings again, for another worker.
                self._rung.append(bells[name])
        self._listening = None
        self.stir()

    async def _stop_listening(self) -> None:
        """Hangs up, then rings where there is work: the last ring may have come to this worker, which is leaving."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            await self._ear.close()
            # The socket closes in the loop's next step; the server must see that before what follows.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        for lane in self._lanes:
            lane.number += 1
            op = ops.poll(lane.queue, self._worker, lane.number, room=0, lease_ms=self._lease_ms)
            with contextlib.suppress(QdeckError):
                await self._client.run(programs.call(op))

    def _do(self, name: str, lane: Lane[Run], chore: Any) -> None:
        key = f"{name} {lane.queue}"
        if key in self._chores:
            chore.close()
            return
        task = self._chores[key] = asyncio.create_task(self._quietly(lane, chore))
        task.add_done_callback(lambda _: self._chores.pop(key, None))

    async def _quietly(self, lane: Lane[Run], chore: Any) -> None:
        try:
            await chore
        except QdeckError as error:
            self._event({"event": "waiting", "queue": lane.queue, "error": str(error)})
            await asyncio.sleep(RETRY_S)
            lane.hungry = True
            self.stir()
        except Exception as error:  # noqa: BLE001 - raised again in the loop: what is not done here is done nowhere
            self._failure = error
            self.stir()

    async def _peek(self, lane: Lane[Run]) -> None:
        """Finds what no bell told. A poll would do, and costs five times as many commands."""
        seen = await self._client.run(programs.peek(lane.queue))
        now, server_ms = time.monotonic(), self.server_ms()
        if seen.due_ms:
            lane.due = now + max(0.0, (seen.due_ms - server_ms) / 1000)
        if seen.deadline_ms:
            lane.expect(now, max(0.0, (seen.deadline_ms - server_ms) / 1000))
        lane.hungry = lane.hungry or seen.ready > 0
        if seen.outbox:
            self._do("deliver", lane, self._deliver(lane))
        self.stir()

    async def _reap(self, lane: Lane[Run]) -> None:
        while True:
            reaped = await self._client.run(programs.call(ops.reap(lane.queue)))
            if reaped.back:
                lane.hungry = True
                self._event({"event": "reaped", "queue": lane.queue, "requeued": reaped.back, "buried": reaped.buried})
            if reaped.warned + reaped.back + reaped.buried < 200:
                break
        if reaped.deadline_ms:
            left = max(0.0, (reaped.deadline_ms - reaped.now_ms) / 1000) + 0.001
            lane.deadline = min(time.monotonic() + left, lane.deadline or float("inf"))
        self.stir()

    async def _deliver(self, lane: Lane[Run]) -> None:
        def report(why: str) -> None:
            self._event({"event": "quarantined", "queue": lane.queue, "error": why})

        while await self._client.run(programs.deliver(lane.queue, report=report)) >= programs.OUTBOX_SLICE:
            pass
        lane.hungry = True
        self.stir()

    async def _trim(self, lane: Lane[Run]) -> None:
        for _ in range(1000):
            if await self._client.run(programs.call(ops.trim(lane.queue))) == 0:
                return
            await asyncio.sleep(0.01)  # others get the server in between
