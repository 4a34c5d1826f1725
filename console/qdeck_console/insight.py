"""What a screen tells of one queue besides its row: times, deaths by error, the last operations. They are read for the
queue that is looked at only, and then no more often than their cost allows.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck import NotAllowed, QdeckError
from qdeck.admin import Feature, QueueRef, State, has_feature
from qdeck_console.history import Pasts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from qdeck.admin import (
        Activity,
        AsyncReader,
        BatchOutcomes,
        CloseUp,
        JobDetail,
        JobRecord,
        Kind,
        QueueRow,
        Sample,
    )

T = TypeVar("T")

REST_S: Final = 2.0  # between two looks at one queue, at least
_COSTS: Final = 20  # a look may take this part of the time
_LOG_REST_S: Final = 5.0
_LOG: Final = 200  # operations that are looked through
_KEPT: Final = 50  # queues
_COUNTED: Final = 1_000  # jobs of an operation whose outcomes are read here; those of more are in the log of operations
_RETURNED: Final = ("retry", "requeue", "run", "edit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """One queue close up. `operations` are the last ones that were done to it, the newest first; `outcomes` is what
    happened to the jobs of the newest one that let some run again.
    """

    queue: QueueRef
    close_up: CloseUp | None = None
    operations: tuple[Activity, ...] = ()
    outcomes: BatchOutcomes | None = None


@dataclass(frozen=True, slots=True)
class Looked(Pasts):
    """The past of some queues, and one of them close up."""

    insight: Insight | None = None


async def read_pasts(reader: AsyncReader, queues: Sequence[QueueRef]) -> Mapping[QueueRef, Sequence[Sample]]:
    """What agents saw of these queues; nothing where that may not be read, and it is not asked for all along."""
    found: dict[QueueRef, Sequence[Sample]] = dict.fromkeys(queues, ())
    kept = {ref.name: ref for ref in queues if has_feature(ref.adapter, Feature.DETAILS)}
    if kept:
        with contextlib.suppress(NotAllowed):
            found |= {kept[name]: seen for name, seen in (await reader.histories(list(kept))).items()}
    return found


class Pauses:
    """When something is due to be read again: not before it rested for many times what it cost."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}
        self._took: dict[str, float] = {}

    async def run(self, what: str, read: Callable[[], Awaitable[T]], rest_s: float) -> T | None:
        """What a read finds, when it is due. What may not be read is no reason to think the server lost."""
        started = time.monotonic()
        if started < self._next.get(what, 0.0):
            return None
        found = None
        try:
            found = await read()
        except NotAllowed:
            rest_s *= 10
        except QdeckError as error:
            if isinstance(error, OSError):
                raise
        now = time.monotonic()
        # One that waited for a frozen server says nothing of the next: it costs what two in a row took.
        took, self._took[what] = min(now - started, self._took.get(what, 0.0)), now - started
        self._next[what] = now + max(rest_s, _COSTS * took)
        return found

    def forget(self) -> None:
        """Drops what rested long enough, when that is much."""
        if len(self._next) > 4 * _KEPT:
            now = time.monotonic()
            self._next = {what: at for what, at in self._next.items() if at > now}
            self._took = {what: took for what, took in self._took.items() if what in self._next}


class Insights:
    """Looks at one queue after the other, and remembers the last ones so that going back shows them at once."""

    def __init__(self) -> None:
        self._known: dict[QueueRef, CloseUp | None] = {}
        self._shared: Collection[str] = ()
        self._pauses = Pauses()
        self._log: list[Activity] = []
        self._outcomes: BatchOutcomes | None = None

    def known(self, queue: QueueRef) -> Insight | None:
        """What was read of a queue, if anything was."""
        if queue not in self._known:
            return None
        label = queue.label(self._shared)
        done = tuple(row for row in self._log if label in row.queues)
        mine = self._outcomes is not None and any(row.batch == self._outcomes.batch for row in done)
        outcomes = self._outcomes if mine else None
        return Insight(queue=queue, close_up=self._known[queue], operations=done, outcomes=outcomes)

    async def look(self, reader: AsyncReader, row: QueueRow) -> Insight | None:
        """Reads what is due of a queue."""
        ref, label, self._shared = row.ref, reader.label(row.ref), reader.shared
        log = await self._pauses.run("log", lambda: reader.recent_activity(_LOG), _LOG_REST_S)
        self._log = self._log if log is None else log
        close_up = None
        if row.has(Feature.DETAILS) and row.problem is None:
            close_up = await self._pauses.run(f"queue {ref}", lambda: reader.queue_details(row.name), REST_S)
        before = self._known.pop(ref, None)
        self._known[ref] = close_up or before  # the last one that was looked at is the last to be forgotten
        last = next((done for done in self._log if label in done.queues and done.verb in _RETURNED), None)
        if last is not None and (batch := last.batch) is not None and last.counts.get("applied", 0) <= _COUNTED:
            found = await self._pauses.run(f"batch {batch}", lambda: reader.batch_outcomes(batch), _LOG_REST_S)
            self._outcomes = found or self._outcomes
        self._forget()
        return self.known(ref)

    def _forget(self) -> None:
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        self._pauses.forget()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job with those around it, and with those that died of the same."""

    job: JobDetail
    related: Mapping[str, JobRecord] = field(default_factory=lambda: MappingProxyType({}))
    kin: Kind | None = None


class JobInsight:
    """Reads one job at each look, and what is around it now and then."""

    def __init__(self) -> None:
        self._pauses = Pauses()
        self._related: Mapping[str, JobRecord] = {}
        self._kin: Kind | None = None

    async def look(self, reader: AsyncReader, queue: QueueRef, job_id: str) -> JobSeen:
        """The job as it is now; raises `UnknownJob` where there is none."""
        job = await reader.job(queue, job_id)
        refs = (*job.depends_on, *job.dependents)
        if job.has(Feature.RELATIONS) and refs:
            found = await self._pauses.run(f"related {job.state}", lambda: reader.related(queue.name, refs), REST_S)
            self._related = self._related if found is None else found
        if job.has(Feature.GROUP_COUNTS) and job.state == State.DEAD:
            self._kin = (
                await self._pauses.run("kin", lambda: reader.same_failure(queue.name, job_id), REST_S) or self._kin
            )
        return JobSeen(job=job, related=self._related, kin=self._kin if job.state == State.DEAD else None)
