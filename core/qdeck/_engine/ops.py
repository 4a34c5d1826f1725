"""Transitions of a queue as values: which script, on which queue, with which arguments, and how to read the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from qdeck._engine import keys
from qdeck._engine.scripts import load
from qdeck._engine.shapes import group_of
from qdeck._redis.commands import Request, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._engine.scripts import QueueScript
    from qdeck._redis.commands import Arg, Command

T = TypeVar("T")
SLICE: Final = 500  # jobs in one call at most: `unpack` in Lua fails from 8,000 values on
SLICE_BYTES: Final = 2 * 1024 * 1024  # of values in one call or reply, unless one job alone has more


@dataclass(frozen=True, slots=True)
class Op(Generic[T]):
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


def init(queue: str) -> Op[None]:
    """Makes a queue ready for use; refuses when something else has one of its keys."""
    script = load("init")
    return Op(script, queue, [keys.part_type(part) for part in script.parts], lambda _: None)


class NewJob(NamedTuple):
    """A job to be made, as the script wants it."""

    id: str
    priority: int
    tail: str
    body: bytes
    delay_ms: int | None = None
    due_ms: int | None = None
    unique: str = ""
    after: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it only has to wait until it is next."""
        return self.delay_ms is None and self.due_ms is None and not self.unique and not self.after


class Made(NamedTuple):
    """What became of an enqueue: the id of the job that is there now, and whether this call made it."""

    id: str
    created: bool


def enqueue(queue: str, jobs: Sequence[NewJob], now: int = 0, announced_ms: int = 0) -> Op[list[Made]]:
    """Makes up to `SLICE` jobs in one step: all of them, or on an error none.

    Jobs that wait for jobs of other queues may have been announced there: then each such ref ends in `!` and what the
    other queue answered, and `announced_ms` is a time before that.
    """
    first = jobs[0]
    args: list[Arg]
    if all(job.is_plain and job.tail == first.tail for job in jobs):
        script = load("enqueue")
        args = [now, first.priority, first.tail]
        for job in jobs:
            args += (job.id, job.body)
    else:
        script = load("enqueue_linked")
        args = [now, announced_ms]
        for job in jobs:
            args += _linked_args(job)

    def read(reply: Any) -> list[Made]:
        return [
            Made(job.id, answer == 1) if isinstance(answer, int) else Made(text_of(answer), created=False)
            for job, answer in zip(jobs, reply[1:], strict=True)
        ]

    return Op(script, queue, args, read)


def _linked_args(job: NewJob) -> tuple[Arg, ...]:
    delay: Arg = "" if job.delay_ms is None else job.delay_ms
    due: Arg = "" if job.due_ms is None else job.due_ms
    return (job.id, job.priority, job.tail, job.body, delay, due, job.unique, " ".join(job.after))


class Claimed(NamedTuple):
    """A job as a worker gets it."""

    id: str
    token: str
    head: bytes
    body: bytes
    attempts: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended, when it left something to keep."""

    kind: str
    id: str
    token: str
    delay_ms: int = 0
    event: bytes = b"{}"
    log: bytes = b""
    result: bytes = b""
    keep_ms: int = 0


@dataclass(frozen=True, slots=True)
class Poll:
    """The answer to a poll: the next jobs, what was not ours any more, and when to look again."""

    now_ms: int
    wait_ms: int
    due_ms: int
    deadline_ms: int
    outbox: int
    refused: list[str]
    jobs: list[Claimed]
    unknown: bytes = b""  # tasks that some worker of the queue refused, as META has them


CRASH_LIMIT: Final = 5
_MAY_BURY: Final = ("failed", "timeout", "crashed")
OUTAGE_LIMIT: Final = 25


def poll(
    queue: str,
    worker: str,
    number: int,
    *,
    room: int,
    lease_ms: int,
    acks: Sequence[tuple[str, str]] = (),
    endings: Sequence[Ending] = (),
    crash_limit: int = CRASH_LIMIT,
    tasks: str = "",
    now: int = 0,
) -> Op[Poll]:
    """A worker's poll: acknowledges what ended and claims up to `room` jobs. `number` makes it one when sent twice.

    `tasks` has a line for each task that a worker of the queue refused: `+task` when this one knows it, else `-task`.
    """
    args: list[Arg] = [now, worker, number, room, lease_ms, len(acks), crash_limit, tasks]
    for pair in acks:
        args += pair
    for e in endings:
        group = group_of(e.kind, e.event) if e.kind in _MAY_BURY else ""
        args += (e.kind, e.id, e.token, e.delay_ms, e.event, e.log, e.result, e.keep_ms, group)
    token = f"{worker}:{number} "

    def read(reply: Any) -> Poll:
        at, wait, due, deadline, outbox, refused, rows, unknown = reply
        jobs = [
            Claimed(text_of(rows[i]), token, rows[i + 1], rows[i + 2] or b"", rows[i + 3])
            for i in range(0, len(rows), 4)
            if rows[i + 1] is not None
        ]
        return Poll(at, wait, due, deadline, outbox, [text_of(raw) for raw in refused], jobs, unknown)

    return Op(load("poll"), queue, args, read)


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    now_ms: int
    lost: list[str]
    cancels: list[str]


def beat(queue: str, held: Sequence[tuple[str, str]], now: int = 0) -> Op[Beat]:
    """Renews leases, given as pairs of id and token."""
    args: list[Arg] = [now]
    for pair in held:
        args += pair
    return Op(load("beat"), queue, args, lambda r: Beat(r[0], [*map(text_of, r[1])], [*map(text_of, r[2])]))


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a sweep over expired leases did."""

    now_ms: int
    warned: int
    back: int
    buried: int
    deadline_ms: int


