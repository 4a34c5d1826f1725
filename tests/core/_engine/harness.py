"""A queue with a clock of its own, and short words for what a producer, a worker and an operator do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from core._engine.picture import STATES, Picture, check_rules, take_picture
from qdeck._engine import batch_transitions, codec, keys, programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck._redis import Endpoint, SyncClient

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck._engine.batch_transitions import SliceResult
    from qdeck._engine.transitions import ClaimedJob, EnqueueResult, HeartbeatReply, PollReply, ReapReply, Transition
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

    def call(self, op: Transition[T]) -> T:
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
        known = codec.JobHead(
            enqueued_ms=0,
            priority=priority,
            retries=retries,
            task=head.pop("task", "send"),
            name=unique or name,
            unique=bool(unique),
            **head,
        )
        return transitions.NewJob(
            id=job_id or f"job{self._made:06d}",
            priority=priority,
            template=known.template(),
            body=body,
            delay_ms=delay_ms,
            due_ms=due_ms,
            unique=unique,
            after=tuple(after),
        )

    def enqueue(self, *jobs: NewJob, queue: str = "") -> list[EnqueueResult]:
        return self.call(transitions.enqueue(queue or self.queue, jobs, self.now))

    def add(self, job_id: str = "", *, queue: str = "", **options: Any) -> str:
        """Makes one job and gives its id."""
        return self.enqueue(self.job(job_id, **options), queue=queue)[0].id

    # workers

    def poll(self, worker: str = "w1", *, queue: str = "", number: int = 0, **options: Any) -> PollReply:
        self._turns += 1
        options.setdefault("free_slots", 0)
        options.setdefault("lease_ms", LEASE_MS)
        return self.call(transitions.poll(queue or self.queue, worker, number or self._turns, now=self.now, **options))

    def claim(self, free_slots: int = 1, worker: str = "w1", **options: Any) -> list[ClaimedJob]:
        return self.poll(worker, free_slots=free_slots, **options).jobs

    def claim_one(self, worker: str = "w1", **options: Any) -> ClaimedJob:
        [job] = self.claim(1, worker, **options)
        return job

    def ack(self, *jobs: ClaimedJob, worker: str = "w1", **options: Any) -> PollReply:
        return self.poll(worker, acks=[(job.id, job.token) for job in jobs], **options)

    def end(
        self, job: ClaimedJob, kind: str = "failed", *, worker: str = "w1", queue: str = "", **options: Any
    ) -> PollReply:
        return self.poll(
            worker, queue=queue, endings=[transitions.Ending(kind=kind, id=job.id, token=job.token, **options)]
        )

    def bury(self, job: ClaimedJob, **options: Any) -> PollReply:
        return self.end(job, delay_ms=-1, **options)

    def work(self, job_id: str, **options: Any) -> None:
        """Claims one job, which must be this, and ends it well."""
        job = self.claim_one(**options)
        assert job.id == job_id
        self.ack(job, **options)

    def beat(self, *jobs: ClaimedJob) -> HeartbeatReply:
        return self.call(transitions.renew_leases(self.queue, [(job.id, job.token) for job in jobs], self.now))

    def reap(self, most: int = 200, **options: Any) -> ReapReply:
        return self.call(transitions.reap(self.queue, most, now=self.now, **options))

    def crash(self, lease_ms: int = LEASE_MS) -> list[ReapReply]:
        """Lets leases run out, then the grace after them, with a sweep at the end of each."""
        self.tick(lease_ms + 1)
        first = self.reap()
        self.tick(lease_ms // 2 + 1)
        return [first, self.reap()]

    # operators

    def change(self, verb: str, *job_ids: str, seen: str = "", queue: str = "", **options: Any) -> list[str]:
        pairs = [(job_id, seen) for job_id in job_ids]
        return self.call(transitions.change_jobs(queue or self.queue, verb, pairs, now=self.now, **options))

    def slice(self, verb: str, state: str, *entries: tuple[str, str], **options: Any) -> Transition[SliceResult]:
        """A slice of a plan, of jobs with their versions."""
        known: dict[str, Any] = {
            "queue": self.queue,
            "batch": new_id(),
            "offset": 0,
            "event": b"{}",
            "now": self.now,
        } | options
        return batch_transitions.apply_slice(known.pop("queue"), verb, state, entries, **known)

    def act(self, verb: str, state: str, *job_ids: str, queue: str = "", **options: Any) -> SliceResult:
        """Acts on these jobs as a plan does, as they are now."""
        where = queue or self.queue
        entries = [(job_id, f"{self.raw.zscore(keys.key(where, state), job_id) or 0:.0f}") for job_id in job_ids]
        return self.call(self.slice(verb, state, *entries, queue=where, **options))

    def configure(self, **settings: str) -> None:
        self.call(transitions.configure(self.queue, settings))

    def trim(self) -> int:
        return self.call(transitions.trim(self.queue, self.now))

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

    def head(self, job_id: str, queue: str = "") -> codec.JobHead:
        raw = self.field("head", job_id, queue)
        assert raw is not None, f"no head of {job_id!r}"
        return codec.read_head(raw)

    def rings(self) -> bool:
        """Take the wake-up token; return whether there was one."""
        return self.raw.rpop(keys.key(self.queue, "wakeup")) is not None

    def check(self) -> None:
        for queue in self.queues:
            assert not self.raw.exists(keys.undo_key(queue, "")), "undo without a batch"
        check_rules({queue: self.picture(queue) for queue in self.queues})
