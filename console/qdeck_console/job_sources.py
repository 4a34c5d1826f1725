"""The sources of long lists of jobs: a part by its position, or a search in the background.

Neither ever holds a queue: the one reads what is on screen, the other keeps ids, and not more of them than can be
scrolled through.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from qdeck.admin import Feature, JobRecord, Needs, SkipCode, Walk, has_feature, newest_first, parse
from qdeck_console.departed_jobs import GoneJob
from qdeck_console.pace import Pace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from qdeck.admin import AsyncReader, JobDetail, QueueRef

MOST_KEPT: Final = 20_000  # matches that can be scrolled through; beyond them they are counted
_FOREIGN_KEPT: Final = 2_000
_FIRST_S: Final = 0.4  # for a search, until there is a screenful to show
_SCREENFUL: Final = 60
_BUDGET_S: Final = 0.05  # for a search, at each refresh and each time that it continues between them
_AGAIN_S: Final = 2.0
_SLICE: Final = 500
_MET: Final = 50  # of the jobs that were read last: behind one of them a list is gone on with


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPart:
    """The jobs of a list from `first` on. `total` is `exact`, or that of `scanned` entries looked at so far.

    `reach` is up to where the list can be scrolled: it is shorter than `total` when there are very many matches.
    """

    rows: tuple[JobRecord | GoneJob, ...] = ()
    first: int = 0
    total: int = 0
    reach: int = 0
    exact: bool = True
    scanned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJobs:
    """The part of a list that was read, and the details of the job under the cursor."""

    part: ListPart = field(default_factory=ListPart)
    detail: JobDetail | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeEnd:
    """Where a stretch of a list ends: a job (none where it was not read yet), and its place when it was last seen."""

    id: str
    key: str
    place: int


class JobSource(ABC):
    """A list of jobs of one queue in one state."""

    def __init__(self, reader: AsyncReader, ref: QueueRef, state: str, *, newest: bool | None = None) -> None:
        self.reader, self.ref, self.state, self.newest = reader, ref, state, newest

    @abstractmethod
    async def read(self, first: int, count: int, around: str | None = None) -> ListPart:
        """Return `count` jobs from a place on, or around one of them."""

    @abstractmethod
    def between(self, first: JobRecord, last: RangeEnd) -> AsyncIterator[Sequence[JobRecord]]:
        """The jobs behind one of the list up to another one, in slices, as they are when each is read."""

    async def present(self, jobs: Sequence[JobRecord]) -> list[bool]:
        """Return which of these are in the list still."""
        ids, found = [job.id for job in jobs], []
        for at in range(0, len(ids), _SLICE):
            found += await self.reader.present(self.ref.name, self.state, ids[at : at + _SLICE])
        return found

    async def with_left(self, part: ListPart, left: GoneJob, at: int) -> ListPart:
        """The same with a job that left the list in its old place, because someone looks at it."""
        here = at - part.first
        if not 0 <= here <= len(part.rows):
            return part
        if any(row.key == left.key for row in part.rows):
            return replace(part, rows=tuple(left if row.key == left.key else row for row in part.rows))
        return replace(part, rows=(*part.rows[:here], left, *part.rows[here:]), reach=part.reach + 1)


class Ranked(JobSource):
    """A native list without a filter, read by place."""

    async def read(self, first: int, count: int, around: str | None = None) -> ListPart:
        """One or two round trips, however long the list is."""
        found = await self.reader.stretch(self.ref.name, self.state, first, count, newest=self.newest, around=around)
        return ListPart(rows=found.jobs, first=found.first, total=found.total, reach=found.total, scanned=found.total)

    async def between(self, first: JobRecord, last: RangeEnd) -> AsyncIterator[Sequence[JobRecord]]:
        """By place, from slice to slice behind the jobs that were read last."""
        met = [first.id]
        while True:
            found = await self.reader.stretch_after(
                self.ref.name, self.state, met, last.id, last.place, newest=self.newest
            )
            yield found.jobs
            if not found.total or not found.jobs:
                return
            met = [job.id for job in found.jobs[-_MET:]]


class SearchSource(JobSource):
    """A list that has to be looked through. It is looked through again when it has been, at a pace of its own."""

    most: int = MOST_KEPT

    def __init__(
        self, reader: AsyncReader, ref: QueueRef, state: str, where: str, *, newest: bool | None = None
    ) -> None:
        super().__init__(reader, ref, state, newest=newest)
        self.where = where
        self._shown: list[str | JobRecord] = []
        self._total, self._scanned, self._exact = 0, 0, False
        self._found: list[str | JobRecord] = []
        self._count = 0
        self._pace = Pace(_AGAIN_S)
        self._goes_on = False
        self._one = asyncio.Lock()

    @abstractmethod
    async def _restart(self) -> None:
        """Begin at the start of the list."""

    @abstractmethod
    async def _next(self) -> tuple[Sequence[str | JobRecord], int] | None:
        """The next matches and how many were looked at until now; None at the end."""

    def _with(self, found: Sequence[str | JobRecord]) -> list[str | JobRecord]:
        """Return the matches until now and these, in the order of the list."""
        return [*self._found, *found]

    async def _look(self, enough: int) -> None:
        started = time.monotonic()
        if not self._goes_on:
            if self._exact and not self._pace.is_due:
                return
            self._found, self._count, self._goes_on = [], 0, True
            await self._restart()
        while True:
            part = await self._next()
            passed = time.monotonic() - started
            if part is not None:
                self._count += len(part[0])
                self._found = self._with(part[0])[: self.most]
                self._scanned = max(self._scanned, part[1]) if self._exact else part[1]
            if part is None or not self._exact:  # until the first search is over, what was found so far is shown
                self._shown, self._total = self._found, self._count
            if part is None:
                self._goes_on, self._exact = False, True
                self._pace.spend(passed)
                self._pace.rest()
                return
            if passed > (_FIRST_S if len(self._shown) < enough else _BUDGET_S):
                self._pace.spend(passed)
                return

    @property
    def unfinished(self) -> bool:
        """Whether there is more to look through before the numbers are exact."""
        return not self._exact

    async def go_on(self) -> None:
        """Looks through more of the list, for a moment."""
        async with self._one:
            await self._look(0)

    async def read(self, first: int, count: int, around: str | None = None) -> ListPart:
        """Return what was found until now, each job as it is at this moment."""
        if self._exact or not self._shown or not self._one.locked():  # else someone is at it already
            async with self._one:
                await self._look(min(first + count, _SCREENFUL))
        if around is not None and around in self._shown:
            first = max(0, self._shown.index(around) - count // 2)
        some = self._shown[first : first + count]
        ids = [entry for entry in some if isinstance(entry, str)]
        now = dict(zip(ids, await self.reader.jobs_now(self.ref.name, ids), strict=True)) if ids else {}
        rows = tuple(entry if isinstance(entry, JobRecord) else self._row(entry, now[entry]) for entry in some)
        return ListPart(
            rows=rows,
            first=first,
            total=self._total,
            reach=len(self._shown),
            exact=self._exact,
            scanned=self._scanned,
        )

    def _row(self, job_id: str, record: JobRecord | None) -> JobRecord | GoneJob:
        if record is not None and record.state == self.state:
            return record
        key = f"{self.ref}/{job_id}"
        if record is None:
            return GoneJob(key=key, id=job_id, code=SkipCode.GONE)
        return GoneJob(key=key, id=job_id, code=SkipCode.MOVED, data=record.state)

    async def between(self, first: JobRecord, last: RangeEnd) -> AsyncIterator[Sequence[JobRecord]]:
        """Of what was found until now."""
        shown = list(self._shown)
        places = {entry if isinstance(entry, str) else entry.key: at for at, entry in enumerate(shown)}
        begin = places.get(first.id, places.get(first.key))
        end = places.get(last.id, places.get(last.key, last.place))
        if begin is None:
            return
        for at in range(begin + 1, end + 1, _SLICE):
            some = shown[at : min(end + 1, at + _SLICE)]
            ids = [entry for entry in some if isinstance(entry, str)]
            known = dict(zip(ids, await self.reader.jobs_now(self.ref.name, ids), strict=True)) if ids else {}
            rows = [known[entry] if isinstance(entry, str) else entry for entry in some]
            yield [row for row in rows if row is not None and row.state == self.state]


class NativeSearch(SearchSource):
    """A native list with a filter."""

    _walk: Walk

    async def _restart(self) -> None:
        now = time.time_ns() // 1_000_000
        wanted = parse(self.where)
        needs = Needs.of(wanted, now, self.state)
        down = newest_first(self.state, self.newest)
        # Small pages: a key waits for one of them at most.
        self._walk = Walk(self.ref.name, self.state, needs, now, size=_SLICE, down=down)

    async def _next(self) -> tuple[Sequence[str | JobRecord], int] | None:
        ids = await self.reader.filtered(self._walk)
        return None if ids is None else (ids, self._walk.scanned)


class Foreign(SearchSource):
    """A list of another adapter, which gives its entries in its own order. Jobs that ended are sorted by time."""

    most = _FOREIGN_KEPT

    async def present(self, jobs: Sequence[JobRecord]) -> list[bool]:
        """The result of the last scan of the whole list."""
        keys = {entry.key for entry in self._shown if isinstance(entry, JobRecord)}
        whole = self._exact and self._total == len(self._shown)
        return [not whole or job.key in keys for job in jobs]

    def _with(self, found: Sequence[str | JobRecord]) -> list[str | JobRecord]:
        every = [*self._found, *found]
        if not newest_first(self.state, self.newest):
            return every
        known = {job.key: job for job in every if isinstance(job, JobRecord)}
        return [*sorted(known.values(), key=lambda job: -job.moment_ms)]

    async def _restart(self) -> None:
        self._cursor: str | None = None
        self._begun = False
        self._looked_at = 0

    async def _next(self) -> tuple[Sequence[str | JobRecord], int] | None:
        if self._begun and self._cursor is None:
            return None
        page = await self.reader.page(self.ref, state=self.state, where=self.where, cursor=self._cursor)
        self._begun, self._cursor = True, page.cursor
        self._looked_at += page.scanned
        return page.jobs, self._looked_at


def source(reader: AsyncReader, queue: QueueRef, state: str, where: str, *, newest: bool | None = None) -> JobSource:
    """The source for a list."""
    if not has_feature(queue.adapter, Feature.ORDER):
        return Foreign(reader, queue, state, where, newest=newest)
    if where.strip():
        return NativeSearch(reader, queue, state, where, newest=newest)
    return Ranked(reader, queue, state, newest=newest)
