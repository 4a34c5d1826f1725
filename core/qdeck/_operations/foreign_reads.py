"""What is stuck, and groups of dead letters, of every adapter: read from those of other systems, then put together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qdeck._deck.model import State
from qdeck._operations import groups as dead
from qdeck._operations.foreign import ground_of
from qdeck._operations.groups import OTHER, Gathering, Group, Groups
from qdeck._redis import reads
from qdeck.adapters.model import Entry
from qdeck.adapters.native import stuck
from qdeck.adapters.native.stuck import StuckJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._deck.model import QueueRef
    from qdeck._deck.native import Memory
    from qdeck._deck.reasons import Stuck
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.others import Others

WAITING = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)


def read_stuck(
    queues: Sequence[tuple[Adapter, str]],
    *,
    wanted: Filter | None = None,
    limit: int | None = None,
    each: Callable[[list[StuckJob]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    unread: list[str] | None = None,
) -> Program[list[StuckJob]]:
    """What does not move, each with the reason; whether its worker lives is not known. `each` as of qdeck's own."""
    found: list[StuckJob] = []
    for adapter, queue in queues:
        keys: set[str] = set()
        cursor: str | None = None
        while limit is None or len(found) < limit:
            reading = adapter.page(queue, WAITING, wanted=wanted, cursor=cursor)
            page = yield from reads.contained(reading, queue, [] if unread is None else unread)
            if page is None:
                break
            if cancelled is not None and cancelled():
                return found
            for entry in page.jobs:
                if isinstance(entry, Entry) and entry.stuck is not None and entry.key not in keys:
                    keys.add(entry.key)
                    found.append(_stuck(entry, entry.stuck))
            if each is not None:
                each(found)
                found = []
            cursor = page.cursor
            if cursor is None:
                break
    return found[:limit]


def _stuck(entry: Entry, why: Stuck) -> StuckJob:
    return StuckJob(
        id=entry.id, queue=entry.queue, why=why, age_s=entry.age_s, stuck_s=entry.age_s,
        worker=entry.worker, worker_alive=None, task=entry.task, attempts=entry.attempts, adapter=entry.adapter,
    )  # fmt: skip


def read_groups(
    queues: Sequence[tuple[Adapter, str]],
    *,
    now: int,
    wanted: Filter | None = None,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Groups]:
    """The dead letters of these queues in groups."""
    gathered: list[tuple[str, Gathering]] = []
    exact, total = True, 0
    unread: list[str] = []
    for adapter, queue in queues:
        gathering = Gathering(now_ms=now)
        gathered.append((adapter.name, gathering))
        keys: set[str] = set()
        cursor: str | None = None
        while True:
            if (most_read is not None and total >= most_read) or (cancelled is not None and cancelled()):
                exact = False
                break
            reading = adapter.page(queue, (State.DEAD,), wanted=wanted, cursor=cursor)
            page = yield from reads.contained(reading, queue, unread)
            if page is None:
                exact = False
                break
            for entry in page.jobs:
                if isinstance(entry, Entry) and (adapter.repeats or entry.key not in keys):
                    keys.add(entry.key)
                    gathering.add(entry)
                    total += 1
            cursor = page.cursor
            if cursor is None:
                break
    found = [
        replace(group, adapter=name)
        for name, gathering in gathered
        for group in gathering.finish(exact=exact).groups
    ]  # fmt: skip
    return Groups(groups=tuple(found), total=total, exact=exact, unread=tuple(unread))


def merged(one: Groups, other: Groups) -> Groups:
    """The groups of both, the largest first."""

    def place(group: Group) -> tuple[bool, int, str, str]:
        return group.error_class == OTHER, -group.count, group.error_class, group.message_shape

    return Groups(
        groups=tuple(sorted((*one.groups, *other.groups), key=place)),
        total=one.total + other.total,
        exact=one.exact and other.exact,
        unread=(*one.unread, *other.unread),
    )


def all_groups(
    memory: Memory,
    others: Others,
    queues: Sequence[str | QueueRef],
    wanted: Filter,
    *,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Groups]:
    """Return the dead letters of some queues, or of all, in groups."""
    ground = yield from ground_of(memory, others, queues, wanted)
    found = yield from dead.read_groups(ground.native, wanted=wanted, most_read=most_read, cancelled=cancelled)
    if ground.unread:
        left_out = tuple(why for _, why in ground.unread)
        found = replace(found, exact=False, unread=(*left_out, *found.unread))
    if not ground.foreign:
        return found
    now = yield from reads.clock()
    theirs = yield from read_groups(ground.foreign, now=now, wanted=wanted, most_read=most_read, cancelled=cancelled)
    return merged(found, theirs)


def all_stuck(
    memory: Memory,
    others: Others,
    queues: Sequence[str | QueueRef],
    wanted: Filter,
    limit: int | None,
    *,
    unread: list[str],
    each: Callable[[list[StuckJob]], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[list[StuckJob]]:
    """Return the stuck jobs of some queues, or of all. Queues that cannot be read are added to `unread`."""
    ground = yield from ground_of(memory, others, queues, wanted)
    unread += [why for _, why in ground.unread]
    found = yield from stuck.read_stuck(
        ground.native, wanted=wanted, limit=limit, unread=unread, each=each, cancelled=cancelled
    )
    left = None if limit is None else limit - len(found)
    return found + (
        yield from read_stuck(ground.foreign, wanted=wanted, limit=left, unread=unread, each=each, cancelled=cancelled)
    )
