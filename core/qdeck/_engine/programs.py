"""Programs on native queues: run transitions, enqueue, deliver outboxes, peek."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from qdeck._engine import batch_transitions, keys, outbox_entries, transitions
from qdeck._engine.stored_numbers import score_ms
from qdeck._errors import QdeckError
from qdeck._redis import reads, scripts
from qdeck._redis.commands import Request, with_errors
from qdeck._redis.errors import LOST, Late, NewQueue, UnknownScript, good, is_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from qdeck._engine.scripts import QueueScript
    from qdeck._engine.transitions import EnqueueResult, NewJob, Transition
    from qdeck._redis.commands import Arg, Program

T = TypeVar("T")
OUTBOX_SLICE: Final = 100
_ANNOUNCEMENTS: Final = 5  # attempts to enqueue jobs soon after they were announced
TAKEN: Final = 2  # the reply of a queue in which the id of a job is used
REFUSED, RETURNED = b" refused", b" returned"  # suffix of the place that a queue keeps for such a job
_FIRST_PAGE: Final = 16  # entries of an outbox in the first read: their size is unknown


def call(op: Transition[T]) -> Program[T]:
    """Run one transition; load its script and create its queue when they are missing."""
    return op.read((yield from _on_queue(op.script, op.queue, op.request())))


def call_each(calls: Sequence[Transition[T]]) -> Program[list[T | QdeckError]]:
    """Run transitions of one script on several queues in one round trip; an error is a value among the results."""
    found: list[T | QdeckError | None] = [None] * len(calls)
    todo, made = list(range(len(calls))), set[str]()
    script = calls[0].script
    key = script.keys(calls[0].queue)[0] if len(calls) == 1 else b""
    while todo:
        replies = yield Request([calls[at].command() for at in todo], key, returns_errors=True, script=script)
        again: list[int] = []
        for at, reply in zip(todo, replies, strict=True):
            op = calls[at]
            if isinstance(reply, UnknownScript):
                again.append(at)
            elif not is_error(reply):
                found[at] = op.read(reply)
            elif isinstance(reply, NewQueue) and op.queue not in made:
                made.add(op.queue)
                yield from make_queue(op.queue)
                again.append(at)
            else:
                found[at] = reply
        if any(isinstance(reply, UnknownScript) for reply in replies):
            yield scripts.load(script, key)
        todo = again
    return [one for one in found if one is not None]


def run_on_queue(script: QueueScript, queue: str, args: Sequence[Arg], more_keys: Sequence[bytes] = ()) -> Program[Any]:
    """Run a script on a queue, create the queue when it is missing, and return the reply."""
    keys = (*script.keys(queue), *more_keys)
    return (yield from _on_queue(script, queue, Request((script.call(keys, args),), keys[0], script=script)))


def _on_queue(script: QueueScript, queue: str, request: Request) -> Program[Any]:
    made = False
    while True:
        try:
            [reply] = yield request
        except UnknownScript:
            yield scripts.load(script, request.key)
        except NewQueue:
            if made:
                raise
            made = True
            yield from make_queue(queue)
        else:
            return reply


def make_queue(queue: str) -> Program[None]:
    """Register a queue, then create it: a surplus name in the registry is harmless, a missing one is not."""
    registry = keys.QUEUES.encode()
    [stamp] = yield with_errors((b"TIME",), key=registry)
    yield Request(((b"HSETNX", registry, queue, (reads.stamp(stamp) or 0) // 1000 * 1000),), registry)
    yield from call(transitions.init(queue))


def enqueue(queue: str, jobs: Sequence[NewJob], now: int = 0) -> Program[list[EnqueueResult]]:
    """Make any number of jobs, a slice at a time, after announcing to other queues which of their jobs they wait
    for."""
    made: list[EnqueueResult] = []
    stand_ins: dict[str, str] = {}
    for part in _slices(jobs):
        part = [wait_for(job, stand_ins) for job in part] if stand_ins else part
        answers = yield from _make(queue, part, now)
        made += answers
        stand_ins |= {job.id: one.id for job, one in zip(part, answers, strict=True) if one.id != job.id}
    return made


def _make(queue: str, jobs: Sequence[NewJob], now: int) -> Program[list[EnqueueResult]]:
    """Make the jobs of one call. Those that wait for jobs of other queues are announced there first.

    Otherwise a job whose producer dies could wait for a parent that never releases it. An announcement that is too
    old is repeated.
    """
    if not any("@" in ref for job in jobs for ref in job.after):
        return (yield from call(transitions.enqueue(queue, jobs, now)))
    for _ in range(_ANNOUNCEMENTS):
        announced_ms, announced = yield from _announce(queue, jobs, now)
        try:
            return (yield from call(transitions.enqueue(queue, announced, now, announced_ms)))
        except Late as error:
            late = error
    raise late


def _announce(queue: str, jobs: Sequence[NewJob], now: int) -> Program[tuple[int, list[NewJob]]]:
    """Announce jobs to the queues of their parents; return a time before that, and the jobs with the outcomes found."""
    [stamp] = yield with_errors((b"TIME",), key=keys.key(queue, "meta"))
    pairs: dict[str, list[tuple[str, str]]] = {}  # queue → its jobs and who waits for them
    for job in jobs:
        for ref in job.after:
            parent, _, other = ref.partition("@")
            if other:
                pairs.setdefault(other, []).append((parent, f"{job.id}@{queue}"))
    outcomes: dict[tuple[str, str], str] = {}  # ref and child → how it ended
    for other, waits in pairs.items():
        for (parent, child), outcome in zip(
            waits, (yield from call(transitions.watch_parents(other, waits, now))), strict=True
        ):
            outcomes[f"{parent}@{other}", child] = outcome
    return now or reads.stamp(stamp) or 0, [
        job._replace(
            after=tuple(f"{ref}!{outcomes[ref, f'{job.id}@{queue}']}" if "@" in ref else ref for ref in job.after)
        )
        for job in jobs
    ]


def wait_for(job: NewJob, stand_ins: Mapping[str, str]) -> NewJob:
    """Return a job with parents that were not made replaced by the jobs that stand in for them."""
    if stand_ins.keys().isdisjoint(job.after):
        return job
    return job._replace(after=tuple(stand_ins.get(ref, ref) for ref in job.after))


def _slices(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Split jobs into calls, bounded in jobs, bytes and parents: the whole server waits for a call."""
    start = size = refs = 0
    for at, job in enumerate(jobs):
        size += len(job.body)
        refs += len(job.after)
        if at > start and (
            at - start >= transitions.SLICE or size > transitions.SLICE_BYTES or refs > transitions.SLICE
        ):
            yield jobs[start:at]
            start, size, refs = at, len(job.body), len(job.after)
    if start < len(jobs):
        yield jobs[start:]


