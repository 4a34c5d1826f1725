"""A queue whose jobs are as old as a test wants them, on a real server."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

from qdeck._engine import codec, keys, programs, transitions
from qdeck._engine.codec import BAND

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Writer

QUEUE = "demo:mail:actions"
HOUR = 3600


class Yard:
    """A queue whose jobs are as old as a test wants them."""

    def __init__(self, writer: Writer, raw: redis.Redis, queue: str = QUEUE) -> None:
        self.writer = writer
        self.raw = raw
        self.queue = queue
        self._numbers = itertools.count()

    @property
    def now_ms(self) -> int:
        """The server's clock."""
        seconds, micros = self.raw.time()
        return seconds * 1000 + micros // 1000

    def key(self, part: str) -> str:
        return keys.key(self.queue, part).decode()

    def keep_all(self) -> None:
        """Let the queue trim nothing by itself."""
        for state in ("done", "dead", "cancelled"):
            self.raw.hset(self.key("meta"), mapping={f"{state}_ttl": 10**12, f"{state}_max": 10**6})

    def ready(self, age_s: float, *, priority: int = 100, **options: Any) -> str:
        """A job that has been ready for so long."""
        job = self.writer.enqueue(self.queue, "t", [1], priority=priority, **options).id
        self.raw.zadd(self.key("ready"), {job: priority * BAND + self._since(age_s)})
        return job

    def delayed(self, overdue_s: float) -> str:
        """A job whose time came so long ago."""
        job = self.writer.enqueue(self.queue, "t", [1], delay=3600).id
        self.raw.zadd(self.key("delayed"), {job: self._since(overdue_s)})
        return job

    def running(self, expired_s: float, worker: str = "w1") -> str:
        """A job whose lease ran out so long ago."""
        job = self.writer.enqueue(self.queue, "t", [1], priority=0).id
        self._turn(worker, free_slots=1)
        self.raw.zadd(self.key("running"), {job: self._since(expired_s)})
        return job

    def ended(self, state: str, age_s: float) -> str:
        """A job that is done, dead or cancelled for so long."""
        job = self.writer.enqueue(self.queue, "t", [1], priority=0).id
        if state == "cancelled":
            self.writer.apply(self.writer.plan("cancel", self.queue, ids=[job]))
        else:
            [claimed] = self._turn("w1", free_slots=1).jobs
            event = json.dumps({"class": "Boom", "message": "x"}).encode()
            kind = "failed" if state == "dead" else "done"
            ending = transitions.Ending(kind=kind, id=job, token=claimed.token, delay_ms=-1, event=event)
            self._turn("w1", free_slots=0, endings=[ending])
        self.raw.zadd(self.key(state), {job: self._since(age_s)})
        return job

    def orphan(self, age_s: float, part: str = "head") -> str:
        """A record that belongs to no job."""
        head = codec.JobHead(enqueued_ms=0, priority=100, retries=0, task="t").template()
        job = f"{self._since(age_s) * 1000:013x}{next(self._numbers):07d}"
        self.raw.hset(self.key(part), job, f"{self._since(age_s)} {head}" if part == "head" else "[[],{}]")
        return job

    def state(self, job: str) -> str | None:
        """Return where a job is."""
        return next((found.state for found in self.writer.find(job) if found.queue == self.queue), None)

    def digest(self) -> bytes:
        """All of the server's data in one number, whatever the order in which it keeps it."""
        return bytes(self.raw.execute_command("DEBUG", "DIGEST"))

    def _since(self, age_s: float) -> int:
        return self.now_ms - round(age_s * 1000)

    def _turn(self, worker: str, **options: Any) -> transitions.PollReply:
        return self.writer.write(
            programs.call(transitions.poll(self.queue, worker, time.monotonic_ns(), lease_ms=60_000, **options))
        )