def reap(
    queue: str,
    most: int = 200,
    crash_limit: int = CRASH_LIMIT,
    outage_limit: int = OUTAGE_LIMIT,
    now: int = 0,
) -> Op[Reaped]:
    """Takes back up to `most` jobs whose lease ran out."""
    return Op(load("reap"), queue, [now, most, crash_limit, outage_limit], lambda r: Reaped(*r))


def release(queue: str, job_id: str, outcome: str, now: int = 0, batch: str = "") -> Op[str]:
    """Settles the next slice of the jobs that wait for a job that ended; notes them for the undo of a `batch`."""
    return Op(load("settle"), queue, [now, 0, "release", job_id, outcome], _word, batch)


def resolve(queue: str, child: str, ref: str, outcome: str, now: int = 0, batch: str = "", read_ms: int = 0) -> Op[str]:
    """Tells a job that one it waits for, on another queue, has ended; notes it for the undo of a `batch`."""
    return Op(load("settle"), queue, [now, read_ms, "resolve", child, ref, outcome], _word, batch)


def watch(queue: str, pairs: Sequence[tuple[str, str]], now: int = 0, read_ms: int = 0) -> Op[list[str]]:
    """Note which jobs of other queues wait for jobs of this one, as pairs of the job and who waits.

    Answers for each how the job ended, `live` when it has not, `unknown` when it is not there.
    """
    args: list[Arg] = [now, read_ms, "watch", *(word for pair in pairs for word in pair)]
    return Op(load("settle"), queue, args, lambda reply: [word.decode() for word in reply])


def quarantine(queue: str, entry_id: bytes, why: str, now: int = 0) -> Op[bool]:
    """Sets aside an entry of the outbox that cannot be read; false when it is not there any more."""
    return Op(load("quarantine"), queue, [now, entry_id, why.encode(errors="backslashreplace")], bool)


def _word(reply: Any) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def change(
    queue: str,
    verb: str,
    jobs: Sequence[tuple[str, str]],
    *,
    event: bytes = b"{}",
    priority: int | None = None,
    now: int = 0,
) -> Op[list[str]]:
    """Acts on single jobs, given as pairs of id and the state they were seen in (or an empty text). No undo is kept.

    Answers for each job `ok`, `requested` (it runs: its worker ends it), or the code of why it was left alone
    and behind a blank its data. A plan goes another way.
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

    return Op(load("act"), queue, args, read)


def trim(queue: str, now: int = 0) -> Op[int]:
    """Drops one slice of what was kept for too long."""
    return Op(load("trim"), queue, [now], lambda reply: int(reply[1]))


def configure(queue: str, settings: dict[str, str]) -> Op[None]:
    """Sets settings of a queue; an empty value removes one."""
    args = [word for pair in settings.items() for word in pair]
    return Op(load("configure"), queue, args, lambda _: None)
