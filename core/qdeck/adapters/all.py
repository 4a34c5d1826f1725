"""The adapters of one client: one snapshot of all their queues, and the adapter of each queue."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._adapter_names import UNLISTED
from qdeck._errors import InvalidOption, QdeckError, UsageError
from qdeck._model import verdict
from qdeck._model.queue_ref import ambiguous, shared_names
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import NATIVE, QueueRef, State
from qdeck._queue_names import QueueType
from qdeck._redis import keyspace_scan, reads
from qdeck._redis.parallel_programs import all_of, apart
from qdeck._server import native_queues
from qdeck.adapters import NAMES, NO_SETTINGS, discovery, make, make_all
from qdeck.adapters.native.adapter import Native

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from qdeck._model.values import JobLocation, JobRecord, Measure, QueueRow, Snapshot, WorkerRow
    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck._server.native_queues import RefreshCache
    from qdeck._settings import AdapterSettings
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.search import IdSearch
    from qdeck.adapters.unknown_systems import UnknownSystem


_DEAD_LETTER: Final = ":dead_letter"
_TYPES: Final = frozenset(QueueType)
_NEAR: Final = 3  # queues that a hint names
MOST_STRAYS: Final = 10_000  # native queues that are remembered where no registry lists them


class Adapters:
    """The adapters by name: native, which is always there, and those of other systems."""

    def __init__(
        self,
        names: Sequence[str],
        address: str,
        memory: RefreshCache,
        *,
        settings: Mapping[str, AdapterSettings | Mapping[str, Any]] = NO_SETTINGS,
        on_cluster: bool = False,
    ) -> None:
        made = make_all((name for name in names if name != NATIVE), settings)
        self._settings, self._on_cluster = settings, on_cluster
        self._beside: dict[str, Adapter] = {}
        self.native = Native(memory=memory, address=address)
        self.non_native = [adapter for adapter in made if adapter.on_cluster or not on_cluster]
        left_out = ", ".join(adapter.name for adapter in made if adapter not in self.non_native)
        # A caller who takes all adapters has not asked for one of these.
        told = left_out and not set(NAMES) <= set(names)
        self._notices = (f"not on Cluster: {left_out} (a queue's keys are in several slots)",) if told else ()
        if left_out and not self.non_native and NATIVE not in names:
            raise InvalidOption(f"not on Cluster: {left_out}", hint="Their queues keep keys in several slots.")
        self.shows_native = NATIVE in names
        self._has_all = self.shows_native and set(NAMES) <= set(names) and not on_cluster
        self._unknown_systems: Sequence[UnknownSystem] = ()
        self._search_again_at = -math.inf
        self._is_empty = self._has_stored_search = False
        self._address, self._memory = address, memory
        self._verdict = verdict.LatestVerdict()
        self._remembered: discovery.Remembered | None = None
        self._kept_at = -math.inf
        self._refs: list[QueueRef] | None = None
        self.shared: frozenset[str] = frozenset()
        """Names that queues of several adapters have, as far as they were read."""
        self.unread: list[str] = []
        """The keys that the last refresh ignored, with the reasons."""
        for adapter in self.non_native:
            adapter.thresholds, adapter.in_cluster = memory.thresholds, on_cluster

    @property
    def shown(self) -> list[Adapter]:
        """The adapters whose queues are shown."""
        return [*([self.native] if self.shows_native else ()), *self.non_native]

    def rows(self, now: int) -> Program[tuple[list[QueueRow], list[str]]]:
        """Return the queues of other systems; one that cannot be read is reported and does not stop the others."""
        notices, unread = yield from discovery.look(self.non_native, self._recall())
        return (yield from self._rows(now, notices, unread))

    def _rows(self, now: int, notices: list[str], unread: list[str]) -> Program[tuple[list[QueueRow], list[str]]]:
        self._keep()
        rows: list[QueueRow] = []
        self.measures: tuple[Measure, ...] = ()
        self.late_schedules: tuple[tuple[QueueRef, str], ...] = ()
        there = [adapter for adapter in self.non_native if adapter.is_there]
        notices += [f"{one.name} is pinned, but none of its keys exist" for one in self.non_native if one.is_missed]
        looks = yield from apart([adapter.rows(now) for adapter in there])
        for adapter, look in zip(there, looks, strict=True):
            if isinstance(look, QdeckError):
                unread.append(reads.unread_words(adapter.name, look))
                continue
            rows += look.rows
            notices += look.notices
            unread += look.unread
            self.measures += look.measures
            self.late_schedules += look.late_schedules
        self._refs = [row.ref for row in rows]
        self._memory.beside = [row.name for row in rows]
        own = {ref.name for ref in self._refs}.intersection(self._memory.names if self.shows_native else ())
        self.shared = shared_names([*self._refs, *(QueueRef(NATIVE, name) for name in own)])
        self.unread = list(dict.fromkeys(unread))
        return rows, [*notices, *self.unread]

    def _recall(self) -> discovery.Remembered:
        if self._remembered is None:
            self._remembered = discovery.recall(self._address)
        return self._remembered

    def _keep(self) -> None:
        """Store what was found: at the first refresh, because it may be the only one, and from time to time later."""
        now = time.monotonic()
        if self._remembered is not None and now - self._kept_at >= discovery.KEPT_EVERY_S:
            discovery.remember(self._address, self._remembered)
            self._kept_at = now

    def look(self, visible: Collection[QueueRef] | None = None) -> Program[Snapshot]:
        """Return a snapshot of all queues: native ones and those of the other adapters."""
        own = None if visible is None else [name for adapter, name in visible if adapter == NATIVE]
        if self.non_native:
            self._remind()
            programs: list[Program[Any]] = [self.native.look(own), discovery.look(self.non_native, self._recall())]
            programs += [self._find_unknown_systems()] if self._has_all else []
            seen, found, *_ = yield from all_of(programs)
            self._note()
            seen = yield from self._extended(seen, *found)
            self._is_empty = not seen.queues
            if self._is_empty and self._has_all:
                yield from self._search_empty_server()
            # A stream with a consumer group beside queues may be anything.
            told = [one for one in self._unknown_systems if self._is_empty or not one.is_stream]
            seen = replace(seen, unknown_systems=tuple(f"{one.name} ({one.key})" for one in told))
        else:
            seen = yield from self.native.look(own)
            seen = replace(seen, notices=(*seen.notices, *self._notices))
        return (yield from self._verdict.judge(seen, self._memory.thresholds))

    def _find_unknown_systems(self) -> Program[None]:
        """Find the systems that no adapter reads beside queues, once in a while."""
        from qdeck.adapters import unknown_systems

        now = time.monotonic()
        if self._is_empty or now < self._search_again_at:
            return
        self._unknown_systems = yield from unknown_systems.find(self._recall(), with_streams=False)
        self._search_again_at = now + unknown_systems.KNOWN_S

    def _search_empty_server(self) -> Program[None]:
        """Find the systems that no adapter reads, and all streams with consumer groups."""
        from qdeck.adapters import unknown_systems

        self._unknown_systems = yield from unknown_systems.find(self._recall(), with_streams=True)
        if not self._has_stored_search:  # a command may refresh only once
            discovery.remember(self._address, self._recall())
            self._has_stored_search = True

    def _remind(self) -> None:
        """Continue the search for native queues where the last one on this machine ended."""
        strays, memory = self._recall().strays, self._memory
        if strays is not None and not memory.names:
            memory.unregistered = keyspace_scan.UnregisteredQueues(
                cursor=strays.cursor, passes=strays.passes, names={*strays.names}
            )

    def _note(self) -> None:
        """Store how far the search for native queues came, where no registry lists them."""
        memory, strays = self._memory, self._memory.unregistered
        if memory.registered > 0:
            self._recall().strays = None
        else:
            names = {*sorted(strays.names)[:MOST_STRAYS]}
            self._recall().strays = keyspace_scan.UnregisteredQueues(
                cursor=strays.cursor, passes=strays.passes, names=names
            )

    def _extended(self, seen: Snapshot, notices: list[str], unread: list[str]) -> Program[Snapshot]:
        """Return a snapshot of the native queues with those of the other adapters."""
        found, notices = yield from self._rows(seen.at_ms, notices, unread)
        native_rows = seen.queues if self.shows_native else ()
        fresh = None if seen.fresh is None or not native_rows else seen.fresh.union(row.ref for row in found)
        rows = (*native_rows, *found)
        there = dict.fromkeys(row.adapter for row in found)
        late = seen.late_schedules if self.shows_native else ()
        return replace(
            seen, queues=rows, fresh=fresh, shared=self.shared,
            totals=native_queues.sums(found, seen.totals) if self.shows_native else native_queues.sums(found),
            adapters=(*(seen.adapters if self.shows_native else ()), *there),
            notices=(*seen.notices, *self._notices, *notices), measures=self.measures,
            late_schedules=(*(late or ()), *self.late_schedules) or late,
        )  # fmt: skip

    def why_not(self, name: str, verb: str, state: str) -> str:
        """Return why a verb cannot be applied to jobs in a state; empty if it can."""
        adapter = self.named(name)
        there = CapabilityCode.NO_SUCH_VERB.words(name, verb)
        return there if adapter is None else adapter.why_not(verb, State(state))

    def why_not_job(self, verb: str, job: JobRecord) -> str:
        """Return why a verb cannot be applied to a job, as it was read; empty if it can."""
        adapter = self.named(job.adapter)
        return (
            CapabilityCode.NO_SUCH_VERB.words(job.adapter, verb) if adapter is None else adapter.why_not_job(verb, job)
        )

    def why_not_pause(self, name: str) -> str:
        """Return why queues of an adapter cannot be paused; empty if they can."""
        adapter = self.named(name)
        return CapabilityCode.NO_SUCH_VERB.words(name, "pause") if adapter is None else adapter.why_not_pause()

    def why_not_watch(self, name: str) -> str:
        """Return why the outcomes of retried jobs are not known; empty if they are."""
        adapter = self.named(name)
        return (
            "" if adapter is None or adapter.outcome_evidence else f"{name} does not store the outcomes of retried jobs"
        )

    def queues(
        self, unread: list[tuple[QueueRef, str]], only: Collection[str] | None = None
    ) -> Program[list[tuple[Adapter, str]]]:
        """Return all or some of the queues; add those that cannot be read to `unread`, with the reason."""
        found: list[tuple[Adapter, str]] = []
        if self.shows_native:
            found += [(self.native, name) for name in (yield from self.native.names(only, unread))]
        if self.non_native:
            rows, _ = yield from self.rows((yield from reads.clock()))
            by_name = {adapter.name: adapter for adapter in self.non_native}
            unread += [(QueueRef("", ""), why) for why in self.unread]
            unread += [
                (row.ref, reads.unread_words(row.ref.label(self.shared), row.problem)) for row in rows if row.problem
            ]
            found += [(by_name[row.adapter], row.name) for row in rows if row.ref.is_in(only)]
        return found

    def find(self, wanted: IdSearch) -> Program[list[JobLocation]]:
        """Return where the jobs of an id are, in every queue; what is not read is noted in the search."""
        from qdeck.adapters import search

        left_out: list[tuple[QueueRef, str]] = []
        queues = yield from self.queues(left_out)
        wanted.unread += [why for _, why in left_out]
        yield from search.find(queues, wanted, self.shared)
        return wanted.found

    def workers(self) -> Program[list[WorkerRow]]:
        """Return the workers of all adapters, the live ones first, then by host and id."""
        now = yield from reads.clock()
        yield from self._discover()
        there = [adapter for adapter in self.shown if adapter is self.native or adapter.is_there]
        found: list[WorkerRow] = []
        for rows in (yield from all_of([adapter.workers(now) for adapter in there])):
            found += rows
        return sorted(found, key=lambda row: (not row.alive, row.host or "", row.id))

    def schedules(self) -> Program[list[ScheduleRow]]:
        """Return the recurring jobs of the other systems."""
        now = yield from reads.clock()
        yield from self._discover()
        found: list[ScheduleRow] = []
        for rows in (yield from all_of([adapter.schedules(now) for adapter in self.non_native if adapter.is_there])):
            found += rows
        return found

    def _discover(self) -> Program[None]:
        if self.non_native and self._refs is None:
            yield from discovery.look(self.non_native, self._recall())

    def write_health(self, now: int) -> Program[dict[str, str]]:
        """Write what the other systems' own health checks would, where none runs; return the result for each key."""
        found: dict[str, str] = {}
        for adapter in self.non_native:
            if adapter.is_there:
                found |= yield from adapter.write_health(now)
        return found

    def resolve(self, queue: str | QueueRef) -> Program[tuple[QueueRef, Adapter]]:
        """Return a queue by its name, and its adapter; raise an error if several adapters have a queue of this name.

        The name of a key stands for its queue, `NAME:dead_letter` for a native queue, and a name as the console shows
        it for the only queue that it can mean. A name that no adapter has is taken as native: reading the queue then
        reports that it does not exist.
        """
        if isinstance(queue, QueueRef):
            return queue, (yield from self._adapter_of(queue))
        if not self.non_native:
            own = queue.removeprefix(f"{NATIVE}/").removesuffix(_DEAD_LETTER)
            if _TYPES.isdisjoint(own.split(":")) and not (yield from native_queues.exists(own)):
                own = next((ref.name for ref in (yield from self._named_in_short(own))), own)
            return QueueRef(NATIVE, own), self.native
        found = yield from self._having(queue)  # an exact name wins over a prefix
        prefix, slash, name = queue.partition("/")
        if not found and slash and self.named(prefix) is not None:
            found = [ref for ref in (yield from self._having(name)) if ref.adapter == prefix]
            found = found or [ref for ref in self._of_key(name) if ref.adapter == prefix]
            if not found:
                near = native_queues.near_words(name, [ref.name for ref in self._refs or () if ref.adapter == prefix])
                raise UsageError(f"there is no queue {name!r} of {prefix}", hint=near)
        found = found or self._of_key(queue)
        if len(found) > 1:
            raise ambiguous(queue, found)
        found = found or (yield from self._named_in_short(queue))
        ref = found[0] if found else QueueRef(NATIVE, queue.removesuffix(_DEAD_LETTER))
        return ref, (yield from self._adapter_of(ref))

    def _having(self, name: str) -> Program[list[QueueRef]]:
        """Return the queues of this name."""
        programs: list[Program[Any]] = [native_queues.exists(name)] if self.shows_native else []
        is_first = self._refs is None
        found = yield from all_of([*programs, self._look_first()] if is_first else programs)
        refs = [QueueRef(NATIVE, name)] if self.shows_native and found[0] else []
        if not refs and not is_first and not any(ref.name == name for ref in self._refs or ()):
            yield from self._look_first()
        refs += [ref for ref in self._refs or () if ref.name == name]
        self.shared |= {name} if len(refs) > 1 else set()
        return refs

    def _named_in_short(self, queue: str) -> Program[list[QueueRef]]:
        """Return the queue that is shown by this name; raise where several are."""
        known = list(self._refs or ())
        if self.shows_native:
            known += [QueueRef(NATIVE, name) for name in (yield from native_queues.names(self._memory))]
        found = [ref for ref in known if native_queues.is_short_for(queue, ref.name)]
        if len(found) > 1:
            some = " or ".join(map(str, found[:_NEAR]))
            raise UsageError(f"{queue!r} stands for {len(found):,} queues", hint=f"Write {some}.")
        return found

    def _of_key(self, key: str) -> list[QueueRef]:
        """Return the queues that a key of another system belongs to, by its name."""
        found = ((adapter.name, adapter.queue_of_key(key)) for adapter in self.non_native)
        return [QueueRef(name, queue) for name, queue in found if queue is not None]

    def of_key(self, name: str) -> tuple[str, str, str] | None:
        """Return adapter, queue and filter for the name of a key; no queue for a key of several of them."""
        prefix, slash, rest = name.partition("/")
        only = prefix if slash and self.named(prefix) is not None else None
        for adapter in self.non_native:
            found = adapter.filter_of_key(name if only is None else rest) if only in (None, adapter.name) else None
            if found is not None:
                return (adapter.name, *found)
        return None

    def _look_first(self) -> Program[None]:
        yield from self.rows((yield from reads.clock()))

    def named(self, name: str) -> Adapter | None:
        """Return the adapter of this name, if it is enabled."""
        return next((adapter for adapter in (self.native, *self.non_native) if adapter.name == name), None)

    def instance(self, name: str) -> Adapter:
        """Return the adapter of this name; make one that is not enabled, with the same settings."""
        known = self.named(name) or self._beside.get(name)
        if known is None:
            known = self._beside[name] = make(name, self._settings)
            known.thresholds, known.in_cluster = self._memory.thresholds, self._on_cluster
        return known

    @property
    def unlisted(self) -> list[Adapter]:
        """The adapters whose queues hold no jobs, if native queues are shown."""
        return [self.instance(name) for name in UNLISTED] if self.shows_native else []

    def _adapter_of(self, ref: QueueRef) -> Program[Adapter]:
        """Return the adapter of a queue, after a first refresh."""
        adapter = self.named(ref.adapter)
        if adapter is None:
            raise UsageError(
                f"the adapter {ref.adapter} of queue {str(ref)!r} is not enabled", hint="Name it with --adapter."
            )
        if adapter is not self.native and self._refs is None:
            yield from self._look_first()
        return adapter
