"""What there is of temporary queues: tasks and what they own, queues and who waits on them, orphans, counts.

For screens and reports. All are programs of plain reads, which a deck runs: `deck.look(…)`, `await deck.alook(…)`.

    tasks = await deck.alook(read_tasks())                    # TaskPage: tasks in order of their names, page by page
    more = await deck.alook(read_tasks(after=tasks.next))
    queues = await deck.alook(read_queues())                  # QueuePage: those whose time ends first come first
    own = await deck.alook(read_queues(task="task_001"))      # those of one task
    counts = await deck.alook(read_counts())                  # LifeCycleCount: made, cleaned, expired, orphaned, freed
    search = OrphanSearch()                                   # nobody registered them and nobody used them for a day
    seen = await deck.alook(search.step())                    # Orphans: so far; one slice of the keys for each call

To look at a queue is no use of it: how many messages it holds cannot be read without touching it, so bytes are told.
To clean a task from a deck, with a batch that `undo_batch` takes back: first the plan, then the same for real.

    plan = await deck.alook(report_task("task_001", dry_run=True))      # CleanReport: removed, in_use, kept, samples
    done = await deck.awrite(report_task("task_001"))                   # and batch, undoable, undo_until_ms
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from qdeck._redis import reads
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages._cleaning import report_task
from qdeck.messages._manager import LifeCycleCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Program
    from qdeck.messages._cleaning import Removal
    from qdeck.messages._registry import Temporary

__all__ = [
    "OrphanSearch",
    "Orphans",
    "QueuePage",
    "QueueRow",
    "RemovableSearch",
    "TaskPage",
    "TaskRow",
    "read_counts",
    "read_queues",
    "read_tasks",
    "report_task",
]

PAGE: Final = 500
MOST_ORPHANS: Final = 1000  # that are told by name


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One registered temporary queue. `exists`: there is a list; a queue is registered before anything is in it.

    `bytes` and `idle_s` are None where the rights do not reach, or nothing is there.
    """

    name: str
    service: str
    type: str
    tier: str
    task: str
    made_ms: int
    expires_ms: int
    waited_until_ms: int
    is_waited_on: bool
    is_expired: bool
    exists: bool
    bytes: int | None = None
    idle_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Some of the queues; `total` is how many there are, `next` where the rest begins, None at the end."""

    now_ms: int
    total: int
    rows: tuple[QueueRow, ...] = ()
    next: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task that owns temporary queues. Its queues live until the last of them ends; `services` made them."""

    task: str
    queues: int
    waited_on: int
    expired: int
    services: tuple[str, ...]
    tier: str
    made_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """Some of the tasks; `next` is what to give as `after` for the rest, None at the end.

    `queues` is how many temporary queues there are of all tasks and of none, `unowned` those that belong to no task.
    """

    now_ms: int
    queues: int
    unowned: int
    rows: tuple[TaskRow, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """What a search found so far: sums of all, and the first by name."""

    scanned: int = 0
    count: int = 0
    bytes: int = 0
    rows: tuple[Removal, ...] = ()
    is_done: bool = False


def read_queues(*, task: str | None = None, start: int = 0, most: int = PAGE) -> Program[QueuePage]:
    """Registered temporary queues: of a task, or of all, those first whose time ends first."""
    now = yield from reads.clock()
    if task is not None:
        names = yield from registry.of_task(task, start + most + 1)
        total, names = len(names), names[start:]
    else:
        total_reply, raw = yield reads.read(
            (b"ZCARD", registry.QUEUES), (b"ZRANGE", registry.QUEUES, start, start + most)
        )
        total = int(reads.good(total_reply))
        names = [name.decode("utf-8", "replace") for name in reads.good(raw)]
    shown = names[:most]
    rows = yield from _rows(shown, now)
    return QueuePage(now_ms=now, total=total, rows=rows, next=start + most if len(names) > most else None)


def read_tasks(*, after: str = "", most: int = PAGE) -> Program[TaskPage]:
    """Tasks that own temporary queues, by name, of about so many queues."""
    now = yield from reads.clock()
    first = f"({after}\0\xff" if after else "-"
    cards = yield reads.read(
        (b"ZCARD", registry.QUEUES),
        (b"ZCARD", registry.TASKS),
        (b"ZRANGEBYLEX", registry.TASKS, first, b"+", b"LIMIT", 0, most + 1),
    )
    queues, owned, raw = int(reads.good(cards[0])), int(reads.good(cards[1])), reads.good(cards[2])
    pairs = [_pair(member) for member in raw]
    cut = len(pairs) > most
    if cut:
        # The last task may go on beyond the page: it is the next page's, unless the page is all its own.
        last = pairs[-1][0]
        whole = [pair for pair in pairs if pair[0] != last]
        pairs = whole or [(last, name) for name in (yield from registry.of_task(last, 10 * most))]
    known = yield from registry.describe([name for _, name in pairs])
    found = zip((task for task, _ in pairs), known, strict=True)
    rows = [
        _task(task, [one for _, one in group if one is not None], now)
        for task, group in groupby(found, key=lambda row: row[0])
    ]
    after = pairs[-1][0] if cut and pairs else ""
    kept = tuple(row for row in rows if row.queues)
    return TaskPage(now_ms=now, queues=queues, unowned=max(0, queues - owned), rows=kept, next=after or None)


def read_counts() -> Program[list[LifeCycleCount]]:
    """What happened to temporary queues since the server was set up, per service, type and tier."""
    rows = yield from registry.metrics()
    return [LifeCycleCount(event=e, service=s, type=k, tier=t, count=n) for e, s, k, t, n in rows]


class OrphanSearch:
    """Looks through the keys for temporary queues that nobody owns, a slice for each step; the steps are the pace."""

    def __init__(self, idle_s: int = cleaning.IDLE_S, most: int = MOST_ORPHANS) -> None:
        self._idle_s = max(1, idle_s)
        self._most = most
        self._cursor: Any = 0
        self.seen = Orphans()

    def step(self) -> Program[Orphans]:
        """One slice more; after the last, what was found."""
        if self.seen.is_done:
            return self.seen
        found = yield from cleaning.find_orphans(self._cursor, idle_s=self._idle_s)
        self._cursor = found.cursor
        room = self._most - len(self.seen.rows)
        self.seen = replace(
            self.seen,
            scanned=self.seen.scanned + found.scanned,
            count=self.seen.count + len(found.found),
            bytes=self.seen.bytes + sum(one.bytes for one in found.found),
            rows=(*self.seen.rows, *found.found[:room]) if room > 0 else self.seen.rows,
            is_done=found.cursor == 0,
        )
        return self.seen


class RemovableSearch:
    """What a cleaner would remove: queues whose time is over, then orphans; for the dry run of a purge."""

    def __init__(self, idle_s: int = cleaning.IDLE_S) -> None:
        self._orphans = OrphanSearch(idle_s, most=0)
        self._start: int | None = 0
        self.expired = 0
        self.bytes = 0

    @property
    def orphans(self) -> int:
        """How many queues nobody owns."""
        return self._orphans.seen.count

    @property
    def scanned(self) -> int:
        """How many keys were looked at."""
        return self._orphans.seen.scanned

    def step(self) -> Program[bool]:
        """One slice; whether there is more."""
        if self._start is not None:
            found = yield from cleaning.look_expired(self._start)
            over = [one for one in found if one.outcome == "would_remove"]
            self.expired += len(over)
            self.bytes += sum(one.bytes for one in over)
            self._start = self._start + len(found) if len(found) == cleaning.SLICE else None
            return True
        before = self._orphans.seen.bytes
        seen = yield from self._orphans.step()
        self.bytes += seen.bytes - before
        return not seen.is_done


def _pair(member: bytes) -> tuple[str, str]:
    """Task and queue of a member of the registry; one without a mark is passed over like a task without queues."""
    text = member.decode("utf-8", "replace")
    task, mark, name = text.rpartition("\0")
    return (task, name) if mark else (text, "")


def _rows(names: Sequence[str], now: int) -> Program[tuple[QueueRow, ...]]:
    known = yield from registry.describe(names)
    there = [one for one in known if one is not None]
    looks = [
        command
        for one in there
        for command in ((b"TYPE", one.name), (b"OBJECT", b"IDLETIME", one.name), (b"MEMORY", b"USAGE", one.name))
    ]
    replies = (yield reads.read(*looks)) if looks else []
    rows = []
    for at, one in enumerate(there):
        kind, idle, size = replies[3 * at : 3 * at + 3]
        rows.append(
            QueueRow(
                name=one.name,
                service=one.service,
                type=one.type,
                tier=one.tier,
                task=one.task,
                made_ms=one.made_ms,
                expires_ms=one.expires_ms,
                waited_until_ms=one.waited_until_ms,
                is_waited_on=one.waited_until_ms > now,
                is_expired=_is_expired(one, now),
                exists=kind == b"list",
                bytes=size if isinstance(size, int) else None,
                idle_s=idle if isinstance(idle, int) else None,
            )
        )
    return tuple(rows)


def _task(task: str, queues: Sequence[Temporary], now: int) -> TaskRow:
    tiers = {one.tier for one in queues if one.tier}
    return TaskRow(
        task=task,
        queues=len(queues),
        waited_on=sum(one.waited_until_ms > now for one in queues),
        expired=sum(_is_expired(one, now) for one in queues),
        services=tuple(sorted({one.service for one in queues})),
        tier=tiers.pop() if len(tiers) == 1 else "",
        made_ms=min((one.made_ms for one in queues), default=0),
        expires_ms=max((one.expires_ms for one in queues), default=0),
    )


def _is_expired(one: Temporary, now: int) -> bool:
    return one.expires_ms <= now and one.waited_until_ms <= now
