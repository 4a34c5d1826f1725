"""Programs made of operations: what one call cannot do, because it takes another queue or another try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from redis.exceptions import NoScriptError, ResponseError

from qdeck._engine import acts, keys, ops, outbox
from qdeck._engine.numbers import score_ms
from qdeck._engine.ops import Arg, Made, NewJob, Op, Program, Send, commands, pack
from qdeck._engine.scripts import Script, load
from qdeck._errors import LayoutMismatch, NotAllowed, QdeckError, ServerRefused, UnknownDependency, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")
OUTBOX_SLICE: Final = 100
_ANNOUNCEMENTS: Final = 5  # tries to enqueue jobs soon after they were announced
_FIRST_PAGE: Final = 16  # entries of an outbox read at first: nobody knows yet how large they are


class Late(QdeckError):
    """What a client read before is too old to act on."""


def call(op: Op[T]) -> Program[T]:
    """Runs one operation; loads its script and makes its queue when they are not there yet."""
    made = False
    while True:
        [reply] = yield Send(op.packed(), 1, op.script.keys(op.queue)[0], script=op.script)
        if isinstance(reply, NoScriptError):
            yield from load_script(op.script, op.script.keys(op.queue)[0])
        elif isinstance(reply, ResponseError):
            if str(reply).startswith("QDECK FRESH") and not made:
                made = True
                yield from make_queue(op.queue)
            else:
                raise explain(reply, op.queue)
        else:
            return op.read(reply)


def call_each(calls: Sequence[Op[T]]) -> Program[list[T | QdeckError]]:
    """Run operations of one script on queues in one round trip; an error of one is a value among the results."""
    found: list[T | QdeckError | None] = [None] * len(calls)
    todo, made = list(range(len(calls))), set[str]()
    script = calls[0].script
    while todo:
        key = script.keys(calls[0].queue)[0] if len(calls) == 1 else b""
        replies = yield Send(b"".join(calls[at].packed() for at in todo), len(todo), key, script=script)
        again: list[int] = []
        for at, reply in zip(todo, replies, strict=True):
            op = calls[at]
            if isinstance(reply, NoScriptError):
                again.append(at)
            elif not isinstance(reply, ResponseError):
                found[at] = op.read(reply)
            elif str(reply).startswith("QDECK FRESH") and op.queue not in made:
                made.add(op.queue)
                yield from make_queue(op.queue)
                again.append(at)
            else:
                found[at] = explain(reply, op.queue)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            yield from load_script(script, key)
        todo = again
    return [one for one in found if one is not None]


def load_script(script: Script, key: bytes) -> Program[None]:
    """Gives the server the source of a script; a failover or a restart empties its cache."""
    [reply] = yield Send(pack("SCRIPT", "LOAD", script.source), 1, key, reads=True)
    if isinstance(reply, ResponseError):
        raise explain(reply)


def evaluate(script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Run a script on these keys and return its reply, which may be an error; gives the server its source if needed."""
    [reply] = yield Send(pack(b"EVALSHA", script.digest, len(keys), *keys, *args), 1, keys[0], script=script)
    if isinstance(reply, NoScriptError):
        [reply] = yield commands((b"EVAL", script.source, len(keys), *keys, *args), key=keys[0])
    return reply