def deliver_all(queue: str) -> Program[None]:
    """Deliver a queue's outbox until it is empty."""
    while (yield from deliver(queue)):
        pass


def deliver(queue: str, now: int = 0, report: Callable[[str], None] | None = None) -> Program[int]:
    """Deliver one slice of a queue's outbox. An entry may be delivered twice; it is deleted last.

    An entry that another queue refuses stays, and the error is raised at the end: it must not hold up later entries.
    An entry that cannot be read is moved to quarantine and counted, and `report` is called with the reason.
    """
    delivery = _Delivery(queue, now, report)
    start, page = b"-", _FIRST_PAGE
    read_count = handled = 0
    refused: QdeckError | None = None
    while read_count < OUTBOX_SLICE or not handled:
        page = min(page, OUTBOX_SLICE - read_count % OUTBOX_SLICE)
        entries = yield from delivery.read(start, b"+", page)
        for entry_id, flat in entries:
            try:
                yield from delivery.deliver(entry_id, flat)
            except LOST:
                raise
            except QdeckError as error:
                refused = refused or error
            else:
                handled += 1
        yield from delivery.confirm()
        read_count += len(entries)
        if len(entries) < page:
            break
        start = b"(" + entries[-1][0]
        size = max(sum(map(len, flat)) for _, flat in entries)
        page = max(1, min(page * 4, transitions.SLICE_BYTES // (size + 1)))
    if refused is not None:
        raise refused
    return read_count


class _Delivery:
    """One pass over an outbox.

    An entry that was read long ago may be delivered and deleted by now, and the job that it made trimmed. So each
    effect carries when its entry was read, and the other queue refuses it when that is too long ago.
    """

    def __init__(self, queue: str, now: int, report: Callable[[str], None] | None) -> None:
        self.queue, self.now, self.report = queue, now, report
        self._key = keys.key(queue, "outbox")
        self._read_ms = 0
        self._deleted_ms = 0
        self._places: dict[str, list[bytes]] = {}  # of deleted entries, by the queue that took their jobs in

    def read(self, first: bytes, last: bytes, most: int) -> Program[list[tuple[bytes, list[bytes]]]]:
        stamp, entries = yield with_errors(
            (b"TIME",), (b"XRANGE", self._key, first, last, b"COUNT", most), key=self._key
        )
        self._read_ms = self.now or reads.stamp(stamp) or 0
        return list(good(entries))

    def deliver(self, entry_id: bytes, flat: Sequence[bytes]) -> Program[None]:
        try:
            entry = outbox_entries.read_entry(flat)
        except ValueError as error:
            op = transitions.quarantine(self.queue, entry_id, str(error), self.now)
            if (yield from call(op)) and self.report is not None:
                self.report(f"moved an outbox entry of {self.queue!r} to quarantine: {error}")
            return
        try:
            is_refused = yield from self._effect(entry_id, entry, self._read_ms)
        except Late:
            # This process was suspended, or the clocks of two servers differ: read again, by the other server's clock.
            other = entry.other_queue or self.queue
            [stamp] = yield with_errors((b"TIME",), key=keys.key(other, "meta"))
            before = self._read_ms
            if not (yield from self.read(entry_id, entry_id, 1)):
                return
            self._read_ms = before
            is_refused = yield from self._effect(entry_id, entry, reads.stamp(stamp) or 0)
        if is_refused and not (yield from self._return(entry_id, entry)):
            return
        _, stamp = yield with_errors((b"XDEL", self._key, entry_id), (b"TIME",), key=self._key)
        self._deleted_ms = self.now or reads.stamp(stamp) or 0
        if entry.makes_job:
            place = self._place(entry_id) + (REFUSED if is_refused else b"")
            self._places.setdefault(entry.text["q"], []).append(place)

    def _place(self, entry_id: bytes) -> bytes:
        return self.queue.encode() + b" " + entry_id

    def _return(self, entry_id: bytes, entry: outbox_entries.OutboxEntry) -> Program[bool]:
        """Return a job to this queue whose id is used in its new one; return False when it is used here, too."""
        fields = entry.fields | {"y": b"" if entry.fields.get("y") else b"1"}
        place = self._place(entry_id) + RETURNED
        reply = yield from call(batch_transitions.accept_job(self.queue, entry.text["i"], fields, place, 0, self.now))
        if reply == TAKEN:
            reason = f"its id is used in both {self.queue!r} and {entry.text['q']!r}"
            yield from call(transitions.quarantine(self.queue, entry_id, reason, self.now))
            return False
        self._places.setdefault(self.queue, []).append(place)
        return True

    def _effect(self, entry_id: bytes, entry: outbox_entries.OutboxEntry, read_ms: int) -> Program[bool]:
        """Apply an entry to its queue; return whether that queue refused a job because its id is used."""
        text, job_id, batch, now = entry.text, entry.text["i"], entry.text.get("u", ""), self.now
        if entry.kind == "release":
            yield from call(transitions.release_dependents(self.queue, job_id, text["o"], now, batch))
        elif entry.kind == "resolve":
            yield from call(transitions.resolve_dependent(text["q"], job_id, text["r"], text["o"], now, batch, read_ms))
        elif entry.makes_job:
            place = self._place(entry_id)
            return (
                yield from call(batch_transitions.accept_job(text["q"], job_id, entry.job(), place, read_ms, now))
            ) == TAKEN
        else:
            parent, _, other = text["r"].partition("@")
            [outcome] = yield from call(
                transitions.watch_parents(other, [(parent, f"{job_id}@{self.queue}")], now, read_ms)
            )
            if outcome != "live":
                yield from call(transitions.resolve_dependent(self.queue, job_id, text["r"], outcome, now))
        return False

    def confirm(self) -> Program[None]:
        """Let the other queues forget the places of deleted entries."""
        for other, places in self._places.items():
            pairs: list[Arg] = []
            for place in places:
                pairs += (self._deleted_ms, place)
            removed = keys.key(other, "removed")
            yield with_errors((b"ZADD", removed, b"XX", *pairs), key=removed)
        self._places.clear()


@dataclass(frozen=True, slots=True)
class QueuePeek:
    """How many jobs are ready in a queue, and when there is more to do; 0 for never."""

    ready: int
    due_ms: int
    deadline_ms: int
    outbox: int


def peek(queue: str) -> Program[QueuePeek]:
    """Return what there is to do in a queue, from a few plain reads: the whole cost of an idle worker."""
    ready, due, deadline, outbox = yield [
        (b"ZCARD", keys.key(queue, "ready")),
        (b"ZRANGE", keys.key(queue, "delayed"), b"0", b"0", b"WITHSCORES"),
        (b"ZRANGE", keys.key(queue, "running"), b"0", b"0", b"WITHSCORES"),
        (b"XLEN", keys.key(queue, "outbox")),
    ]
    return QueuePeek(ready, _time(due), _time(deadline), outbox)


def _time(first: list[bytes]) -> int:
    """Return the time of the first entry of a list; 0 for none, and for one that is not a time."""
    return max(0, score_ms(first[1]) or 0) if first else 0


def exists(queue: str, job_ids: Sequence[str]) -> Program[list[bool]]:
    """Return for each job whether it is in the queue, in any state."""
    head, done = keys.key(queue, "head"), keys.key(queue, "done")
    heads, ended = yield [(b"HMGET", head, *job_ids), (b"ZMSCORE", done, *job_ids)]
    return [h is not None or d is not None for h, d in zip(heads, ended, strict=True)]


def read_slices(queue: str, batch: str, numbers: Sequence[int | str]) -> Program[list[dict[str, Any] | None]]:
    """Return what a queue keeps of slices of a batch, counted from 1, or of dependents, such as `continued:1`; None
    where nothing is kept that can be read.
    """
    key = keys.undo_key(queue, batch)
    offsets = yield (b"HMGET", key, *(f"#{number}" for number in numbers))
    fields = [
        number if isinstance(number, str) else offset or b"?" for number, offset in zip(numbers, offsets, strict=True)
    ]
    packed = yield (b"HMGET", key, *fields)
    return [_unpacked(raw) for raw in packed]


def _unpacked(raw: bytes | None) -> dict[str, Any] | None:
    try:
        return None if raw is None else msgspec.msgpack.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
