"""The list of native queues and their counts, from plain reads, with a cache between refreshes."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._engine.stored_numbers import require_integer
from qdeck._errors import LayoutMismatch, NotAllowed, QdeckError, UsageError
from qdeck._model.values import NATIVE, QueueRef, QueueRow, Snapshot, Totals, UnknownTaskJobs, WorkerRow
from qdeck._model.words import Unreadable, UnreadableCode
from qdeck._queue_names import QueueType
from qdeck._redis import keyspace_scan, reads
from qdeck._redis.commands import Sleep, with_errors
from qdeck._redis.errors import LOST, is_error
from qdeck._server import failure_rates, history, late_schedules, workers
from qdeck._server.counted_queues import TOTALS, CountedQueue, CountedTotals
from qdeck._server.queue_details import Detail, pause_of, read_details
from qdeck._server.server_info import READ_SAVES, read_server
from qdeck._settings.thresholds import Thresholds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from qdeck._redis.commands import Command, Program

VERSION: Final = keys.LAYOUT.encode()
CHUNK: Final = 50  # queues read in one round trip; a few ms of work, for others on the event loop
STRAYS_MS: Final = 5000  # between steps of the search for queues that the registry does not name
_SAVES_MS: Final = 60_000  # how long it is believed what the server saves
FORGET_MS: Final = 30_000  # how long the list of names is used while the registry keeps its size
ROTATION: Final = 200  # queues beyond the visible ones whose details are read in each refresh
PORTION: Final = 1000  # queues beyond the visible ones whose counts are read in each later refresh

_COUNTS: Final = ("ready", "delayed", "blocked", "running", "dead_letter", "done", "cancelled")
_FIELDS: Final = ("v", "paused", "limit", "rate", "unknown_tasks", *_COUNTS, *(f"n:{name}" for name in TOTALS))


@dataclass(slots=True)
class QueueChunk:
    """Queues that are read in one round trip, and when they were read."""

    names: list[str]
    read_ms: int = 0


@dataclass(slots=True)
class RefreshCache:
    """What a reader keeps from refresh to refresh, so that the next one reads less and can compute rates."""

    names: list[str] = field(default_factory=list)
    registered: int = -1
    named_ms: int = 0
    unregistered: keyspace_scan.UnregisteredQueues = field(default_factory=keyspace_scan.UnregisteredQueues)
    saves: Any = None  # the reply of READ_SAVES, read again each minute
    saves_ms: int = 0
    searched_ms: int = 0  # by this machine's clock, because no other is known when a refresh begins
    parts: list[QueueChunk] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)  # new ones, to be read in the next refresh
    known: dict[str, CountedQueue] = field(default_factory=dict)
    details: dict[str, Detail] = field(default_factory=dict)
    next_part: int = 0
    rounds: int = -1
    thresholds: Thresholds = field(default_factory=Thresholds)
    failing: dict[str, failure_rates.FailureRates] = field(default_factory=dict)
    failing_ms: int = 0
    due_runs: late_schedules.DueRuns = field(default_factory=late_schedules.DueRuns)
    beside: Sequence[str] = ()  # the names of the queues of other systems, for a name that does not exist

    def rename(self, names: Iterable[str]) -> None:
        """Replace the list of queues."""
        found = sorted(names)
        if found != self.names or not self.parts:
            self.unread = set(found).difference(self.names)
            self.names = found
            self.known = {name: self.known[name] for name in found if name in self.known}
            self.details = {name: self.details[name] for name in found if name in self.details}
            read_ms = min((part.read_ms for part in self.parts), default=0)
            self.parts = [QueueChunk(found[at : at + CHUNK], read_ms) for at in range(0, len(found), CHUNK)]


def _call(queue: str) -> Command:
    return (b"HMGET", keys.key(queue, "meta"), *_FIELDS)


def read_snapshot(cache: RefreshCache, address: str, visible: Collection[str] | None = None) -> Program[Snapshot]:
    """Return a snapshot of all queues, without findings. `visible` names those whose oldest and stuck jobs are read.

    The others are read in turns, so that ten thousand queues cost little: of very many, each refresh counts only some,
    and the snapshot has which numbers are new and how old the oldest is. Without `visible`, all are read.
    """
    ask_saves = reads.local_ms() - cache.saves_ms >= _SAVES_MS
    stamp, hello, info, schedules, size, *step = yield with_errors(
        (b"TIME",), (b"HELLO",), (b"INFO",), late_schedules.READ, (b"HLEN", keys.QUEUES), *_search_due(cache),
        *([READ_SAVES] if ask_saves else []),
    )  # fmt: skip
    if ask_saves:
        cache.saves, cache.saves_ms = step.pop(), reads.local_ms()
    server_ms = reads.stamp(stamp)
    now = server_ms or reads.local_ms()
    notices = _notices(stamp, info)
    yield from _discover(cache, size, step, now, notices)
    found = yield from _workers(now, notices)
    takers = None if found is None else workers.by_queue(found)
    fresh = yield from _read_counts(cache, visible, takers, now)
    rows = [known.row for name in cache.names if (known := cache.known.get(name)) is not None]
    alive = None if found is None else [row for row in found if row.alive]
    rows = yield from _unknown_to_all(rows, alive)
    partial = len(fresh) < len(rows)
    if partial:
        yield Sleep(0)
    return Snapshot(
        at_ms=now,
        server=read_server(hello, info, cache.saves, address),
        adapters=("native",),
        totals=sums(rows),
        queues=tuple(rows),
        fresh=fresh if partial else None,
        counted_ms=min((part.read_ms for part in cache.parts), default=now),
        notices=tuple(notices),
        local_clock=server_ms is None,
        workers_alive=None if alive is None else len(alive),
        late_schedules=(yield from cache.due_runs.late(schedules, now)),
        stuck_handlers=MappingProxyType({row.id: row.stuck_handlers for row in alive or () if row.stuck_handlers}),
    )


def names(cache: RefreshCache) -> Program[list[str]]:
    """Return the names of the queues."""
    size, *step = yield with_errors((b"HLEN", keys.QUEUES), *_search_due(cache))
    yield from _discover(cache, size, step, reads.local_ms(), [])
    return cache.names


def readable(names: Sequence[str], unread: list[tuple[QueueRef, str]]) -> Program[list[str]]:
    """Return the queues that this qdeck can read; the others with the reason in `unread`. Deleted ones are in
    neither. Raise where none may be read."""
    versions = yield from reads.try_all([(b"HGET", keys.key(name, "meta"), b"v") for name in names])
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
    """Return whether a queue exists; raise when another program wrote it or it has another layout version."""
    if not queue.isascii():
        return False
    version = yield (b"HGET", keys.key(queue, "meta"), "v")
    if version not in (None, VERSION):
        raise LayoutMismatch.of(queue, _shown(version), keys.LAYOUT)
    return version is not None


def need_queue(cache: RefreshCache, queue: str) -> Program[None]:
    """Raise for a queue that does not exist, with similar names."""
    if (yield from exists(queue)):
        return
    known = yield from names(cache)
    part = f":{':'.join(word.strip() for word in queue.replace('▸', ':').split(':'))}:"  # as screens show names
    named = [name for name in known if part in f":{name}:"][:3]
    raise UsageError(f"there is no queue {queue!r}", hint=near_words(queue, [*known, *cache.beside], named))


def is_short_for(short: str, name: str) -> bool:
    """Return whether a screen can show a queue by a name: without its first parts and without its usual type."""
    parts = ":".join(word.strip() for word in short.replace("▸", ":").split(":"))
    return f":{name.removesuffix(f':{QueueType.ACTIONS}')}".endswith(f":{parts}")


def near_words(queue: str, known: Sequence[str], named: Sequence[str] = ()) -> str:
    """Return the hint for the name of a queue that does not exist: those that are named so in short, or similar."""
    near = named or difflib.get_close_matches(queue, known, 3, 0.5)
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else "Run qdeck status to list the queues."


def _other_layout(version: bytes) -> Unreadable:
    return Unreadable(code=UnreadableCode.VERSION, found=_shown(version), wanted=keys.LAYOUT)


def _shown(version: bytes) -> str:
    return version[:40].decode("utf-8", "replace")


def _notices(stamp: Any, info: Any) -> list[str]:
    notices = []
    if is_error(stamp):
        notices.append(reads.LOCAL_CLOCK)
    if is_error(info):
        notices.append("INFO is not allowed: the state of the server's memory and saves is unknown")
    return notices


def _search(cache: RefreshCache) -> keyspace_scan.KeySearch:
    def take(found: Sequence[bytes]) -> None:
        names = (_text(raw[1 : -len(b"}:meta")]) for raw in found)
        cache.unregistered.names.update(name for name in names if name and "}" not in name)

    return keyspace_scan.KeySearch(cache.unregistered, b"{*}:meta", None, take)


def _search_due(cache: RefreshCache) -> list[Command]:
    """Return the next step of the search for unregistered queues: with a registry, now and then is enough."""
    now = reads.local_ms()
    if cache.registered > 0 and 0 <= now - cache.searched_ms < STRAYS_MS:
        return []
    cache.searched_ms = now
    return [_search(cache).call()]


def _discover(cache: RefreshCache, size: Any, steps: Sequence[Any], now: int, notices: list[str]) -> Program[None]:
    """Update the list of queues: from the registry, and by a search for unregistered ones."""
    search, is_first = _search(cache), cache.unregistered.is_new
    if is_error(size) and not steps:
        steps = yield with_errors(search.call())
    is_refused = any(map(is_error, steps))
    if is_error(size) and is_refused:
        refused = size
        if not isinstance(refused, NotAllowed):
            raise refused  # a script blocks the server, or it is not Redis at all
        raise NotAllowed(
            f"queues can neither be read from {keys.QUEUES} nor searched with SCAN: {size}",
            hint="Give this user read rights, such as +@read and ~*",
        )
    if is_error(size):
        notices.append(f"the registry {keys.QUEUES} cannot be read ({size}): queues are searched with SCAN")
    if not is_refused:
        for step in steps:
            search.accept(step)
    if not is_error(size) and (size != cache.registered or now - cache.named_ms > FORGET_MS):
        registered = yield from reads.scan_hash(keys.QUEUES)
        cache.registered, cache.named_ms = len(registered), now
        known = {name for raw in registered if (name := _text(raw))}
        cache.rename(known | cache.unregistered.names)
    elif cache.unregistered.names - set(cache.names):
        cache.rename({*cache.names, *cache.unregistered.names})
    if cache.registered <= 0 and not cache.unregistered.passes and not is_refused:
        yield from keyspace_scan.sweep([search], is_first=is_first)
        if not cache.unregistered.passes:
            notices.append(
                "the server has many keys, and no registry of queues: its keys have not all been searched yet"
            )
        cache.rename(cache.unregistered.names)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return ""  # not a name of qdeck: they are ASCII


def _read_counts(
    cache: RefreshCache, visible: Collection[str] | None, takers: dict[str, int] | None, now: int
) -> Program[frozenset[QueueRef]]:
    """Read the queues that are due, part by part, so that no part takes long; return which were read."""
    is_first = not cache.known
    earlier = (yield from history.read_flow(cache.names, now)) if is_first else None
    parts = _parts_due(cache, visible)
    fresh: set[QueueRef] = set()
    denied: list[Unreadable] = []
    for part in parts:
        replies = yield with_errors(*map(_call, part.names))
        part.read_ms = now
        seen: dict[str, QueueRow] = {}
        for name, reply in zip(part.names, replies, strict=True):
            known, kept = cache.known.get(name), _shared(reply)
            if known is None or known.reply != kept:
                base = _row(name, reply)
                if base is None:
                    cache.known.pop(name, None)
                    continue
                flow = history.Flow.of(base.totals) if base.totals else None
                if known is None:
                    known = cache.known[name] = CountedQueue(kept, base, flow)
                    if earlier is not None and name in earlier[1]:
                        known.past_flows.extend((earlier[0], *earlier[1][name]))
                        known.past_deaths.extend((earlier[0], *earlier[1][name]))
                else:
                    known.reply, known.row, known.flow = kept, base, flow
            seen[name] = known.row
        chosen = [seen[name] for name in _chosen(cache, part.names, visible) if name in seen]
        cache.details |= yield from read_details(chosen, now, cache.thresholds, takers)
        for name in seen:
            _row_of(cache, name, takers, now)
        fresh |= {row.ref for row in seen.values()}
        unread = [row.problem for row in seen.values() if row.is_unread and row.problem]
        denied += [problem for problem in unread if problem.code is UnreadableCode.NOPERM]
    if not is_first or earlier is not None:  # else no agent has sampled the queues lately
        yield from _read_failures(cache, visible, takers, now)
    if fresh and len(denied) == len(fresh) and all(known.row.is_unread for known in cache.known.values()):
        raise NotAllowed(denied[0].text, hint="Give this user read rights, such as +@read and ~*")
    return frozenset(fresh)


def _read_failures(
    cache: RefreshCache, visible: Collection[str] | None, takers: dict[str, int] | None, now: int
) -> Program[None]:
    """Compare the failures of the visible queues with those of their last hours, now and then."""
    if 0 <= now - cache.failing_ms < failure_rates.EVERY_MS:
        return
    seen = [name for name in (cache.known if visible is None else visible) if name in cache.known]
    names = [name for name in seen if cache.known[name].row.totals.get("failed")][: failure_rates.MOST_QUEUES]
    if names:
        cache.failing, cache.failing_ms = (yield from failure_rates.read(names)), now
        for name in names:
            _row_of(cache, name, takers, now)


def _parts_due(cache: RefreshCache, visible: Collection[str] | None) -> list[QueueChunk]:
    """Return the parts of this refresh: all of a few queues; of very many the visible ones and the next in turn."""
    unread, cache.unread = cache.unread, set()
    if visible is None or len(cache.names) <= PORTION or not cache.known:
        cache.rounds += 1
        return cache.parts
    due = []
    for _ in range(PORTION // CHUNK):
        if cache.next_part >= len(cache.parts):
            cache.next_part, cache.rounds = 0, cache.rounds + 1
        due.append(cache.parts[cache.next_part])
        cache.next_part += 1
    taken = {name for part in due for name in part.names}
    wanted = [name for name in {*visible, *unread} if name not in taken and (name in cache.known or name in unread)]
    return [*(QueueChunk(wanted[at : at + CHUNK]) for at in range(0, len(wanted), CHUNK)), *due]


def _shared(reply: Any) -> bytes:
    """Return a reply as it is kept: one value stands for many equal ones."""
    if is_error(reply):
        return f"! {reply}".encode()
    return b" ".join([b"-" if raw is None else raw if raw.isdigit() else repr(raw).encode() for raw in reply])


def _row(name: str, reply: Any) -> QueueRow | None:
    if is_error(reply):
        return QueueRow(name=name, problem=Unreadable.of(reply))
    version = reply[0]
    if version is None:
        return None  # registered, and never created or deleted since
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
        pause=pause_of(reply[1]),
        limit=limit,
        rate=(rate[0], rate[1]) if rate and len(rate) == 2 else None,
        totals=CountedTotals(counts[len(_COUNTS) :]),
        unknown_tasks=_refused(reply[4]) if reply[4] else (),
    )


def _refused(raw: bytes) -> tuple[UnknownTaskJobs, ...]:
    """Return the tasks that some worker refused; skip a line of another program."""
    found = []
    for line in raw.decode("utf-8", "replace").split("\n"):
        words = line.split(" ", 3)
        if len(words) == 4 and all(word.isdecimal() and len(word) < 16 for word in words[:3]):
            found.append(UnknownTaskJobs(words[3], int(words[2]), int(words[1])))
    return tuple(found)


def _unknown_to_all(rows: list[QueueRow], living: Sequence[WorkerRow] | None) -> Program[list[QueueRow]]:
    """Return the refused tasks that no living worker of a queue has."""
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


def _chosen(cache: RefreshCache, names: Sequence[str], visible: Collection[str] | None) -> Iterable[str]:
    """Return the queues whose details are read: the visible ones and, from round to round, others."""
    if visible is None:
        return names
    step = -(-min(len(cache.names), PORTION) // ROTATION)
    return {*visible}.intersection(names).union(names[cache.rounds % step :: step])


def _row_of(cache: RefreshCache, name: str, takers: dict[str, int] | None, now: int) -> None:
    """Return a queue's row from its counts and its details."""
    known = cache.known[name]
    row = known.row
    if row.is_unread:
        return
    detail = cache.details.get(name) or _NO_DETAIL
    # A detail may be of an earlier refresh than the counts.
    waits = detail.oldest_ms is not None and (row.ready or row.delayed)
    oldest = max(0, now - (detail.oldest_ms or 0)) / 1000 if waits else None
    stuck, over_limit = (detail.stuck, detail.over_limit) if row.running else (0, 0)
    overdue = detail.overdue if row.delayed else 0
    late, late_delayed = (detail.late, detail.late_delayed) if waits else (0, 0)
    serving = None if takers is None else takers.get(name, 0)
    came, went, dead = known.rates(now)
    derived = (
        stuck, over_limit, overdue, late, late_delayed, oldest, detail.exact, came, went, dead, serving,
        detail.set_aside, detail.undelivered, detail.problem, cache.failing.get(name),
    )  # fmt: skip
    if _read_derived(row) != derived:
        changes: dict[str, Any] = dict(zip(_DERIVED, derived, strict=True))
        known.row = replace(row, **changes)


_DERIVED: Final = (
    "stuck", "over_limit", "overdue", "late", "late_delayed", "oldest_s", "oldest_exact", "in_per_s", "out_per_s",
    "dead_per_min", "workers", "set_aside", "undelivered", "problem",
    "failing",
)  # fmt: skip
_read_derived: Final = attrgetter(*_DERIVED)
_NO_DETAIL: Final = Detail()
_NO_TOTALS: Final = Totals()
_SUMMED: Final = {one.name: attrgetter(one.name) for one in fields(Totals)}


def sums(rows: Sequence[QueueRow], others: Totals = _NO_TOTALS) -> Totals:
    """Return the sums over all queues that could be read, and those of others."""
    return Totals(
        **{name: getattr(others, name) + sum(filter(None, map(read, rows))) for name, read in _SUMMED.items()}
    )
