"""Looking at the queues of the native adapter with plain read commands: which there are, and their numbers."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from qdeck._deck import history, workers
from qdeck._deck.details import Detail, read_details
from qdeck._deck.model import NATIVE, QueueRef, QueueRow, Snapshot, Totals, UnknownTask, WorkerRow
from qdeck._deck.server import read_server
from qdeck._deck.words import Unreadable, UnreadableCode
from qdeck._engine import keys
from qdeck._engine.stored_numbers import require_integer
from qdeck._errors import LayoutMismatch, NotAllowed, QdeckError, UsageError
from qdeck._redis import keyspace_scan, reads
from qdeck._redis.commands import ask
from qdeck._redis.errors import LOST, is_error
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from qdeck._redis.commands import Command, Program

VERSION: Final = keys.LAYOUT.encode()
CHUNK: Final = 50  # queues read in one round trip; a few ms of work for whoever shares the loop
STRAYS_MS: Final = 5000  # between steps that look for queues beside those that the registry names
FORGET_MS: Final = 30_000  # how long the list of names is believed when the registry did not change its size
WINDOW_MS: Final = 10_000  # over which rates are taken
DEAD_WINDOW_MS: Final = 60_000  # likewise, of dead letters: a few of them are no trend
DEAD_LEAST_MS: Final = 10_000  # and not before so long was seen
ROTATION: Final = 200  # queues beyond the visible ones whose details are read at each look
PORTION: Final = 1000  # queues beyond the visible ones whose counts are read at each look of someone who looks again

_COUNTS: Final = ("ready", "delayed", "blocked", "running", "dead_letter", "done", "cancelled")
TOTALS: Final = (
    "enqueued", "done", "failed", "retried", "dead", "crashed", "expired", "cancelled", "refused", "missing",
    "dropped_dead", "dropped_done", "discarded", "quarantined",
)  # fmt: skip
_FIELDS: Final = ("v", "paused", "limit", "rate", "unknown_tasks", *_COUNTS, *(f"n:{name}" for name in TOTALS))


Marks: TypeAlias = "list[tuple[int, history.Flow]]"  # moments, each with the flow until then


@dataclass(slots=True)
class Known:
    """A queue as it was at the last look: most do not change from one look to the next."""

    reply: bytes
    base: QueueRow
    row: QueueRow
    flow: history.Flow | None
    derived: tuple[Any, ...] = ()
    marks: Marks = field(default_factory=list)  # of the window for rates
    dead_marks: Marks = field(default_factory=list)  # of the window for dead letters

    def rates(self, now: int) -> tuple[float | None, float | None, float | None]:
        """Jobs that came and went a second and died a minute, by the difference to the oldest moment of a window."""
        if self.flow is None:
            return None, None, None
        came, went, dead = None, None, None
        then = _oldest(self.marks, now, self.flow, WINDOW_MS)
        if then is not None and now > then[0]:
            seconds = (now - then[0]) / 1000
            came = max(0.0, (self.flow.came - then[1].came) / seconds)
            went = max(0.0, (self.flow.went - then[1].went) / seconds)
        then = _oldest(self.dead_marks, now, self.flow, DEAD_WINDOW_MS)
        if then is not None and now - then[0] >= DEAD_LEAST_MS:
            dead = max(0.0, 60_000 * (self.flow.died - then[1].died) / (now - then[0]))
        return came, went, dead


def _oldest(marks: Marks, now: int, flow: history.Flow, window_ms: int) -> tuple[int, history.Flow] | None:
    """Return the oldest moment of a window, and note this one when a tenth of the window passed."""
    while len(marks) > 1 and now - marks[1][0] >= window_ms:
        del marks[0]
    oldest = marks[0] if marks else None
    if not marks or now - marks[-1][0] >= window_ms // 10:
        marks.append((now, flow))
    return oldest


@dataclass(slots=True)
class Part:
    """Queues that are read in one round trip, and when they were."""

    names: list[str]
    read_ms: int = 0


@dataclass(slots=True)
class Memory:
    """What a deck remembers from look to look, so that the next one asks for less and can tell rates."""

    names: list[str] = field(default_factory=list)
    registered: int = -1
    named_ms: int = 0
    strays: keyspace_scan.UnregisteredQueues = field(default_factory=keyspace_scan.UnregisteredQueues)
    searched_ms: int = 0  # by this machine's clock, as no other is known when a look begins
    parts: list[Part] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)  # new ones, to be read at the next look
    known: dict[str, Known] = field(default_factory=dict)
    details: dict[str, Detail] = field(default_factory=dict)
    turn: int = 0
    rounds: int = -1
    thresholds: Thresholds = field(default_factory=Thresholds)

    def rename(self, names: Iterable[str]) -> None:
        """Takes a new list of queues."""
        found = sorted(names)
        if found != self.names or not self.parts:
            self.unread = set(found).difference(self.names)
            self.names = found
            self.known = {name: self.known[name] for name in found if name in self.known}
            self.details = {name: self.details[name] for name in found if name in self.details}
            read_ms = min((part.read_ms for part in self.parts), default=0)
            self.parts = [Part(found[at : at + CHUNK], read_ms) for at in range(0, len(found), CHUNK)]


def _call(queue: str) -> Command:
    return (b"HMGET", keys.key(queue, "meta"), *_FIELDS)


def look(memory: Memory, address: str, visible: Collection[str] | None = None) -> Program[Snapshot]:
    """One picture of all queues, without a verdict. `visible` names those whose oldest and stuck jobs are asked for.

    The others take turns, so that ten thousand queues cost little: of a deck with many, only some are counted at each
    look, and the picture tells whose numbers are new and how old the oldest is. Without `visible`, all is asked.
    """
    stamp, hello, info, size, *step = yield ask(
        (b"TIME",), (b"HELLO",), (b"INFO",), (b"HLEN", keys.QUEUES), *_search_due(memory)
    )
    server_ms = reads.stamp(stamp)
    now = server_ms or reads.local_ms()
    notices = _notices(stamp, info)
    yield from _discover(memory, size, step, now, notices)
    found = yield from _workers(now, notices)
    takers = None if found is None else workers.by_queue(found)
    fresh = yield from _numbers(memory, visible, takers, now)
    rows = [known.row for name in memory.names if (known := memory.known.get(name)) is not None]
    alive = None if found is None else [row for row in found if row.alive]
    rows = yield from _known_to_none(rows, alive)
    partial = len(fresh) < len(rows)
    return Snapshot(
        at_ms=now,
        server=read_server(hello, info, address),
        adapters=("native",),
        totals=sums(rows),
        queues=tuple(rows),
        fresh=fresh if partial else None,
        counted_ms=min((part.read_ms for part in memory.parts), default=now),
        notices=tuple(notices),
        local_clock=server_ms is None,
        workers_alive=None if alive is None else len(alive),
        stuck_handlers=MappingProxyType({row.id: row.stuck_handlers for row in alive or () if row.stuck_handlers}),
    )


def names(memory: Memory) -> Program[list[str]]:
    """The queues there are."""
    size, *step = yield ask((b"HLEN", keys.QUEUES), *_search_due(memory))
    yield from _discover(memory, size, step, reads.local_ms(), [])
    return memory.names


def readable(names: Sequence[str], unread: list[tuple[QueueRef, str]]) -> Program[list[str]]:
    """Those of these queues that this qdeck can read; the others with the reason in `unread`. Deleted ones are in
    neither. Raises where none may be read.
    """
    versions = yield from reads.ask_all([(b"HGET", keys.key(name, "meta"), b"v") for name in names])
    found, denied = [], []
    for name, version in zip(names, versions, strict=True):
        if version == VERSION:
            found.append(name)
        elif is_error(version):
            error = version
            unread.append((QueueRef(NATIVE, name), reads.unread_words(name, error)))
            denied += [error] if isinstance(error, NotAllowed) else []
        elif version is not None:
            unread.append((QueueRef(NATIVE, name), reads.unread_words(name, _other_layout(version))))
    if denied and len(denied) == len(names):
        raise denied[0]
    return found


def exists(queue: str) -> Program[bool]:
    """Whether there is a queue of this name; raises when it is not ours or of another layout."""
    if not queue.isascii():
        return False
    version = yield (b"HGET", keys.key(queue, "meta"), "v")
    if version not in (None, VERSION):
        raise LayoutMismatch.of(queue, _shown(version), keys.LAYOUT)
    return version is not None


def need_queue(memory: Memory, queue: str) -> Program[None]:
    """Raises for a queue that is not there, naming those that were perhaps meant."""
    if (yield from exists(queue)):
        return
    known = yield from names(memory)
    near = difflib.get_close_matches(queue, known, 3, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "qdeck status lists the queues"
    raise UsageError(f"there is no queue {queue!r}", hint=hint)


def _other_layout(version: bytes) -> Unreadable:
    return Unreadable(code=UnreadableCode.VERSION, found=_shown(version), wanted=keys.LAYOUT)


def _shown(version: bytes) -> str:
    return version[:40].decode("utf-8", "replace")


def _notices(stamp: Any, info: Any) -> list[str]:
    notices = []
    if is_error(stamp):
        notices.append(reads.LOCAL_CLOCK)
    if is_error(info):
        notices.append("the server's own condition may not be read (INFO): memory and saving are not judged")
    return notices


def _search(memory: Memory) -> keyspace_scan.KeySearch:
    def take(found: Sequence[bytes]) -> None:
        names = (_text(raw[1 : -len(b"}:meta")]) for raw in found)
        memory.strays.names.update(name for name in names if name and "}" not in name)

    return keyspace_scan.KeySearch(memory.strays, b"{*}:meta", None, take)


def _search_due(memory: Memory) -> list[Command]:
    """The next step of the search for queues that the registry lacks: where it names queues, now and then is enough."""
    now = reads.local_ms()
    if memory.registered > 0 and 0 <= now - memory.searched_ms < STRAYS_MS:
        return []
    memory.searched_ms = now
    return [_search(memory).call()]


def _discover(memory: Memory, size: Any, steps: Sequence[Any], now: int, notices: list[str]) -> Program[None]:
    """Brings the list of queues up to date: from the registry, and by a search for what it lacks."""
    search, is_first = _search(memory), memory.strays.is_new
    if is_error(size) and not steps:
        steps = yield ask(search.call())
    is_refused = any(map(is_error, steps))
    if is_error(size) and is_refused:
        refused = size
        if not isinstance(refused, NotAllowed):
            raise refused  # a script holds the server, or it is no Redis at all
        raise NotAllowed(
            f"queues can neither be read from {keys.QUEUES} nor looked for with SCAN: {size}",
            hint="give this user read rights, such as +@read and ~*",
        )
    if is_error(size):
        notices.append(f"the registry {keys.QUEUES} cannot be read ({size}): queues are looked for with SCAN")
    if not is_refused:
        for step in steps:
            search.accept(step)
    if not is_error(size) and (size != memory.registered or now - memory.named_ms > FORGET_MS):
        registered = yield from reads.scan_hash(keys.QUEUES)
        memory.registered, memory.named_ms = len(registered), now
        known = {name for raw in registered if (name := _text(raw))}
        memory.rename(known | memory.strays.names)
    elif memory.strays.names - set(memory.names):
        memory.rename({*memory.names, *memory.strays.names})
    if memory.registered <= 0 and not memory.strays.passes and not is_refused:
        yield from keyspace_scan.sweep([search], is_first=is_first)
        if not memory.strays.passes:
            notices.append("the server has many keys, and no registry of queues: not all keys were looked at yet")
        memory.rename(memory.strays.names)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""  # no name of ours: they are ASCII


def _numbers(
    memory: Memory, visible: Collection[str] | None, takers: dict[str, int] | None, now: int
) -> Program[frozenset[QueueRef]]:
    """Reads the queues whose turn it is, part by part, so that no part takes long; returns which were read."""
    earlier = None if memory.known else (yield from history.read_flow(memory.names, now))
    parts = _parts_due(memory, visible)
    fresh: set[QueueRef] = set()
    denied: list[Unreadable] = []
    for part in parts:
        replies = yield ask(*map(_call, part.names))
        part.read_ms = now
        seen: dict[str, QueueRow] = {}
        for name, reply in zip(part.names, replies, strict=True):
            known, told = memory.known.get(name), _told(reply)
            if known is None or known.reply != told:
                base = _row(name, reply)
                if base is None:
                    memory.known.pop(name, None)
                    continue
                flow = history.Flow.of(base.totals) if base.totals else None
                if known is None:
                    known = memory.known[name] = Known(told, base, base, flow)
                    if earlier is not None and name in earlier[1]:
                        known.marks.append((earlier[0], earlier[1][name]))
                        known.dead_marks.append((earlier[0], earlier[1][name]))
                else:
                    known.reply, known.base, known.flow, known.derived = told, base, flow, ()
            seen[name] = known.base
        chosen = [seen[name] for name in _chosen(memory, part.names, visible) if name in seen]
        memory.details |= yield from read_details(chosen, now, memory.thresholds)
        for name in seen:
            _complete(memory, name, takers, now)
        fresh |= {base.ref for base in seen.values()}
        denied += [row.problem for row in seen.values() if row.problem and row.problem.code is UnreadableCode.NOPERM]
    if fresh and len(denied) == len(fresh) and all(known.base.problem for known in memory.known.values()):
        raise NotAllowed(denied[0].text, hint="give this user read rights, such as +@read and ~*")
    return frozenset(fresh)


def _parts_due(memory: Memory, visible: Collection[str] | None) -> list[Part]:
    """What is read at this look: all of a small deck; of a large one the visible queues and the next ones in turn."""
    unread, memory.unread = memory.unread, set()
    if visible is None or len(memory.names) <= PORTION or not memory.known:
        memory.rounds += 1
        return memory.parts
    due = []
    for _ in range(PORTION // CHUNK):
        if memory.turn >= len(memory.parts):
            memory.turn, memory.rounds = 0, memory.rounds + 1
        due.append(memory.parts[memory.turn])
        memory.turn += 1
    taken = {name for part in due for name in part.names}
    wanted = [name for name in {*visible, *unread} if name not in taken and (name in memory.known or name in unread)]
    return [*(Part(wanted[at : at + CHUNK]) for at in range(0, len(wanted), CHUNK)), *due]


def _told(reply: Any) -> bytes:
    """A reply as what is kept of it: one value is a fifth of many. Another reply is another value, whatever others put
    into a field.
    """
    if is_error(reply):
        return f"! {reply}".encode()
    return b" ".join([b"-" if raw is None else raw if raw.isdigit() else repr(raw).encode() for raw in reply])


def _row(name: str, reply: Any) -> QueueRow | None:
    if is_error(reply):
        return QueueRow(name=name, problem=Unreadable.of(reply))
    version = reply[0]
    if version is None:
        return None  # registered, and never made or deleted since
    if version != VERSION:
        return QueueRow(name=name, problem=_other_layout(version))
    try:
        counts = [0 if raw is None else require_integer(raw) for raw in reply[5:]]
        rate = tuple(require_integer(word) for word in reply[3].split()) if reply[3] else None
        limit = require_integer(reply[2]) if reply[2] else None
    except ValueError:
        meta = keys.key(name, "meta").decode()
        problem = Unreadable(code=UnreadableCode.GARBAGE, what="the counters", key=meta)
        return QueueRow(name=name, problem=problem)
    ready, delayed, blocked, running, dead, done, cancelled = counts[: len(_COUNTS)]
    return QueueRow(
        name=name,
        ready=ready,
        delayed=delayed,
        blocked=blocked,
        running=running,
        done=done,
        dead=dead,
        cancelled=cancelled,
        paused=reply[1] is not None,
        limit=limit,
        rate=(rate[0], rate[1]) if rate and len(rate) == 2 else None,
        totals=MappingProxyType(dict(zip(TOTALS, counts[len(_COUNTS) :], strict=True))),
        unknown_tasks=_refused(reply[4]) if reply[4] else (),
    )


def _refused(raw: bytes) -> tuple[UnknownTask, ...]:
    """The tasks that some worker refused; a line that is not ours is passed over."""
    found = []
    for line in raw.decode("utf-8", "replace").split("\n"):
        words = line.split(" ", 3)
        if len(words) == 4 and all(word.isdecimal() and len(word) < 16 for word in words[:3]):
            found.append(UnknownTask(words[3], int(words[2]), int(words[1])))
    return tuple(found)


def _known_to_none(rows: list[QueueRow], living: Sequence[WorkerRow] | None) -> Program[list[QueueRow]]:
    """The queues without those of their refused tasks that a living worker of the queue knows: it gets their jobs."""
    if not any(row.unknown_tasks for row in rows):
        return rows
    takers = {row.name: [one for one in living or () if row.name in one.queues] for row in rows if row.unknown_tasks}
    wanted = list({one.id: None for ones in takers.values() for one in ones})
    known = yield from workers.read_tasks(wanted)
    found = []
    for row in rows:
        if row.unknown_tasks:
            here = set().union(*(known.get(one.id, ()) for one in takers[row.name]))
            row = replace(row, unknown_tasks=tuple(one for one in row.unknown_tasks if one.task not in here))
        found.append(row)
    return found


def _workers(now: int, notices: list[str]) -> Program[list[WorkerRow] | None]:
    try:
        found = yield from workers.list_workers(now)
        unreadable = [row.id for row in found if row.heartbeat_ms is None]
        if unreadable:
            more = f" and {len(unreadable) - 1:,} more" if len(unreadable) > 1 else ""
            notices.append(f"unreadable in {keys.WORKERS}: worker {unreadable[0]}{more}")
        return found
    except LOST:
        raise
    except QdeckError as error:
        notices.append(f"the workers cannot be read: {error}")
        return None


def _chosen(memory: Memory, names: Sequence[str], visible: Collection[str] | None) -> Iterable[str]:
    """Whose details are read with their part: the visible ones and, from round to round, others of the rest."""
    if visible is None:
        return names
    step = -(-min(len(memory.names), PORTION) // ROTATION)
    return {*visible}.intersection(names).union(names[memory.rounds % step :: step])


def _complete(memory: Memory, name: str, takers: dict[str, int] | None, now: int) -> None:
    """Makes a queue's row of its counts and its details."""
    known = memory.known[name]
    base = known.base
    if base.problem is not None:
        known.row = base
        return
    detail = memory.details.get(name) or _NO_DETAIL
    # A detail may be of an earlier look than the counts.
    waits = detail.oldest_ms is not None and (base.ready or base.delayed)
    oldest = max(0, now - (detail.oldest_ms or 0)) / 1000 if waits else None
    stuck = detail.stuck if base.running else 0
    overdue = detail.overdue if base.delayed else 0
    late = detail.late if waits else 0
    serving = None if takers is None else takers.get(name, 0)
    came, went, dead = known.rates(now)
    derived = (stuck, overdue, late, oldest, detail.exact, came, went, dead, serving, detail.set_aside, detail.problem)
    if known.derived != derived:
        known.derived = derived
        known.row = replace(
            base,
            stuck=stuck,
            overdue=overdue,
            late=late,
            oldest_s=oldest,
            oldest_exact=detail.exact,
            in_per_s=came,
            out_per_s=went,
            dead_per_min=dead,
            workers=serving,
            set_aside=detail.set_aside,
            problem=detail.problem,
        )


_NO_DETAIL: Final = Detail()


def sums(rows: Sequence[QueueRow]) -> Totals:
    """The sums over all queues that could be read."""
    return Totals(
        ready=sum(row.ready or 0 for row in rows),
        delayed=sum(row.delayed or 0 for row in rows),
        blocked=sum(row.blocked or 0 for row in rows),
        running=sum(row.running or 0 for row in rows),
        stuck=sum(row.stuck or 0 for row in rows),
        late=sum(row.late or 0 for row in rows),
        dead=sum(row.dead or 0 for row in rows),
    )
