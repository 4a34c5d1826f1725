"""The base class of adapters: how one queue system stores its queues, and which verbs it supports.

An adapter returns programs of plain reads and builds the changes of its verbs as values; it does no input or output.
Its author defines the sources (the keys that hold the entries of a state) and how an entry is decoded; paging, filters
and lookups are the same for all adapters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import structs

from qdeck._errors import UnknownJob
from qdeck._model.queue_ref import Feature
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import JobLocation, State
from qdeck._model.words import Verb
from qdeck._settings.model import AdapterSettings
from qdeck._settings.thresholds import Thresholds
from qdeck.adapters.model import (
    ALL,
    SLICE,
    AdapterHealth,
    Capability,
    Discovered,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Seen,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import JobDetail, JobRecord, Page, QueueRef, QueueRow, WorkerRow
    from qdeck._model.words import Unreadable
    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck._settings.limits import Limits
    from qdeck.adapters.applying import Applier
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.groups import Gathering
    from qdeck.adapters.model import Skipped, Want
    from qdeck.adapters.outcomes import KeptOutcomes, PlannedEntries
    from qdeck.adapters.plans import Context, Pages, Rule, Search, Weighed
    from qdeck.adapters.recalled_entries import Finder
    from qdeck.adapters.undoing import Undoer


@lru_cache(maxsize=64)
def _parsed(text: str) -> Filter:
    from qdeck._filter import parse

    return parse(text)


class Adapter(ABC):
    """A queue system. Make one for each client: it may keep state between refreshes."""

    name: str
    """The class has the name of its system; an instance has a name of its own, such as `jobs@eu`."""
    about: ClassVar[str]
    on_cluster: ClassVar[bool] = False
    """Whether its queues can be read on a cluster."""
    changes_on_cluster: ClassVar[bool] = False
    """Whether the keys of each change are under one hash tag, so that a script may write them on a cluster."""
    registry: ClassVar[str] = ""
    """The hash with the time at which each queue was registered: a plan recognises another server by it."""
    repeats: ClassVar[bool] = False
    """Whether several entries may be equal to the byte."""
    knows_ids: ClassVar[bool] = False
    """Whether `find` has every job of an id, so that the queues need not be read for it."""
    features: ClassVar[frozenset[Feature]] = frozenset()
    """Additional features of its queues."""
    short_plans: ClassVar[bool] = False
    """Whether plans keep digests of long list entries; `outcomes` and `identity` then have only their ids."""
    acl_keys: ClassVar[tuple[str, ...]] = ()
    """Patterns of its keys, for the ACL rules of users who read or operate its queues."""
    permanent_errors: ClassVar[str] = ""
    """The filter of dead letters that a retry leaves out unless they, or this filter, are named; empty for none."""
    why_no_pause: ClassVar[str] = ""
    """Why its queues cannot be paused, where they do not have `Feature.PAUSE`."""
    counts_orphans: ClassVar[bool] = False
    """Whether `health` counts orphaned records; without a count their number is unknown."""
    settings_type: ClassVar[type[AdapterSettings]] = AdapterSettings
    """Its table in `qdeck.toml`, `[adapters.NAME]`: a struct that adds to the settings of every adapter."""
    takes_priority: ClassVar[tuple[Verb, ...]] = ()
    """The verbs that take a priority, besides reprioritise."""
    outcome_evidence: ClassVar[str] = ""
    """A sentence about what `outcomes` can find out; if it is empty, `outcomes` is not called."""
    sees_all_outcomes: ClassVar[bool] = False
    """Whether every outcome is known."""
    patience_s: ClassVar[float] = 60.0
    """The time within which the first retried jobs are expected to end."""

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        self.settings = settings or self.settings_type()
        self.discovered: Discovered | None = None
        self.in_cluster = False
        self.thresholds = Thresholds()

    @cached_property
    def finder(self) -> Finder:
        """The finder that reads planned entries again."""
        from qdeck.adapters.recalled_entries import Finder

        return Finder()

    @property
    def is_there(self) -> bool:
        """Whether the last refresh found keys of this system."""
        return self.discovered is not None and self.discovered.is_there

    @property
    def settings_digest(self) -> str:
        """A digest of its settings, empty for the defaults; `pin` is left out, because it changes no plan."""
        own = structs.replace(self.settings, pin=False)
        return "" if own == type(own)() else sha256(msgspec.json.encode(own, order="deterministic")).hexdigest()[:16]

    @property
    def is_missed(self) -> bool:
        """Whether it is pinned, and a complete search found no keys of this system."""
        return (
            self.settings.pin
            and self.discovered is not None
            and self.discovered.complete
            and not self.discovered.is_there
        )

    @abstractmethod
    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the keys with fixed names that identify this system, and their types; None is any type."""

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Return what a scan searches for in addition: globs and types. Each one is a pass over the whole keyspace."""
        return ()

    @property
    def flavour(self) -> str:
        """A setting that decides how keys are grouped; when it changes, the search starts again."""
        return ""

    def gather(self, name: bytes) -> str | None:
        """Return the group of a key that the scan found; None for a key of another system."""
        return None

    def queue_of_key(self, key: str) -> str | None:
        """Return the queue that the name of a key stands for where a queue is asked for; None for any other key."""
        return None

    def filter_of_key(self, key: str) -> tuple[str, str] | None:
        """Return the queue and the filter for the jobs in a key, by its name; no queue for a key of several of them."""
        return None

    @abstractmethod
    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs that it supports, and why it does not support others."""

    @abstractmethod
    def rows(self, now: int) -> Program[Look]:
        """Return the queues with their numbers."""

    @abstractmethod
    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the keys that hold the entries of these states, in the order in which they are listed."""

    @abstractmethod
    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the decoded entries, without those that no longer belong to this queue.

        `want` names the parts that are needed, where a system stores them separately.
        """

    def health(self, now: int, rows: Sequence[QueueRow], orphans: Limits | None = None) -> Program[AdapterHealth]:
        """Return the numbers for the health checks; `rows` are its queues as they were just read.

        With `orphans`, count orphaned records that are old enough by these limits.
        """
        from qdeck.adapters.health_numbers import measure

        return (yield from measure(self, rows))

    def unreadable(
        self, rows: Sequence[QueueRow], notices: list[str]
    ) -> Program[list[tuple[Unreadable, QueueRef | None]]]:
        """Return what cannot be read in these queues, besides what their rows report."""
        yield from ()  # reads nothing, but is a program
        return []

    def dead_kind(self, word: str) -> str:
        """Return the kind of dead letters that a word names, where they are stored by kind; empty for none."""
        return ""

    def dead_of_kind(self, kind: str, most: int, now: int) -> Program[tuple[list[Entry], int]]:
        """Return the newest dead letters of a kind, and how many there are of it."""
        raise NotImplementedError

    def dead_sizes(self) -> Program[Mapping[str, int | None]]:
        """Return the number of dead letters of each kind, where they are stored by kind."""
        yield from ()  # reads nothing, but is a program
        return {}

    def trim(self, limits: Limits, now: int) -> Program[int]:
        """Remove dead letters that are over the limits, as an agent does every minute; return how many."""
        yield from ()  # removes nothing, but is a program
        return 0

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """Return the workers that register themselves for the queues of this adapter."""
        yield from ()  # reads nothing, but is a program
        return []

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the recurring jobs of its queues."""
        yield from ()  # reads nothing, but is a program
        return []

    def rules(self, queue: str) -> Sequence[Rule]:
        """Return the purge rules for a queue, or for `NO_QUEUE`."""
        return ()

    def takes(self, rule: str, entry: Entry, limits: Limits, now: int) -> bool:
        """Return whether a purge rule still applies to an entry."""
        return any(
            _parsed(one.where_for(limits)).matches(entry, now)
            for one in self.rules(entry.queue)
            if one.name == rule and entry.state in one.states
        )

    def verbs(self) -> Mapping[Verb, Capability]:
        """Return its capabilities on this server: on a cluster, no change may write to several slots."""
        known = self.capabilities()
        if not self.in_cluster or self.changes_on_cluster:
            return known
        split = Capability(code=CapabilityCode.CLUSTER)
        return {act: split if capability.can else capability for act, capability in known.items()}

    def pause_change(self, queue: str, *, paused: bool) -> Program[Change | None]:
        """Return the change that pauses or resumes a queue; None where that is done already.

        Only used with `Feature.PAUSE`.
        """
        raise NotImplementedError

    def why_not_pause(self) -> str:
        """Return why its queues cannot be paused; empty when they can."""
        if Feature.PAUSE in self.features:
            return ""
        return f"queues of {self.name} cannot be paused" + (f": {self.why_no_pause}" if self.why_no_pause else "")

    def able(self) -> list[str]:
        """Return its verbs."""
        return [act.value for act, capability in self.verbs().items() if capability.can]

    def stuck_pages(
        self, queues: Sequence[str], wanted: Filter | None, now: int
    ) -> Program[Sequence[tuple[str, Pages]]]:
        """Return the searches that find the stuck jobs of these queues."""
        from qdeck._settings.limits import Limits
        from qdeck.adapters.plans import Search

        waiting = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)
        search = Search(states=waiting, now=now, limits=Limits(), wanted=wanted, stuck=True)
        found: list[tuple[str, Pages]] = []
        for queue in queues:
            found += [(queue, pages) for pages in (yield from self.pages(queue, search))]
        return found

    def states(self, verb: str) -> tuple[State, ...]:
        """Return the states to which a verb applies."""
        capability = self.verbs().get(Verb(verb))
        return () if capability is None else capability.states

    def pages(self, queue: str, search: Search) -> Program[list[Pages]]:
        """Return the searches of a plan in a queue, or under `NO_QUEUE`."""
        from qdeck.adapters import entry_plans

        return (yield from entry_plans.pages(self, queue, search))

    def weigh(
        self, verb: str, rows: Sequence[Entry], context: Context, reasons: Sequence[str] = ()
    ) -> Program[Weighed]:
        """Return the effects of a verb on these entries."""
        from qdeck.adapters import entry_plans

        return (yield from entry_plans.weigh(self, verb, rows, context, reasons))

    def write_health(self, now: int) -> Program[dict[str, str]]:
        """Write what the system's own health check would, where none runs; return the result for each key, as text.

        An agent does so after each health check of its own.
        """
        yield from ()  # reads nothing, but is a program
        return {}

    def mark(self, version: str) -> str:
        """Return what distinguishes a planned entry from others with its id; empty where ids are unique."""
        return Seen.parse(version).mark

    def applier(self, context: Context, keep_ms: int, trip_ms: float) -> Applier:
        """Return what applies the slices of a plan; a round trip without work took `trip_ms`."""
        from qdeck.adapters.applying import CellApplier

        return CellApplier(self, context, keep_ms)

    def undoer(self, batch: str, queues: Sequence[str], target: str | None = None) -> Undoer:
        """Return the undo of a batch in these queues; `target` is the queue to which it moved jobs."""
        from qdeck.adapters.undoing import CellUndoer

        return CellUndoer(self.name, batch)

    def changes(
        self, act: Verb, entries: Sequence[Entry], context: Context
    ) -> Program[Sequence[Change | ScriptChange | Skipped]]:
        """Return the change of a verb for each entry, as cells or as a script; or why it is skipped.

        `change_each` makes them of a function that raises `Skipped`.
        """
        raise NotImplementedError

    def named(self, entries: list[Entry]) -> list[Entry]:
        """Return entries as those of this adapter, which may be one of several of its system."""
        system = type(self).name
        if self.name == system:
            return entries
        return [replace(one, adapter=self.name, key=self.name + one.key.removeprefix(system)) for one in entries]

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned entries as they are now; None for one that is gone or has changed."""
        sources = {source.key: source for source in (yield from self.sources(queue, (State(state),)))}
        return (yield from self.finder.recall(self, sources, queue, state, seen, now))

    def prepare(self, verb: str, now: int) -> Program[Any]:
        """Read what many changes of one verb need, once; they get it as `prepared`."""
        yield from ()  # reads nothing, but is a program
        return None

    def identity(self, job_id: str, seen: Seen) -> bytes:
        """Return what an entry and the same one, dead again, have in common; only used where entries may be equal."""
        return seen.member

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes of retried entries, from a bounded number of reads; others are unknown."""
        yield from ()  # reads nothing, but is a program
        return [Outcome.UNKNOWN] * len(tried)

    def take_counts(self, queue: str, gathering: Gathering, now: int) -> Program[bool]:
        """Add the groups of dead letters that a queue counts by itself; return false if they are incomplete.

        Only used with `Feature.GROUP_COUNTS`.
        """
        raise NotImplementedError

    def planned_outcomes(self, planned: PlannedEntries) -> Program[list[Outcome | None]]:
        """Return the outcomes of planned entries since the plan was applied; None for one that was not changed."""
        from qdeck.adapters.outcomes import of_planned

        return (yield from of_planned(self, planned))

    def kept_outcomes(self, batch: str, queues: Sequence[str], target: str | None) -> Program[KeptOutcomes | None]:
        """Return the outcomes of a batch from what its queues store; None if only its plan lists the jobs."""
        yield from ()  # reads nothing, but is a program
        return None

    def last_errors(self, queue: str, ids: Sequence[str]) -> Program[list[tuple[str, str]]]:
        """Return class and message of the last errors of jobs, where a dead letter is found by the id of its job."""
        yield from ()  # reads nothing, but is a program
        return [("", "")] * len(ids)

    def why_not(self, verb: str, state: State | None = None) -> str:
        """Return why a verb cannot be used in a state, or in any; empty when it can."""
        known = self.verbs().get(Verb(verb)) if verb in list(Verb) else None
        found = known or Capability(code=CapabilityCode.NO_SUCH_VERB)
        wrong = found.can and state is not None and state not in found.states
        code = CapabilityCode.STATE if wrong else found.code
        return code.words(self.name, verb, note=found.note, states=found.states, state=state or "")

    def why_not_job(self, verb: str, job: JobRecord) -> str:
        """Return why a verb cannot be used on a job, as far as what is known of it says; empty when it can."""
        return self.why_not(verb, State(job.state))

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
        """Return the next slice of the matching entries in these states; a cursor of None is the end.

        Lists that are read from either end start with the newest where that is asked for, and parts that are kept
        apart are read where they are wanted, or the filter needs them.
        """
        from qdeck.adapters import paging

        return (
            yield from paging.page(self, queue, states, wanted=wanted, cursor=cursor, most=most, now=now, want=want)
        )

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """Return the details of one entry, by its id or its key."""
        found = yield from self.entry(queue, wanted)
        if found is None:
            raise UnknownJob(f"no {wanted!r} in queue {queue!r} of {self.name}", hint=f"See: qdeck jobs {queue}")
        from qdeck.adapters.entry_detail import detail_of

        return detail_of(found)

    def entry(self, queue: str, wanted: str) -> Program[Entry | None]:
        """Return one entry by its id or its key; a dead one comes after others with the same id."""
        from qdeck.adapters import paging

        return (yield from paging.first(self, queue, tuple(State), lambda e: wanted in (e.key, e.id)))

    def need(self, queue: str) -> Program[None]:
        """Raise an error if a queue of this adapter does not exist."""
        yield from ()  # what was looked at is there

    def find(self, names: Sequence[str], job_id: str, unread: list[str]) -> Program[list[JobLocation]]:
        """Return where an id is, in those states of these queues that can be asked by it."""
        from qdeck.adapters import paging

        return (yield from paging.by_id(self, names, job_id))
