"""The native queue as an adapter. What only some methods need is imported in them, as every command makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from qdeck._engine import keys
from qdeck._model.queue_ref import Feature, QueueRef
from qdeck._model.values import NATIVE, State
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck._server import native_queues
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import ALL, NO_QUEUE, SLICE, Capability, Entry, Kind, Look, Part, Raw, Seen, Source
from qdeck.adapters.native import VERBS, newest_first

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import JobDetail, JobLocation, Page, QueueRow, Snapshot, WorkerRow
    from qdeck._model.words import Verb
    from qdeck._redis.commands import Program
    from qdeck._settings import AdapterSettings
    from qdeck._settings.limits import Limits
    from qdeck.adapters.applying import Applier
    from qdeck.adapters.groups import Gathering
    from qdeck.adapters.model import AdapterHealth, Outcome, Want
    from qdeck.adapters.native.plans import Owners
    from qdeck.adapters.native.unreadable import Broken
    from qdeck.adapters.outcomes import KeptOutcomes, PlannedEntries
    from qdeck.adapters.plans import Context, Pages, Rule, Search, Weighed
    from qdeck.adapters.undoing import Undoer

_CAPABILITIES: Final = {verb: Capability(states=states) for verb, states in VERBS.items()}


class Native(Adapter):
    """qdeck's own queues on one server, with the state that is kept between refreshes."""

    name = NATIVE
    about = "qdeck:queues and {queue}:meta, qdeck's own"
    on_cluster = True
    changes_on_cluster = True
    registry = keys.QUEUES
    knows_ids = True
    acl_keys = ("{*}:*",)
    counts_orphans = True
    features = frozenset(Feature)
    outcome_evidence: ClassVar[str] = "each job is looked up by its id"
    sees_all_outcomes: ClassVar[bool] = True

    def __init__(
        self,
        settings: AdapterSettings | None = None,
        *,
        memory: native_queues.RefreshCache | None = None,
        address: str = "",
    ) -> None:
        super().__init__(settings)
        self._memory, self._address = memory or native_queues.RefreshCache(), address
        self.thresholds = self._memory.thresholds

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the registry of the queues."""
        return {keys.QUEUES.encode(): Kind.HASH}

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs of native jobs, and the states to which they apply."""
        return _CAPABILITIES

    def look(self, visible: Collection[str] | None = None) -> Program[Snapshot]:
        """Return a snapshot of all queues; `visible` names those whose expensive numbers are wanted."""
        return native_queues.read_snapshot(self._memory, self._address, visible)

    def rows(self, now: int) -> Program[Look]:
        """Return the queues with their numbers."""
        seen = yield from self.look()
        return Look(rows=seen.queues, notices=seen.notices)

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """Return the workers, as each last registered itself."""
        from qdeck._server import workers

        return workers.list_workers(now)

    def names(self, only: Collection[str] | None, unread: list[tuple[QueueRef, str]]) -> Program[list[str]]:
        """Return all or some of the queues; add those that cannot be read to `unread`."""
        known = yield from native_queues.names(self._memory)
        return (
            yield from native_queues.readable([name for name in known if QueueRef(NATIVE, name).is_in(only)], unread)
        )

    def need(self, queue: str) -> Program[None]:
        """Raise an error for a missing queue, with similar names."""
        return native_queues.need_queue(self._memory, queue)

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the sorted sets of these states."""
        yield from ()  # reads nothing, but is a program
        return [
            Source(
                key=keys.key(queue, state), kind=Kind.ZSET, state=State(state), native_state=keys.PARTS[state][0],
                down=newest_first(state, None),
            )
            for state in states
        ]  # fmt: skip

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the jobs with all that lists show."""
        from qdeck.adapters.native import jobs, records

        seen = {raw.member: raw.seen() for raw in raws}
        rows = [records.Row(queue, raw.source.state, raw.member, raw.score or b"", now, True) for raw in raws]
        rows = yield from jobs.complete(queue, rows, bodies=Part.BODY in want, errors=Part.ERROR in want)
        return [Entry(**records.facts(row), seen=seen[row.raw_id]) for row in rows]

    def page(
        self,
        queue: str,
        states: Sequence[str],
        *,
        wanted: Filter | None = None,
        cursor: str | None = None,
        most: int = SLICE,
        now: int | None = None,
        newest: bool | None = None,
        want: Want = ALL,
    ) -> Program[Page]:
        """Return the next slice of the jobs in these states, with what the filter and a list need."""
        from qdeck.adapters.native import jobs

        return jobs.page(queue, states, wanted=wanted, cursor=cursor, most=most, now=now, newest=newest, want=want)

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """Return the details of one job, by its id or its key."""
        from qdeck.adapters.native import job

        yield from self.need(queue)
        return (yield from job.read_job(queue, _id_of(queue, wanted)))

    def entry(self, queue: str, wanted: str) -> Program[Entry | None]:
        """Return one job as an entry, by its id or its key."""
        from qdeck.adapters.native import job

        now = yield from reads.clock()
        [row] = yield from job.by_id(queue, [_id_of(queue, wanted)], now)
        if row is None:
            return None
        [source] = yield from self.sources(queue, (row.state,))
        found = yield from self.fill(queue, [Raw(source=source, member=row.raw_id, score=row.score)], now, ALL)
        return next(iter(found), None)

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned jobs as they are now; None for one that left its state, even if it returned."""
        from qdeck.adapters.native import job

        rows = yield from job.by_id(queue, [text_of(one.member) for one in seen], now)
        same = [
            one for one, row in zip(seen, rows, strict=True) if row and (row.state, row.score) == (state, one.score)
        ]
        found = dict(zip(same, (yield from super().recall(queue, state, same, now)), strict=True))
        return [found.get(one) for one in seen]

    def find(self, names: Sequence[str], job_id: str, unread: list[str]) -> Program[list[JobLocation]]:
        """Return the locations of a job in these queues."""
        from qdeck.adapters.native import job

        return (yield from job.find(names, job_id, unread))

    @property
    def is_there(self) -> bool:
        """Always true: a server may have no queue yet."""
        return True

    def health(self, now: int, rows: Sequence[QueueRow], orphans: Limits | None = None) -> Program[AdapterHealth]:
        """Return the numbers for the health checks."""
        from qdeck.adapters.native import health

        return health.measure(rows, now, orphans)

    def unreadable(self, rows: Sequence[QueueRow], notices: list[str]) -> Program[list[Broken]]:
        """Return what cannot be read in these queues."""
        from qdeck.adapters.native import unreadable

        return unreadable.find(rows, notices)

    def rules(self, queue: str) -> Sequence[Rule]:
        """Return the purge rules."""
        from qdeck.adapters.native.purge import RULES

        return RULES if queue != NO_QUEUE else ()

    def prepare(self, verb: str, now: int) -> Program[Owners]:
        """Return what reads the workers once for a plan, if needed; `apply.lua` reads the rest."""
        from qdeck.adapters.native.plans import Owners

        yield from ()  # reads nothing, but is a program
        return Owners()

    def pages(self, queue: str, search: Search) -> Program[list[Pages]]:
        """Return the search in a queue, list by list."""
        from qdeck.adapters.native import plans

        return plans.pages(queue, search)

    def weigh(self, verb: str, rows: Sequence[Any], context: Context, reasons: Sequence[str] = ()) -> Program[Weighed]:
        """Return the versions of jobs of one queue and state, their bytes if they are removed, and their dependents."""
        from qdeck.adapters.native import plans

        return plans.weigh(verb, rows, context, reasons)

    def mark(self, version: str) -> str:
        """Return nothing: ids are unique, and the version is a score or a lease."""
        return ""

    def applier(self, context: Context, keep_ms: int, trip_ms: float) -> Applier:
        """Return what applies the slices of a plan; a round trip without work took `trip_ms`."""
        from qdeck.adapters.native.applying import NativeApplier

        return NativeApplier(context, keep_ms, trip_ms)

    def undoer(self, batch: str, queues: Sequence[str], target: str | None = None) -> Undoer:
        """Return the undo of a batch in these queues; `target` is the queue to which it moved jobs."""
        from qdeck.adapters.native.undoing import NativeUndoer

        return NativeUndoer(batch, queues, target)

    def take_counts(self, queue: str, gathering: Gathering, now: int) -> Program[bool]:
        """Add the groups of dead letters that a queue counts by itself; return false if they are incomplete."""
        from qdeck.adapters.native import groups

        return groups.take_counts(QueueRef(self.name, queue), gathering, now)

    def planned_outcomes(self, planned: PlannedEntries) -> Program[list[Outcome | None]]:
        """Return the outcomes of planned jobs since the plan was applied; None for one that was not changed."""
        from qdeck.adapters.native import outcomes

        return outcomes.of_planned(planned.entries)

    def kept_outcomes(self, batch: str, queues: Sequence[str], target: str | None) -> Program[KeptOutcomes | None]:
        """Return the outcomes of a batch from what these queues store about it."""
        from qdeck.adapters.native import outcomes

        return (yield from outcomes.of_batch(batch, queues, target))

    def last_errors(self, queue: str, ids: Sequence[str]) -> Program[list[tuple[str, str]]]:
        """Return class and message of the last errors of jobs."""
        from qdeck.adapters.native import outcomes

        return outcomes.last_errors(queue, ids)

    def stuck_pages(
        self, queues: Sequence[str], wanted: Filter | None, now: int
    ) -> Program[Sequence[tuple[str, Pages]]]:
        """Return the searches that find the stuck jobs of these queues."""
        from qdeck.adapters.native import stuck

        return [(pages.queue, pages) for pages in (yield from stuck.pages(queues, wanted, now))]


def _id_of(queue: str, wanted: str) -> str:
    return wanted.removeprefix(f"{NATIVE}/{queue}/")
