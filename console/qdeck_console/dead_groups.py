"""The dead letters of all queues in groups, kept up to date queue by queue, a little work at each refresh.

A queue is read again only when its numbers changed, and not before it has rested for many times what reading it cost:
a million dead letters are shown from the first page on, and become exact in the background.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from qdeck.admin import PART_MS, Entry, Feature, Gathering, Groups, GroupWalk, QueueRef, parse
from qdeck_console.pace import Pace
from qdeck_console.steps import pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck.admin import AsyncReader, Group, QueueRow, Snapshot

MOST: Final = 1000  # groups that are listed, the largest; all are counted
_BUDGET_S: Final = 0.12
_AGAIN_S: Final = 0.02  # once all were read: what changed is read again with less hurry
_FIRST_S: Final = 0.3
_STEP: Final = 1000  # queues between two pauses
_TOGETHER: Final = 10  # queues whose counts are read in one go: a few ms of work
_UNCOUNTED_S: Final = 5.0  # between two readings of a queue that does not count its groups, at least
_RESORT_S: Final = 10.0
_QUIET_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Triaged:
    """The groups so far: `scanned` of `of` dead letters read, exact when all that can be read were. `unread` queues
    could not be read.
    """

    groups: tuple[Group, ...] = ()
    count: int = 0  # of all groups; `groups` are the largest
    total: int = 0
    scanned: int = 0
    of: int = 0
    exact: bool = True
    unread: int = 0


@dataclass(slots=True)
class _Queue:
    """One queue: the groups when it was read last, and the reading in progress."""

    ref: QueueRef
    is_counted: bool
    size: int = 0
    mark: tuple[object, ...] = ()
    read_mark: tuple[object, ...] | None = None
    found: Groups | None = None
    gathering: Gathering | None = None
    walk: GroupWalk | None = None
    cursor: str | None = None
    looked_at: int = 0
    pace: Pace = field(default_factory=Pace)
    has_trends: bool = True
    groups: Groups = field(default_factory=lambda: Groups(groups=(), total=0, exact=False))

    def rest(self) -> None:
        """End a read."""
        self.pace.rest(0.0 if self.is_counted else _UNCOUNTED_S)


class Triage:
    """Groups of all queues of a server that match a filter."""

    def __init__(self, reader: AsyncReader, where: str) -> None:
        self._reader, self._where, self._wanted = reader, where, parse(where)
        self._queues: dict[QueueRef, _Queue] = {}
        self._order: dict[tuple[str, str, str], int] = {}
        self._sorted_at = float("-inf")
        self._visible: set[QueueRef] = set()
        self._left_out = 0
        self._one = asyncio.Lock()

    async def go_on(self, snapshot: Snapshot) -> None:
        """Continue to read for a moment."""
        async with self._one:
            await self._look(snapshot)

    async def look(
        self, snapshot: Snapshot, *, last_key_at: float = float("-inf"), visible: Iterable[str] = ()
    ) -> Triaged:
        """Read on for a moment, unless that in progress, and return what is known. Of the queues of `visible` groups
        the trend is read too.
        """
        self._visible = {QueueRef.parse(key.partition("\n")[0]) for key in visible}
        if not self._one.locked() or not self._queues:
            async with self._one:
                await self._look(snapshot)
        return await self._result(list(self._queues.values()), last_key_at)

    async def _look(self, snapshot: Snapshot) -> None:
        named = self._wanted.pushdown(snapshot.at_ms).queues
        queues: list[_Queue] = []
        due: list[_Queue] = []
        left_out = 0
        for at in range(0, len(snapshot.queues), _STEP):
            await pause()
            rows = [row for row in snapshot.queues[at : at + _STEP] if row.ref.is_in(named)]
            left_out += sum(row.is_unread for row in rows)
            some = [self._known(row, snapshot.at_ms) for row in rows if row.dead]
            queues += some
            due += filter(self._is_due, some)
        self._left_out = left_out
        self._queues = {queue.ref: queue for queue in queues}
        await pause()
        started = time.monotonic()
        due.sort(key=lambda queue: (queue.found is not None, queue.ref not in self._visible, queue.size))
        is_begun = any(queue.found or queue.gathering for queue in queues)
        begun = _AGAIN_S if all(queue.found for queue in queues) else _BUDGET_S
        budget = begun if is_begun else _FIRST_S
        for queue in await self._read_counts(due, started + budget):
            if time.monotonic() - started > budget:
                break
            await self._read(queue, snapshot.at_ms, started)

    async def _read_counts(self, due: Sequence[_Queue], until: float) -> list[_Queue]:
        """Read the groups of many queues together, where they count them; return the others, and the visible ones,
        whose trends are read one by one.
        """
        alone: list[_Queue] = []
        together: list[_Queue] = []
        for queue in due:
            counts = queue.is_counted and self._wanted.is_everything and queue.gathering is None
            (together if counts and not (queue.found and queue.ref in self._visible) else alone).append(queue)
        for at in range(0, len(together), _TOGETHER):
            if time.monotonic() > until:
                break
            some, begun = together[at : at + _TOGETHER], time.monotonic()
            counted = await self._reader.counted_groups([queue.ref.name for queue in some])
            now = time.monotonic()
            for queue in some:
                found = counted.get(queue.ref.name)
                if found is None:
                    alone.append(queue)
                    continue
                queue.groups = queue.found = _with_trends(found, queue.found)
                queue.read_mark, queue.has_trends = queue.mark, False
                queue.pace.spend((now - begun) / len(some))
                queue.rest()
            await pause()
        return alone

    def _known(self, row: QueueRow, now_ms: int) -> _Queue:
        queue = self._queues.get(row.ref) or _Queue(row.ref, row.has(Feature.GROUP_COUNTS))
        queue.size = row.dead or 0
        # The last part of the hour is in it because the trend moves on with it.
        queue.mark = (row.dead, row.totals.get("dead"), row.totals.get("dropped_dead"), now_ms // PART_MS)
        return queue

    def _is_due(self, queue: _Queue) -> bool:
        if queue.gathering is not None:
            return True
        changed = queue.read_mark != queue.mark or not queue.is_counted
        if not queue.has_trends and queue.ref in self._visible:
            changed = True
        return changed and (queue.found is None or queue.pace.is_due)

    async def _read(self, queue: _Queue, now_ms: int, tick: float) -> None:
        with queue.pace.spending():
            over = await self._read_on(queue, now_ms, tick)
        if over:
            queue.rest()

    async def _read_on(self, queue: _Queue, now_ms: int, tick: float) -> bool:
        """Read a queue for a moment; return whether it was read completely."""
        if queue.gathering is None and queue.is_counted and self._wanted.is_everything:
            # Queues count their dead letters by group: most need not be read at all.
            counted = await self._reader.queue_groups(queue.ref.name)
            if counted.exact or counted.unread:
                queue.groups = queue.found = counted
                queue.read_mark, queue.has_trends = queue.mark, True
                return True
        if queue.gathering is None:
            queue.gathering, queue.read_mark = Gathering(now_ms=now_ms), queue.mark
            queue.walk, queue.cursor, queue.looked_at = None, None, 0
            if queue.is_counted:
                queue.walk = GroupWalk(queue.ref.name, now_ms, queue.gathering, self._wanted)
        over = False
        while not over and time.monotonic() - tick < (_BUDGET_S if queue.looked_at else _FIRST_S):
            over = await self._page(queue)
        if over or queue.found is None:
            queue.groups = queue.gathering.finish(exact=over)
        if over:
            queue.found, queue.gathering = queue.groups, None
        return over

    async def _page(self, queue: _Queue) -> bool:
        assert queue.gathering is not None  # noqa: S101 - _read made it
        if queue.walk is not None:
            is_read = await self._reader.gather(queue.walk)
            queue.looked_at = queue.walk.scanned
            return queue.walk.over or not is_read
        page = await self._reader.page(queue.ref, state="dead", where=self._where, cursor=queue.cursor)
        for job in page.jobs:
            if isinstance(job, Entry):
                queue.gathering.add(job)
        queue.cursor, queue.looked_at = page.cursor, queue.looked_at + page.scanned
        return page.cursor is None

    def sort_anew(self) -> None:
        """Let the next refresh sort the groups: they are not visible now."""
        self._order = {}

    async def _result(self, queues: Sequence[_Queue], last_key_at: float) -> Triaged:
        await pause()
        groups = [group for queue in queues for group in queue.groups.groups]
        now, count, order = time.monotonic(), len(groups), self._order
        resort = not order or (now - self._sorted_at >= _RESORT_S and now - last_key_at >= _QUIET_S)
        self._sorted_at = now if resort else self._sorted_at
        ranked: list[tuple[tuple[str | int, ...], int]] = []
        for at in range(0, count, _STEP):
            await pause()
            for number, group in enumerate(groups[at : at + _STEP], at):
                key = _key(group)
                # Rows do not move while the operator reads them.
                rank = (-group.count, group.queue, *key) if resort else (order.get(key, len(order)), -group.count)
                ranked.append((rank, number))
        await pause()
        groups = [groups[number] for _, number in nsmallest(MOST, ranked)]
        self._order = {_key(group): at for at, group in enumerate(groups)}
        await pause()
        return Triaged(
            groups=tuple(groups),
            count=count,
            total=sum(queue.groups.total for queue in queues),
            scanned=sum(
                queue.size if queue.found is not None else min(queue.looked_at, queue.size) for queue in queues
            ),
            of=sum(queue.size for queue in queues),
            exact=all(queue.found is not None for queue in queues),
            unread=self._left_out + sum(bool(queue.groups.unread) for queue in queues),
        )


def _with_trends(found: Groups, before: Groups | None) -> Groups:
    """Return new counts with the known trends."""
    trends = {_key(group): group.trend for group in before.groups if group.trend} if before is not None else {}
    if not trends:
        return found
    return replace(found, groups=tuple(replace(group, trend=trends.get(_key(group), ())) for group in found.groups))


def _key(group: Group) -> tuple[str, str, str]:
    return str(group.ref), group.error_class, group.message_shape


def key_of(group: Group) -> str:
    """Return the identity of a group."""
    return "\n".join(_key(group))


def narrowed(group: Group, where: str) -> str:
    """Return the filter for the jobs of a group that match another filter too."""
    return f"{group.where} ({where})" if where.strip() and group.where else group.where or where
