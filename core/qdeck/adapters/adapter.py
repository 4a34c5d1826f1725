"""What an adapter is: how one queue system keeps its queues, what can be asked of it and what can be done to it.

An adapter answers in programs of plain reads, and builds the changes of its verbs as values; it does no input/output.
Whoever writes one gives sources (which keys hold the entries of a state) and says how an entry reads; paging, filters
and lookups are then the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import structs

from qdeck._deck.model import JobLocation, State
from qdeck._deck.reasons import CapabilityCode
from qdeck._errors import UnknownJob
from qdeck._redis import reads
from qdeck._settings.model import AdapterSettings
from qdeck._settings.thresholds import Thresholds
from qdeck.adapters.model import (
    ALL,
    MOST_STUCK,
    SLICE,
    Act,
    AdapterHealth,
    Capability,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Seen,
    Sight,
    Skipped,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import JobDetail, Page, QueueRef, QueueRow, WorkerRow
    from qdeck._deck.queue_ref import Feature
    from qdeck._deck.words import Unreadable
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.applying import Applier
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.finding import Finder
    from qdeck.adapters.groups import Gathering
    from qdeck.adapters.model import Want
    from qdeck.adapters.outcomes import KeptOutcomes, PlannedEntries
    from qdeck.adapters.plans import Context, Pages, Rule, Search, Weighed
    from qdeck.adapters.undoing import Undoer


@lru_cache(maxsize=64)
def _parsed(text: str) -> Filter:
    from qdeck._filter import parse

    return parse(text)


class Adapter(ABC):
    """One queue system. Make one for each deck: it may remember from look to look."""

    name: str
    """The class has the name of its system. One of several of a system has a name of its own, as in `jobs@eu`."""
    about: ClassVar[str]
    on_cluster: ClassVar[bool] = False
    """Whether its queues are looked at on a cluster."""
    changes_on_cluster: ClassVar[bool] = False
    """Whether the keys of each change are under one hash tag, so that a script may write them on a cluster."""
    registry: ClassVar[str] = ""
    """The hash that has when each queue was registered, by name: a plan tells another server by it."""
    repeats: ClassVar[bool] = False
    """Whether entries that are equal to the byte may be several."""
    features: ClassVar[frozenset[Feature]] = frozenset()
    """What its queues have besides."""
    short_plans: ClassVar[bool] = False
    """Whether plans keep digests of long entries of lists: then `outcomes` and `likeness` get by with their ids."""
    acl_keys: ClassVar[tuple[str, ...]] = ()
    """Patterns of its keys, for the rights of those who look at them or operate them."""
    counts_orphans: ClassVar[bool] = False
    """Whether `health` looks for records that belong to no job; what it does not count is unknown then."""
    settings_type: ClassVar[type[AdapterSettings]] = AdapterSettings
    """Its table in `qdeck.toml`, `[adapters.NAME]`: a struct that adds settings to those that every adapter has."""
    takes_priority: ClassVar[tuple[Act, ...]] = ()
    """Besides reprioritising, the acts for which a priority may be given."""
    outcome_evidence: ClassVar[str] = ""
    """How much can be seen of those that were retried, in words; without any, `outcomes` is not called."""
    sees_all_outcomes: ClassVar[bool] = False
    """Whether no outcome is ever unknown."""
    patience_s: ClassVar[float] = 60.0
    """How long it may take until the first of those that were retried have ended."""

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        self.settings = settings or self.settings_type()
        self.sight: Sight | None = None
        self.in_cluster = False
        self.thresholds = Thresholds()

    @cached_property
    def finder(self) -> Finder:
        """What finds the entries of plans again."""
        from qdeck.adapters.finding import Finder

        return Finder()

    @property
    def is_there(self) -> bool:
        """Whether the last look found anything of this system."""
        return self.sight is not None and self.sight.is_there

    @property
    def settings_digest(self) -> str:
        """What tells its settings from others; empty where all are the defaults. Being pinned changes no plan."""
        own = structs.replace(self.settings, pin=False)
        return "" if own == type(own)() else sha256(msgspec.json.encode(own, order="deterministic")).hexdigest()[:16]

    @property
    def is_missed(self) -> bool:
        """Whether a whole look found nothing of this system, though its settings say that it is there."""
        return self.settings.pin and self.sight is not None and self.sight.complete and not self.sight.is_there

    @abstractmethod
    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """The keys with fixed names by which this system is known, and their types; None is any."""

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """What a scan looks for besides: glob and type. Few, for each is a pass over the whole keyspace."""
        return ()

    @property
    def flavour(self) -> str:
        """What else decides to which group a key belongs: what was remembered under another one is looked for anew."""
        return ""

    def gather(self, name: bytes) -> str | None:
        """To which group a key belongs that the scan found; None is not ours."""
        return None

    @abstractmethod
    def capabilities(self) -> Mapping[Act, Capability]:
        """What can be done here, and why the rest cannot."""

    @abstractmethod
    def rows(self, now: int) -> Program[Look]:
        """The queues with their numbers."""

    @abstractmethod
    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """The keys that hold the entries of these states, in the order in which they are listed."""

    @abstractmethod
    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Entries as they read; those that are no entry of this queue any more are left out.

        `want` says which parts of them are needed, where a system keeps them apart.
        """

    def health(self, now: int, rows: Sequence[QueueRow], orphans: Limits | None = None) -> Program[AdapterHealth]:
        """The numbers that a verdict on health needs; `rows` are its queues as they were just seen.

        With `orphans`, records that belong to no job and are old enough by these limits are counted.
        """
        from qdeck.adapters.measures import measure

        return (yield from measure(self, rows))

    def unreadable(
        self, rows: Sequence[QueueRow], notices: list[str]
    ) -> Program[list[tuple[Unreadable, QueueRef | None]]]:
        """What is stored in these queues and cannot be read, besides what their rows tell."""
        yield from ()  # no reading: a program all the same
        return []

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """The workers that describe themselves, for the queues of this adapter."""
        yield from ()  # no reading: a program all the same
        return []

    def rules(self, queue: str) -> Sequence[Rule]:
        """The rules of a purge for a queue, or for `NO_QUEUE`."""
        return ()

    def takes(self, rule: str, entry: Entry, limits: Limits, now: int) -> bool:
        """Whether a rule of a purge takes an entry as it is now."""
        return any(
            _parsed(one.where_for(limits)).matches(entry, now)
            for one in self.rules(entry.queue)
            if one.name == rule and entry.state in one.states
        )

    def verbs(self) -> Mapping[Act, Capability]:
        """What can be done on this server: on a cluster nothing that writes in several slots at once."""
        known = self.capabilities()
        if not self.in_cluster or self.changes_on_cluster:
            return known
        split = Capability(code=CapabilityCode.CLUSTER)
        return {act: split if capability.can else capability for act, capability in known.items()}

    def able(self) -> list[str]:
        """The verbs that there are here."""
        return [act.value for act, capability in self.verbs().items() if capability.can]

    def stuck_pages(
        self, queues: Sequence[str], wanted: Filter | None, now: int
    ) -> Program[Sequence[tuple[str, Pages]]]:
        """What has to be looked through for the stuck jobs of these queues."""
        from qdeck._settings.limits import Limits
        from qdeck.adapters.plans import Search

        waiting = (State.RUNNING, State.READY, State.DELAYED, State.BLOCKED)
        search = Search(states=waiting, now=now, limits=Limits(), wanted=wanted, stuck=True)
        found: list[tuple[str, Pages]] = []
        for queue in queues:
            found += [(queue, pages) for pages in (yield from self.pages(queue, search))]
        return found

    def states(self, verb: str) -> tuple[State, ...]:
        """The states in which a verb can be done."""
        capability = self.verbs().get(Act(verb))
        return () if capability is None else capability.states

    def pages(self, queue: str, search: Search) -> Program[list[Pages]]:
        """What a plan looks for in a queue, or under `NO_QUEUE`."""
        from qdeck.adapters import entry_plans

        return (yield from entry_plans.pages(self, queue, search))

    def weigh(
        self, verb: str, rows: Sequence[Entry], context: Context, reasons: Sequence[str] = ()
    ) -> Program[Weighed]:
        """What an act on these entries comes to."""
        from qdeck.adapters import entry_plans

        return (yield from entry_plans.weigh(self, verb, rows, context, reasons))

    def write_health(self, now: int) -> Program[dict[str, str]]:
        """Write what the system's own health check would, where none runs; return by key what came of it, in words.

        An agent does so after each health check of its own.
        """
        yield from ()  # no reading: a program all the same
        return {}

    def mark(self, version: str) -> str:
        """What tells a planned entry from others of its id; empty where ids are not repeated."""
        return Seen.parse(version).mark

    def applier(self, context: Context, keep_ms: int, trip_ms: float) -> Applier:
        """What applies the slices of a plan; a round trip without work took `trip_ms`."""
        from qdeck.adapters.applying import CellApplier

        return CellApplier(self, context, keep_ms)

    def undoer(self, batch: str, queues: Sequence[str], target: str | None = None) -> Undoer:
        """What undoes a batch in these queues; `target` is the queue to which it moved jobs."""
        from qdeck.adapters.undoing import CellUndoer

        return CellUndoer(self.name, batch)

    def changes(
        self, act: Act, entries: Sequence[Entry], context: Context
    ) -> Program[list[Change | ScriptChange | Skipped]]:
        """What does this to each of some entries: cells, or a script of its own that changes many; or why nothing does.

        Asks `change` for each of them, and what these read is read in one round trip.
        """
        from qdeck.adapters.together import together

        each = [structs.replace(context, reason=context.reason_of(number)) for number in range(len(entries))]
        programs = [self.change(act, entry, own) for entry, own in zip(entries, each, strict=True)]
        return [*(yield from together(programs, Skipped))]

    def change(self, act: Act, entry: Entry, context: Context) -> Program[Change]:
        """The change that does this to an entry in one of its states; raises `Skipped` where it cannot."""
        raise NotImplementedError

    def named(self, entries: list[Entry]) -> list[Entry]:
        """Return entries as those of this adapter, which may be one of several of its system."""
        system = type(self).name
        if self.name == system:
            return entries
        return [replace(one, adapter=self.name, key=self.name + one.key.removeprefix(system)) for one in entries]

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """The entries that were seen so, as they read now; None where one is gone, or is another by now."""
        sources = {source.key: source for source in (yield from self.sources(queue, (State(state),)))}
        return (yield from self.finder.recall(self, sources, queue, state, seen, now))

    def prepare(self, verb: str, now: int) -> Program[Any]:
        """Read once what many changes of one verb need; they get it as `prepared`."""
        yield from ()  # no reading: a program all the same
        return None

    def likeness(self, job_id: str, seen: Seen) -> bytes:
        """What an entry and the same one, dead again, have in common; only asked where entries may be equal."""
        return seen.member

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """What happened to entries that were retried, by a bounded look; what cannot be seen is unknown."""
        yield from ()  # no reading: a program all the same
        return [Outcome.UNKNOWN] * len(tried)

    def take_counts(self, queue: str, gathering: Gathering, now: int) -> Program[bool]:
        """Take the groups of dead letters that a queue counts by itself; false where they are not all of them.

        Asked of adapters with `Feature.GROUP_COUNTS`.
        """
        raise NotImplementedError

    def planned_outcomes(self, planned: PlannedEntries) -> Program[list[Outcome | None]]:
        """What happened to entries of a plan since it was applied; None for one that was not changed."""
        from qdeck.adapters.outcomes import of_planned

        return (yield from of_planned(self, planned))

    def kept_outcomes(self, batch: str, queues: Sequence[str], target: str | None) -> Program[KeptOutcomes | None]:
        """What happened to the jobs of a batch, by what these queues keep of it; None where only its plan has them."""
        yield from ()  # no reading: a program all the same
        return None

    def last_errors(self, queue: str, ids: Sequence[str]) -> Program[list[tuple[str, str]]]:
        """Class and message of what jobs died of last, where a dead letter is found by the id of the retried job."""
        yield from ()  # no reading: a program all the same
        return [("", "")] * len(ids)

    def why_not(self, verb: str, state: State | None = None) -> str:
        """Return why a verb cannot be used in a state, or in any; empty when it can."""
        known = self.verbs().get(Act(verb)) if verb in list(Act) else None
        found = known or Capability(code=CapabilityCode.NO_SUCH_VERB)
        wrong = found.can and state is not None and state not in found.states
        code = CapabilityCode.STATE if wrong else found.code
        return code.words(self.name, verb, note=found.note, states=found.states, state=state or "")

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
        """The next slice of the entries in these states that match; a cursor of None is the end.

        Lists that are read from either end start with the newest where that is asked for, and parts that are kept
        apart are read where they are wanted, or the filter needs them.
        """
        from qdeck.adapters import paging

        return (
            yield from paging.page(self, queue, states, wanted=wanted, cursor=cursor, most=most, now=now, want=want)
        )

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """All about one entry, given by its id or its key."""
        found = yield from self.entry(queue, wanted)
        if found is None:
            raise UnknownJob(f"no {wanted!r} in queue {queue!r} of {self.name}", hint=f"see: qdeck jobs {queue}")
        from qdeck.adapters.entry_detail import detail_of

        return detail_of(found)

    def entry(self, queue: str, wanted: str) -> Program[Entry | None]:
        """One entry, given by its id or its key; a dead one comes after a living one of the same id."""
        from qdeck.adapters import paging

        return (yield from paging.first(self, queue, tuple(State), lambda e: wanted in (e.key, e.id)))

    def need(self, queue: str) -> Program[None]:
        """Raise for a queue of this adapter that was taken for one and is not there."""
        yield from ()  # what was looked at is there

    def find(self, job_id: str, unread: list[str]) -> Program[list[JobLocation]]:
        """Where an id is, in every queue of this adapter; queues that cannot be read are added to `unread`."""
        from qdeck.adapters import paging

        now = yield from reads.clock()
        look = yield from self.rows(now)
        found: list[JobLocation] = []
        for row in look.rows:
            entries = yield from paging.every(self, row.name, tuple(State), most=MOST_STUCK)
            found += [
                JobLocation(adapter=self.name, queue=row.name, id=entry.id, key=entry.key, state=entry.state)
                for entry in entries
                if entry.id == job_id
            ]
        return found
