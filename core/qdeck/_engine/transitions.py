"""Transitions of a queue as values: the script, the queue, the arguments, and how to read the reply."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from qdeck._engine import keys
from qdeck._engine.scripts import load
from qdeck._engine.signatures import signature_of
from qdeck._redis.commands import Request, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._engine.scripts import QueueScript
    from qdeck._redis.commands import Arg, Command

T = TypeVar("T")
SLICE: Final = 500  # jobs in one call at most: `unpack` in Lua fails from 8,000 values on
SLICE_BYTES: Final = 2 * 1024 * 1024  # of values in one call or reply, unless one job alone has more


@dataclass(frozen=True, slots=True)
class Transition(Generic[T]):
    """One atomic step on one queue."""

    script: QueueScript
    queue: str
    args: Sequence[Arg]
    read: Callable[[Any], T]
    batch: str = ""

    def command(self) -> Command:
        """Return the command that runs it."""
        return self.script.call(self.script.keys(self.queue, self.batch), self.args)

    def request(self) -> Request:
        """Return the request that runs it alone."""
        keys = self.script.keys(self.queue, self.batch)
        return Request((self.script.call(keys, self.args),), keys[0], script=self.script)


def init(queue: str) -> Transition[None]:
    """Create a queue; refuse when one of its keys holds something else."""
    script = load("init")
    return Transition(script, queue, [keys.part_type(part) for part in script.parts], lambda _: None)


class NewJob(NamedTuple):
    """A job to enqueue, as the script takes it."""

    id: str
    priority: int
    template: str
    body: bytes
    delay_ms: int | None = None
    due_ms: int | None = None
    unique: str = ""
    after: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Return whether the job is ready at once."""
        return self.delay_ms is None and self.due_ms is None and not self.unique and not self.after


class EnqueueResult(NamedTuple):
    """The result of an enqueue: the id of the job that exists now, and whether this call made it."""

    id: str
    created: bool


def enqueue(queue: str, jobs: Sequence[NewJob], now: int = 0, announced_ms: int = 0) -> Transition[list[EnqueueResult]]:
    """Make up to `SLICE` jobs in one step: all of them, or on an error none.

    Jobs that wait for jobs of other queues may have been announced there: then each such ref ends in `!` and the
    outcome that the other queue returned, and `announced_ms` is a time before that.
    """
    first = jobs[0]
    args: list[Arg]
    if all(job.is_plain and job.template == first.template for job in jobs):
        script = load("enqueue")
        args = [now, first.priority, first.template]
        for job in jobs:
            args += (job.id, job.body)
    else:
        script = load("enqueue_linked")
        args = [now, announced_ms]
        for job in jobs:
            args += _linked_args(job)

    def read(reply: Any) -> list[EnqueueResult]:
        return [
            EnqueueResult(job.id, answer == 1)
            if isinstance(answer, int)
            else EnqueueResult(text_of(answer), created=False)
            for job, answer in zip(jobs, reply[1:], strict=True)
        ]

    return Transition(script, queue, args, read)


def _linked_args(job: NewJob) -> tuple[Arg, ...]:
    delay: Arg = "" if job.delay_ms is None else job.delay_ms
    due: Arg = "" if job.due_ms is None else job.due_ms
    return (job.id, job.priority, job.template, job.body, delay, due, job.unique, " ".join(job.after))


class ClaimedJob(NamedTuple):
    """A job as a worker receives it."""

    id: str
    token: str
    head: bytes
    body: bytes
    attempts: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ended, when it left something to keep."""

    kind: str
    id: str
    token: str
    delay_ms: int = 0
    event: bytes = b"{}"
    log: bytes = b""
    result: bytes = b""
    keep_ms: int = 0


@dataclass(frozen=True, slots=True)
class PollReply:
    """The reply to a poll: the next jobs, refused endings, and when to poll again."""

    now_ms: int
    wait_ms: int
    due_ms: int
    deadline_ms: int
    outbox: int
    refused: list[str]
    jobs: list[ClaimedJob]
    unknown: bytes = b""  # tasks that some worker of the queue refused, as META lists them


CRASH_LIMIT: Final = 5
_MAY_BURY: Final = ("failed", "timeout", "crashed")
OUTAGE_LIMIT: Final = 25


def poll(
    queue: str,
    worker: str,
    number: int,
    *,
    free_slots: int,
    lease_ms: int,
    acks: Sequence[tuple[str, str]] = (),
    endings: Sequence[Ending] = (),
    crash_limit: int = CRASH_LIMIT,
    tasks: str = "",
    now: int = 0,
) -> Transition[PollReply]:
    """Report ended jobs and claim up to `free_slots` more. Sent twice with the same `number`, it is one poll.

    `tasks` has a line for each task that a worker of the queue refused: `+task` when this one has it, else `-task`.
    """
    args: list[Arg] = [now, worker, number, free_slots, lease_ms, len(acks), crash_limit, tasks]
    for pair in acks:
        args += pair
    for e in endings:
        group = signature_of(e.kind, e.event) if e.kind in _MAY_BURY else ""
        args += (e.kind, e.id, e.token, e.delay_ms, e.event, e.log, e.result, e.keep_ms, group)
    token = f"{worker}:{number} "

    def read(reply: Any) -> PollReply:
        at, wait, due, deadline, outbox, refused, rows, unknown = reply
        jobs = [
            ClaimedJob(text_of(rows[i]), token, rows[i + 1], rows[i + 2] or b"", rows[i + 3])
            for i in range(0, len(rows), 4)
            if rows[i + 1] is not None
        ]
        return PollReply(at, wait, due, deadline, outbox, [text_of(raw) for raw in refused], jobs, unknown)

    return Transition(load("poll"), queue, args, read)


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The reply to a heartbeat."""

    now_ms: int
    lost: list[str]
    cancels: list[str]