def run_script(script: Script, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Run a script on keys of its own and return its reply."""
    reply = yield from evaluate(script, keys, args)
    if isinstance(reply, ResponseError):
        raise explain(reply)
    return reply


def run_each(script: Script, calls: Sequence[tuple[Arg, ...]], key: bytes = b"") -> Program[list[Any]]:
    """Run many calls of one script in one round trip and return their replies; gives the server its source if needed.

    Without a key the servers of a cluster do their parts at the same time.
    """
    replies = yield commands(*calls, key=key)
    missing = [at for at, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
    if missing:
        [loaded] = yield commands((b"SCRIPT", b"LOAD", script.source), key=key)
        if isinstance(loaded, ResponseError):
            raise explain(loaded)
        again = yield commands(*(calls[at] for at in missing), key=key)
        for at, reply in zip(missing, again, strict=True):
            replies[at] = reply
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise explain(reply)
    return replies


def run_on_queue(script: Script, queue: str, args: Sequence[Arg], more_keys: Sequence[bytes] = ()) -> Program[Any]:
    """Run a script on a queue, which is made when it is not there yet, and return its reply."""
    keys = [*script.keys(queue), *more_keys]
    made = False
    while True:
        reply = yield from evaluate(script, keys, args)
        if not isinstance(reply, ResponseError):
            return reply
        if made or not str(reply).startswith("QDECK FRESH"):
            raise explain(reply, queue)
        made = True
        yield from make_queue(queue)


def check_rights(script: Script, key: bytes) -> Program[None]:
    """Raise `NotAllowed` unless this user may run every command of a script, before it is called for many keys."""
    denied = yield from run_script(load("rights"), [key], script.commands)
    if denied:
        raise not_allowed([name.decode() for name in denied])


def not_allowed(names: Sequence[str]) -> NotAllowed:
    """Return the error for a script whose user lacks some of its commands.

    A script that is refused half way leaves half of a change behind: a job that is there and is not counted, or one in
    two states. Asking in each call would take half as long again; so a client asks before it calls a script the first
    time on a connection.
    """
    return NotAllowed(
        f"the server does not allow this user to run {', '.join(names)}: nothing was changed",
        hint=f"give this user {' '.join(f'+{name}' for name in names)}; `qdeck doctor` prints its whole line",
    )


def make_queue(queue: str) -> Program[None]:
    """Registers a queue, then makes it: a name too many in the registry is harmless, one too few is not."""
    op = ops.init(queue)
    [stamp] = yield commands((b"TIME",), key=keys.QUEUES.encode(), reads=True)
    now_ms = int(stamp[0]) * 1000 if isinstance(stamp, list) else 0
    [reply] = yield commands((b"HSETNX", keys.QUEUES, queue, now_ms), key=keys.QUEUES.encode())
    if isinstance(reply, ResponseError):
        raise explain(reply, queue)
    yield from call(op)


def enqueue(queue: str, jobs: Sequence[NewJob], now: int = 0) -> Program[list[Made]]:
    """Makes any number of jobs, a slice at a time, after telling other queues who waits for their jobs."""
    made: list[Made] = []
    stand_ins: dict[str, str] = {}
    for part in _slices(jobs):
        part = [wait_for(job, stand_ins) for job in part] if stand_ins else part
        answers = yield from _make(queue, part, now)
        made += answers
        stand_ins |= {job.id: one.id for job, one in zip(part, answers, strict=True) if one.id != job.id}
    return made


def _make(queue: str, jobs: Sequence[NewJob], now: int) -> Program[list[Made]]:
    """Makes the jobs of one call. Those that wait for jobs of other queues are announced there first.

    So a job whose producer dies never waits for one that does not know of it. What was announced too long ago is
    announced again.
    """
    if not any("@" in ref for job in jobs for ref in job.after):
        return (yield from call(ops.enqueue(queue, jobs, now)))
    for _ in range(_ANNOUNCEMENTS):
        announced_ms, announced = yield from _announce(queue, jobs, now)
        try:
            return (yield from call(ops.enqueue(queue, announced, now, announced_ms)))
        except Late as error:
            late = error
    raise late


def _announce(queue: str, jobs: Sequence[NewJob], now: int) -> Program[tuple[int, list[NewJob]]]:
    """Tells other queues who waits for their jobs; gives the jobs with what was answered, and a time before that."""
    [stamp] = yield commands((b"TIME",), key=keys.key(queue, "meta"), reads=True)
    pairs: dict[str, list[tuple[str, str]]] = {}  # queue → its jobs and who waits for them
    for job in jobs:
        for ref in job.after:
            parent, _, other = ref.partition("@")
            if other:
                pairs.setdefault(other, []).append((parent, f"{job.id}@{queue}"))
    outcomes: dict[tuple[str, str], str] = {}  # ref and child → how it ended
    for other, waits in pairs.items():
        for (parent, child), outcome in zip(waits, (yield from call(ops.watch(other, waits, now))), strict=True):
            outcomes[f"{parent}@{other}", child] = outcome
    return now or read_time(stamp), [
        job._replace(
            after=tuple(f"{ref}!{outcomes[ref, f'{job.id}@{queue}']}" if "@" in ref else ref for ref in job.after)
        )
        for job in jobs
    ]


def wait_for(job: NewJob, stand_ins: Mapping[str, str]) -> NewJob:
    """The job, waiting for those that stand for the ones that were not made."""
    if stand_ins.keys().isdisjoint(job.after):
        return job
    return job._replace(after=tuple(stand_ins.get(ref, ref) for ref in job.after))


def _slices(jobs: Sequence[NewJob]) -> Iterator[Sequence[NewJob]]:
    """Parts that one call may carry, bounded in jobs, bytes and jobs waited for: the whole server waits for a call."""
    start = size = refs = 0
    for at, job in enumerate(jobs):
        size += len(job.body)
        refs += len(job.after)
        if at > start and (at - start >= ops.SLICE or size > ops.SLICE_BYTES or refs > ops.SLICE):
            yield jobs[start:at]
            start, size, refs = at, len(job.body), len(job.after)
    if start < len(jobs):
        yield jobs[start:]


def deliver(queue: str, now: int = 0, report: Callable[[str], None] | None = None) -> Program[int]:
    """Delivers one slice of a queue's outbox. Each entry may be delivered twice; it is struck out last.

    What another queue refuses stays there and is raised at the end, so that it does not hold up the entries behind it.
    An entry that cannot be read is set aside and counted, and `report` is called with the reason.
    """
    run = _Delivery(queue, now, report)
    start, page = b"-", _FIRST_PAGE
    looked_at = handled = 0
    refused: QdeckError | None = None
    while looked_at < OUTBOX_SLICE or not handled:
        page = min(page, OUTBOX_SLICE - looked_at % OUTBOX_SLICE)
        entries = yield from run.read(start, b"+", page)
        for entry_id, flat in entries:
            try:
                yield from run.deliver(entry_id, flat)
            except QdeckError as error:
                refused = refused or error
            else:
                handled += 1
        yield from run.confirm()
        looked_at += len(entries)
        if len(entries) < page:
            break
        start = b"(" + entries[-1][0]
        size = max(sum(map(len, flat)) for _, flat in entries)
        page = max(1, min(page * 4, ops.SLICE_BYTES // (size + 1)))
    if refused is not None:
        raise refused
    return looked_at


class _Delivery:
    """One run over an outbox.

    An entry that was read long ago may be delivered, deleted and done by now, and the job that it made trimmed. So each
    effect carries when its entry was read, and the other queue refuses it when that is too long ago.
    """

    def __init__(self, queue: str, now: int, report: Callable[[str], None] | None) -> None:
        self.queue, self.now, self.report = queue, now, report
        self._key = keys.key(queue, "outbox")
        self._read_ms = 0
        self._deleted_ms = 0
        self._places: dict[str, list[bytes]] = {}  # of deleted entries, by the queue that took their jobs in

    def read(self, first: bytes, last: bytes, most: int) -> Program[list[tuple[bytes, list[bytes]]]]:
        stamp, entries = yield commands(
            (b"TIME",), (b"XRANGE", self._key, first, last, b"COUNT", most), key=self._key, reads=True
        )
        if isinstance(entries, ResponseError):
            raise explain(entries, self.queue)
        self._read_ms = self.now or read_time(stamp)
        return list(entries)

    def deliver(self, entry_id: bytes, flat: Sequence[bytes]) -> Program[None]:
        try:
            entry = outbox.read_entry(flat)
        except ValueError as error:
            op = ops.quarantine(self.queue, entry_id, str(error), self.now)
            if (yield from call(op)) and self.report is not None:
                self.report(f"set aside an entry of the outbox of {self.queue!r}: {error}")
            return
        try:
            yield from self._effect(entry_id, entry, self._read_ms)
        except Late:
            # This process stood still, or the clocks of two servers differ: look again, by the clock of the other one.
            other = entry.other_queue or self.queue
            [stamp] = yield commands((b"TIME",), key=keys.key(other, "meta"), reads=True)
            before = self._read_ms
            if not (yield from self.read(entry_id, entry_id, 1)):
                return
            self._read_ms = before
            yield from self._effect(entry_id, entry, read_time(stamp))
        _, stamp = yield commands((b"XDEL", self._key, entry_id), (b"TIME",), key=self._key)
        self._deleted_ms = self.now or read_time(stamp)
        if entry.makes_job:
            self._places.setdefault(entry.text["q"], []).append(self._place(entry_id))

    def _place(self, entry_id: bytes) -> bytes:
        return self.queue.encode() + b" " + entry_id

    def _effect(self, entry_id: bytes, entry: outbox.Entry, read_ms: int) -> Program[None]:
        text, job_id, batch, now = entry.text, entry.text["i"], entry.text.get("u", ""), self.now
        if entry.kind == "release":
            yield from call(ops.release(self.queue, job_id, text["o"], now, batch))
        elif entry.kind == "resolve":
            yield from call(ops.resolve(text["q"], job_id, text["r"], text["o"], now, batch, read_ms))
        elif entry.makes_job:
            yield from call(acts.accept(text["q"], job_id, entry.job(), self._place(entry_id), read_ms, now))
        else:
            parent, _, other = text["r"].partition("@")
            [outcome] = yield from call(ops.watch(other, [(parent, f"{job_id}@{self.queue}")], now, read_ms))
            if outcome != "live":
                yield from call(ops.resolve(self.queue, job_id, text["r"], outcome, now))

    def confirm(self) -> Program[None]:
        """Let the other queues forget the places of entries that were deleted."""
        for other, places in self._places.items():
            pairs: list[ops.Arg] = []
            for place in places:
                pairs += (self._deleted_ms, place)
            removed = keys.key(other, "removed")
            yield commands((b"ZADD", removed, b"XX", *pairs), key=removed)
        self._places.clear()


def read_time(reply: object) -> int:
    """Milliseconds of a reply to TIME; 0 when the server refuses to tell."""
    return int(reply[0]) * 1000 + int(reply[1]) // 1000 if isinstance(reply, list) else 0


@dataclass(frozen=True, slots=True)
class Peek:
    """What waits in a queue, and when something will; 0 for never."""

    ready: int
    due_ms: int
    deadline_ms: int
    outbox: int


def peek(queue: str) -> Program[Peek]:
    """Looks whether there is something to do, with a few plain reads: an idle worker's whole cost."""
    replies = yield commands(
        (b"ZCARD", keys.key(queue, "ready")),
        (b"ZRANGE", keys.key(queue, "delayed"), b"0", b"0", b"WITHSCORES"),
        (b"ZRANGE", keys.key(queue, "running"), b"0", b"0", b"WITHSCORES"),
        (b"XLEN", keys.key(queue, "outbox")),
        key=keys.key(queue, "meta"),
        reads=True,
    )
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise explain(reply, queue)
    ready, due, deadline, outbox = replies
    return Peek(ready, _time(due), _time(deadline), outbox)


def _time(first: list[bytes]) -> int:
    """The time of the first entry of a list; 0 for none, and for one that is no time."""
    return max(0, score_ms(first[1]) or 0) if first else 0


def exists(queue: str, job_ids: Sequence[str]) -> Program[list[bool]]:
    """Which of these jobs are in the queue, in any state."""
    head, done = keys.key(queue, "head"), keys.key(queue, "done")
    heads, ended = yield commands((b"HMGET", head, *job_ids), (b"ZMSCORE", done, *job_ids), key=head, reads=True)
    for reply in (heads, ended):
        if isinstance(reply, ResponseError):
            raise explain(reply, queue)
    return [h is not None or d is not None for h, d in zip(heads, ended, strict=True)]


_REFUSALS: Final = {
    "OOM": "the server is out of memory: raise maxmemory or make room",
    "MISCONF": "the server cannot save to disk: see its log, mend the disk",
    "NOREPLICAS": "too few replicas are connected: see min-replicas-to-write",
    "READONLY": "this server is a replica: connect to the master, or through Sentinel",
    "BUSY": "a script blocks the server: wait, or SCRIPT KILL",
    "MASTERDOWN": "the replica lost its master",
    "CLUSTERDOWN": "the cluster is down",
    "TRYAGAIN": "the queue's slot is on its way to another server of the cluster: try again",
}
_NO_SERVER: Final = "it has to be Redis 7, Valkey 8 or later, without renamed commands; of a Sentinel write redis+sentinel://host/service"
_CLUSTER: Final = {
    "MOVED": ("this server is one of a cluster, and others have the keys", "write redis+cluster://host:port"),
    "ASK": ("this server is one of a cluster, and others have the keys", "write redis+cluster://host:port"),
    "CROSSSLOT": (
        "not on Cluster: this takes keys that are on several servers",
        "use a server of its own, or Sentinel",
    ),
}

_WORDS: Final = {
    "OutOfMemoryError": "OOM", "ReadOnlyError": "READONLY", "MasterDownError": "MASTERDOWN", "MovedError": "MOVED",
    "AskError": "ASK", "TryAgainError": "TRYAGAIN", "ClusterDownError": "CLUSTERDOWN",
    "ClusterCrossSlotError": "CROSSSLOT",
}  # fmt: skip


def explain(error: ResponseError, queue: str = "") -> QdeckError:
    """Our error for an answer of the server, with what to do about it."""
    text = str(error)
    # Only the first word is the same with every brand of server; redis-py takes it off for the classes it knows.
    word = getattr(error, "status_code", None) or text.split(" ", 1)[0]
    if text.startswith("QDECK "):
        return _explain_ours(text.split(" "), queue)
    if word == "NOPERM" or type(error).__name__ == "NoPermissionError" or "ACL failure in script" in str(error):
        return NotAllowed(
            f"the server does not allow this: {text}", hint="give this user the right, or use another user"
        )
    word = _WORDS.get(type(error).__name__, word)
    if word in _CLUSTER:
        message, hint = _CLUSTER[word]
        return ServerRefused(f"{message}: {text}", hint=hint)
    if word in _REFUSALS:
        return ServerRefused(f"the server refuses: {text}", hint=_REFUSALS[word])
    if word == "WRONGTYPE":
        return LayoutMismatch(
            f"a key of queue {queue!r} holds another kind of data: {text}",
            hint="another program uses the same names; use another queue name",
        )
    if text.startswith("unknown command"):
        # Behind the comma are arguments, which may be anything.
        return ServerRefused(f"the server does not know this: {text.split(',', 1)[0]}", hint=_NO_SERVER)
    return QdeckError(f"the server answered with an error: {text}")


def _explain_ours(words: list[str], queue: str) -> QdeckError:
    kind, rest = words[1], words[2:]
    if kind == "VERSION":
        return LayoutMismatch(
            f"queue {queue!r} has layout version {rest[0]}, this qdeck knows version 1",
            hint="upgrade this qdeck: pip install -U qdeck",
        )
    if kind == "DEPENDENCY":
        return UnknownDependency(
            f"no job {rest[0]!r} in queue {queue!r} to wait for",
            hint="enqueue it first; a job that ended long ago is not known any more",
        )
    if kind == "FOREIGN":
        return LayoutMismatch(
            f"key {rest[0]!r} holds a {rest[1]}, qdeck needs a {rest[2]} there",
            hint="another program uses the same names; use another queue name",
        )
    if kind == "LATE":
        return Late(
            f"queue {queue!r} refuses what was read over 30 s ago",
            hint="compare the clocks of the servers of the cluster",
        )
    if kind == "UNDONE":
        return UsageError("this batch was undone", hint="make a new plan to do it again")
    if kind == "EXPIRED":
        return UsageError("what this batch took is not kept any more", hint="it is kept for a day")
    return UsageError(" ".join(words))
