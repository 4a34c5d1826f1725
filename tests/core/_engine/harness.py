"""A queue with a clock of its own, and short words for what a producer, a worker and an operator do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from core._engine.picture import STATES, Picture, check_rules, take_picture
from qdeck._engine import codec, keys, ops, programs
from qdeck._redis import Endpoint, SyncClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck._engine.ops import Beat, Claimed, Made, Op, Poll, Reaped
    from qdeck.admin import NewJob, Program

T = TypeVar("T")
START_MS: Final = 1_800_000_000_000
LEASE_MS: Final = 1_000
QUEUE: Final = "shop:mail:actions"
OTHER: Final = "shop:bills:actions"


class Rig:
    """The engine on one server, at a time that only tests move."""

    def __init__(self, url: str, raw: redis.Redis, queue: str = QUEUE) -> None:
        self.raw = raw
        self.url = url
        self.queue = queue
        self.now = START_MS
        self.client = SyncClient(Endpoint(url))
        self.queues = {queue}
        self._made = 0
        self._turns = 0

    def run(self, program: Program[T]) -> T:
        return self.client.run(program)

    def call(self, op: Op[T]) -> T:
        self.queues.add(op.queue)
        return self.run(programs.call(op))

    def tick(self, ms: int = 1) -> None:
        self.now += ms

    # producers

    def job(
        self,
        job_id: str = "",
        *,
        priority: int = 100,
        retries: int = 0,
        delay_ms: int | None = None,
        due_ms: int | None = None,
        unique: str = "",
        after: Sequence[str] = (),
        name: str | None = None,
        body: bytes = b"[[],{}]",
        **head: Any,
    ) -> NewJob:
        self._made += 1
        known = codec.Head(
            enqueued_ms=0,
            priority=priority,
            retries=retries,
            task=head.pop("task", "send"),
            name=unique or name,
            unique=bool(unique),
            **head,
        )
        return ops.NewJob(
            id=job_id or f"job{self._made:06d}",
            priority=priority,
            tail=known.tail(),
            body=body,
            delay_ms=delay_ms,
            due_ms=due_ms,
            unique=unique,
            after=tuple(after),
        )

    def enqueue(self, *jobs: NewJob, queue: str = "") -> list[Made]:
        return self.call(ops.enqueue(queue or self.queue, jobs, self.now))

    def add(self, job_id: str = "", *, queue: str = "", **options: Any) -> str:
        """Makes one job and gives its id."""
        return self.enqueue(self.job(job_id, **options), queue=queue)[0].id

    # workers

    def turn(self, worker: str = "w1", *, queue: str = "", number: int = 0, **options: Any) -> Poll:
        self._turns += 1
        options.setdefault("room", 0)
        options.setdefault("lease_ms", LEASE_MS)
        return self.call(ops.poll(queue or self.queue, worker, number or self._turns, now=self.now, **options))

    def claim(self, room: int = 1, worker: str = "w1", **options: Any) -> list[Claimed]:
        return self.turn(worker, room=room, **options).jobs

    def claim_one(self, worker: str = "w1", **options: Any) -> Claimed:
        [job] = self.claim(1, worker, **options)
        return job

    def ack(self, *jobs: Claimed, worker: str = "w1", **options: Any) -> Poll:
        return self.turn(worker, acks=[(job.id, job.token) for job in jobs], **options)

    def end(self, job: Claimed, kind: str = "failed", *, worker: str = "w1", queue: str = "", **options: Any) -> Poll:
        return self.turn(worker, queue=queue, endings=[ops.Ending(kind=kind, id=job.id, token=job.token, **options)])

    def bury(self, job: Claimed, **options: Any) -> Poll:
        return self.end(job, delay_ms=-1, **options)

    def work(self, job_id: str, **options: Any) -> None:
        """Claims one job, which must be this, and ends it well."""
        job = self.claim_one(**options)
        assert job.id == job_id
        self.ack(job, **options)

    def beat(self, *jobs: Claimed) -> Beat:
        return self.call(ops.beat(self.queue, [(job.id, job.token) for job in jobs], self.now))

    def reap(self, most: int = 200, **options: Any) -> Reaped:
        return self.call(ops.reap(self.queue, most, now=self.now, **options))

    def crash(self, lease_ms: int = LEASE_MS) -> list[Reaped]:
        """Lets leases run out, then the grace after them, with a sweep at the end of each."""
        self.tick(lease_ms + 1)
        first = self.reap()
        self.tick(lease_ms // 2 + 1)
        return [first, self.reap()]

    # operators

    def change(self, verb: str, *job_ids: str, seen: str = "", queue: str = "", **options: Any) -> list[str]:
        pairs = [(job_id, seen) for job_id in job_ids]
        return self.call(ops.change(queue or self.queue, verb, pairs, now=self.now, **options))

    def configure(self, **settings: str) -> None:
        self.call(ops.configure(self.queue, settings))

    def trim(self) -> int:
        return self.call(ops.trim(self.queue, self.now))

    def deliver(self, queue: str = "") -> int:
        """Empties an outbox; gives how many entries it had."""
        total = 0
        while count := self.run(programs.deliver(queue or self.queue, self.now)):
            total += count
        return total

    # looking

    def picture(self, queue: str = "") -> Picture:
        return take_picture(self.raw, queue or self.queue)

    def state(self, job_id: str, queue: str = "") -> str:
        where = self.picture(queue).states().get(job_id, ["gone"])
        assert len(where) == 1, where
        return where[0]

    def sizes(self, queue: str = "") -> dict[str, int]:
        """How many jobs are in each state that has some."""
        zsets = self.picture(queue).zsets
        return {state: len(zsets[state]) for state in STATES if zsets[state]}

    def field(self, part: str, job_id: str, queue: str = "") -> bytes | None:
        return self.picture(queue).hashes[part].get(job_id)

    def attempts(self, job_id: str) -> codec.Attempts:
        return codec.read_attempts(self.field("attempts", job_id))

    def events(self, job_id: str, queue: str = "") -> list[codec.Event]:
        return codec.read_events(self.field("error", job_id, queue))

    def total(self, name: str) -> int:
        return int(self.raw.hget(keys.key(self.queue, "meta"), f"n:{name}") or 0)

    def head(self, job_id: str, queue: str = "") -> codec.Head:
        raw = self.field("head", job_id, queue)
        assert raw is not None, f"no head of {job_id!r}"
        return codec.read_head(raw)

    def rings(self) -> bool:
        """Takes the token out of the bell; tells whether there was one."""
        return self.raw.rpop(keys.key(self.queue, "wakeup")) is not None

    def check(self) -> None:
        for queue in self.queues:
            assert not self.raw.exists(keys.undo_key(queue, "")), "undo without a batch"
        check_rules({queue: self.picture(queue) for queue in self.queues})
