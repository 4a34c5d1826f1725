"""The details of a queue besides its row: durations, dead letters by error, operations. They are read for the
queue that is looked at only, and then no more often than their cost allows.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck import NotAllowed
from qdeck.admin import Feature, QueueRef, State, has_feature
from qdeck_console.history import Pasts
from qdeck_console.pace import Paces

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qdeck.admin import (
        Activity,
        AsyncReader,
        BatchOutcomes,
        CloseUp,
        CountedGroup,
        JobDetail,
        JobRecord,
        QueueRow,
        Sample,
    )

REST_S: Final = 2.0  # between two reads of one queue, at least
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
    """The history of some queues, and the details of one of them."""

    insight: Insight | None = None


async def read_pasts(reader: AsyncReader, queues: Sequence[QueueRef]) -> Mapping[QueueRef, Sequence[Sample]]:
    """Return the samples of agents for these queues; none where it is not allowed, which is checked rarely."""
    found: dict[QueueRef, Sequence[Sample]] = dict.fromkeys(queues, ())
    kept = {ref.name: ref for ref in queues if has_feature(ref.adapter, Feature.DETAILS)}
    if kept:
        with contextlib.suppress(NotAllowed):
            found |= {kept[name]: seen for name, seen in (await reader.histories(list(kept))).items()}
    return found


class Insights:
    """Looks at one queue after the other, and remembers the last ones so that going back shows them at once."""

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, reader: AsyncReader | None) -> None:
        """Begin with a reader. Another one may see more or less: what was read by the one before is forgotten."""
        self._reader = reader
        self._known: dict[QueueRef, CloseUp | None] = {}
        self._shared: Collection[str] = ()
        self._paces = Paces(times=_COSTS)
        self._log: list[Activity] = []
        self._outcomes: BatchOutcomes | None = None

    def known(self, queue: QueueRef) -> Insight | None:
        """Return the data that was read about a queue, or None."""
        if queue not in self._known:
            return None
        label = queue.label(self._shared)
        done = tuple(row for row in self._log if label in row.queues)
        mine = self._outcomes is not None and any(row.batch == self._outcomes.batch for row in done)
        outcomes = self._outcomes if mine else None
        return Insight(queue=queue, close_up=self._known[queue], operations=done, outcomes=outcomes)

    async def look(self, reader: AsyncReader, row: QueueRow) -> Insight | None:
        """Read what is due of a queue."""
        if reader is not self._reader:
            self._begin(reader)
        ref, label, self._shared = row.ref, reader.label(row.ref), reader.shared
        log = await self._paces.read("log", lambda: reader.recent_activity(_LOG), _LOG_REST_S)
        self._log = self._log if log is None else log
        close_up = None
        if row.has(Feature.DETAILS) and row.problem is None:
            close_up = await self._paces.read(f"queue {ref}", lambda: reader.queue_details(row.name), REST_S)
        before = self._known.pop(ref, None)
        self._known[ref] = close_up or before  # the last one that was looked at is the last to be forgotten
        last = next((done for done in self._log if label in done.queues and done.verb in _RETURNED), None)
        if last is not None and (batch := last.batch) is not None and last.counts.get("applied", 0) <= _COUNTED:
            found = await self._paces.read(f"batch {batch}", lambda: reader.batch_outcomes(batch), _LOG_REST_S)
            self._outcomes = found or self._outcomes
        self._forget()
        return self.known(ref)

    def _forget(self) -> None:
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAround:
    """A job with those around it, and with those that died of the same."""

    job: JobDetail
    related: Mapping[str, JobRecord] = field(default_factory=lambda: MappingProxyType({}))
    kin: CountedGroup | None = None


class JobInsight:
    """Reads one job at each look, and what is around it now and then."""

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, reader: AsyncReader | None) -> None:
        """Begin with a reader. Another one may see more or less."""
        self._reader = reader
        self._paces = Paces(times=_COSTS)
        self._related: Mapping[str, JobRecord] = {}
        self._kin: CountedGroup | None = None

    async def look(self, reader: AsyncReader, queue: QueueRef, job_id: str) -> JobAround:
        """The job as it is now; raises `UnknownJob` where there is none."""
        if reader is not self._reader:
            self._begin(reader)
        job = await reader.job(queue, job_id)
        refs = (*job.depends_on, *job.dependents)
        if job.has(Feature.RELATIONS) and refs:
            found = await self._paces.read(f"related {job.state}", lambda: reader.related(queue.name, refs), REST_S)
            self._related = self._related if found is None else found
        if job.has(Feature.GROUP_COUNTS) and job.state == State.DEAD:
            self._kin = (
                await self._paces.read("kin", lambda: reader.same_failure(queue.name, job_id), REST_S) or self._kin
            )
        return JobAround(job=job, related=self._related, kin=self._kin if job.state == State.DEAD else None)