def renew_leases(queue: str, held: Sequence[tuple[str, str]], now: int = 0) -> Transition[HeartbeatReply]:
    """Renew leases, given as pairs of id and token."""
    args: list[Arg] = [now]
    for pair in held:
        args += pair
    return Transition(
        load("heartbeat"), queue, args, lambda r: HeartbeatReply(r[0], [*map(text_of, r[1])], [*map(text_of, r[2])])
    )


@dataclass(frozen=True, slots=True)
class ReapReply:
    """The result of a sweep over expired leases."""

    now_ms: int
    warned: int
    requeued: int
    buried: int
    deadline_ms: int


def reap(
    queue: str,
    most: int = 200,
    crash_limit: int = CRASH_LIMIT,
    outage_limit: int = OUTAGE_LIMIT,
    now: int = 0,
) -> Transition[ReapReply]:
    """Requeue up to `most` jobs whose lease expired."""
    return Transition(load("reap"), queue, [now, most, crash_limit, outage_limit], lambda r: ReapReply(*r))


def release_dependents(queue: str, job_id: str, outcome: str, now: int = 0, batch: str = "") -> Transition[str]:
    """Release the next slice of the jobs that wait for an ended job; record them for the undo of a `batch`."""
    return Transition(load("dependents"), queue, [now, 0, "release", job_id, outcome], _word, batch)


def resolve_dependent(
    queue: str, child: str, ref: str, outcome: str, now: int = 0, batch: str = "", read_ms: int = 0
) -> Transition[str]:
    """Report to a job that a parent in another queue has ended; record it for the undo of a `batch`."""
    return Transition(load("dependents"), queue, [now, read_ms, "resolve", child, ref, outcome], _word, batch)


def watch_parents(
    queue: str, pairs: Sequence[tuple[str, str]], now: int = 0, read_ms: int = 0
) -> Transition[list[str]]:
    """Register jobs of other queues with the parents in this one, as pairs of parent and waiting job.

    The reply has the outcome of each parent: `live` when it has not ended, `unknown` when it does not exist.
    """
    args: list[Arg] = [now, read_ms, "watch", *(word for pair in pairs for word in pair)]
    return Transition(load("dependents"), queue, args, lambda reply: [word.decode() for word in reply])


def quarantine(queue: str, entry_id: bytes, reason: str, now: int = 0) -> Transition[bool]:
    """Move an outbox entry that cannot be read to quarantine; return False when it is gone."""
    return Transition(load("quarantine"), queue, [now, entry_id, reason.encode(errors="backslashreplace")], bool)


def _word(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def change_jobs(
    queue: str,
    verb: str,
    jobs: Sequence[tuple[str, str]],
    *,
    event: bytes = b"{}",
    priority: int | None = None,
    now: int = 0,
) -> Transition[list[str]]:
    """Apply a verb to single jobs, given as pairs of id and expected state (or an empty text). No undo is kept.

    The reply has for each job `ok`, `requested` (it runs: its worker ends it), or the code and data of why it was
    skipped. Plans use `apply_slice` instead.
    """
    extra: Arg = "" if priority is None else priority
    args: list[Arg] = [now, verb, "*", "", 0, 0, event, extra, 0, ""]
    for pair in jobs:
        args += pair

    def read(reply: Any) -> list[str]:
        words = ["ok"] * reply[1]
        for at in range(6, len(reply), 2):
            words[reply[at]] = reply[at + 1].decode()
        return words

    return Transition(load("apply"), queue, args, read)


def trim(queue: str, now: int = 0) -> Transition[int]:
    """Drop one slice of ended jobs beyond their age or number."""
    return Transition(load("trim"), queue, [now], lambda reply: int(reply[1]))


def configure(queue: str, settings: dict[str, str], *, expected: tuple[str, Arg] = ("", "")) -> Transition[bool]:
    """Set settings of a queue; an empty value removes one. With `expected`, only where that setting has that value."""
    args = [*expected, *chain.from_iterable(settings.items())]
    return Transition(load("configure"), queue, args, bool)
