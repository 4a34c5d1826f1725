"""The `vmpooler` adapter: a queue for each pool, one for requests, one for each kind of task; dead letters by pool.

A VM's set is its state; its hash only has more facts. A VM may be in several sets and is counted once. Dead letters
belong to the pool that they name; those without one are in a queue of their set (`dlq:clone`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from qdeck._engine.stored_numbers import score_ms
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import NO_STATE, JobLocation, QueueRow, State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._redis.parallel_programs import all_of, together
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import (
    NO_QUEUE,
    PERMANENT,
    AdapterHealth,
    Capability,
    Entry,
    Kind,
    Look,
    Outcome,
    Raw,
    Retried,
    Seen,
    Skipped,
    Source,
    age_s,
)
from qdeck.adapters.paging import read_slice
from qdeck.adapters.vmpooler.keys import (
    CREATE,
    CREATE_QUEUE,
    DEAD,
    HEALTH,
    POOLS,
    PROCESSING,
    REQUEST_QUEUE,
    REQUESTS,
    SETS,
    TASKS,
    VmPoolerSettings,
    filter_of_key,
    group_of,
    kind_of,
    pool_key,
)
from qdeck.adapters.vmpooler.read import (
    STATE_OF,
    dead_sources,
    each_letter,
    fill_letters,
    fill_requests,
    fill_tasks,
    fill_vms,
    queue_of_letter,
    read_pools,
    read_vms,
    since_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import JobRecord
    from qdeck._redis.commands import Command, Program
    from qdeck._settings.limits import Limits
    from qdeck._settings.model import AdapterSettings
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Want
    from qdeck.adapters.plans import Context, Rule
    from qdeck.adapters.vmpooler.health import Clones

TOGETHER: Final = 20  # pools that are read side by side
MOST_VMS: Final = 5000  # of one pool that a look reads one by one
MOST_LETTERS: Final = 50_000  # that a look reads to tell their pools
_REQUEST_SCAN: Final = Source(key=b"vmpooler__odrequest__*", kind=Kind.NAMES, state=State.DONE, native_state="ended")


class VmPooler(Adapter):
    """VMPooler 3.9: global keys with the prefix `vmpooler__`."""

    name: str = "vmpooler"
    counts_orphans: ClassVar[bool] = True
    permanent_errors: ClassVar[str] = f"tag:{PERMANENT}"
    acl_keys: ClassVar[tuple[str, ...]] = ("vmpooler__*",)
    about: ClassVar[str] = "vmpooler__* of VMPooler"
    outcome_evidence: ClassVar[str] = "a request shows when it has all its VMs, and each failure adds a dead letter"
    settings_type: ClassVar[type[AdapterSettings]] = VmPoolerSettings
    patience_s: ClassVar[float] = 900.0  # after which the manager itself gives a clone up

    def __init__(self, settings: AdapterSettings | None = None) -> None:
        super().__init__(settings)
        self._letters: tuple[Any, Counter[str]] = (None, Counter())
        self._clones: Clones | None = None

    @property
    def data_ttl_ms(self) -> int:
        """How long the record of a VM or a request that has ended is kept."""
        own = self.settings if isinstance(self.settings, VmPoolerSettings) else VmPoolerSettings()
        return own.data_ttl * 3_600_000

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the keys that exist once; the fourth dead-letter key may be a hash or a sorted set."""
        zsets = (REQUESTS, PROCESSING, CREATE, *(key for kind, key in DEAD.items() if kind != "tasks"))
        return {
            POOLS: Kind.SET, HEALTH: Kind.HASH, DEAD["tasks"]: None, **dict.fromkeys(zsets, Kind.ZSET),
            **dict.fromkeys(TASKS.values(), Kind.SET),
        }  # fmt: skip

    def patterns(self) -> Sequence[tuple[bytes, str | None]]:
        """Sets of pools that the configuration does not name any more, VMs, requests."""
        return ((b"vmpooler__*", None),)

    def gather(self, name: bytes) -> str | None:
        """By pool; VMs and requests are counted."""
        return group_of(name)

    def filter_of_key(self, key: str) -> tuple[str, str] | None:
        """Return the filter for the set of a pool, for requests, tasks or a kind of dead letters."""
        return filter_of_key(key)

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as its API or an operator with redis-cli."""
        refill = "the manager refills pools automatically"
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="only for a request that has not ended; " + refill),
            Verb.DISCARD: Capability(states=(State.DEAD, State.DONE, State.READY, State.CANCELLED)),
            Verb.CANCEL: Capability(states=(State.RUNNING, State.READY), note="like DELETE of its API"),
            Verb.COMPLETE: Capability(states=(State.READY, State.RUNNING), note="the manager destroys the VM"),
            Verb.BURY: Capability(states=(State.DELAYED, State.READY)),
            Verb.EXPIRE: Capability(
                states=(State.READY, State.RUNNING, State.DELAYED, State.CANCELLED),
                note="requests and pending VMs, by a purge",
            ),
            Verb.REQUEUE: Capability(code=CapabilityCode.BY_ITSELF, note=refill),
            Verb.RUN: Capability(
                code=CapabilityCode.NO_SUCH_STATE, note="a VM becomes ready when its clone is complete"
            ),
        }

    def why_not_job(self, verb: str, job: JobRecord) -> str:
        """Return why a verb cannot be used: tasks and requests have fewer verbs than VMs."""
        from qdeck.adapters.vmpooler.reasons import why_not_job

        return why_not_job(verb, job) or super().why_not_job(verb, job)

    def rows(self, now: int) -> Program[Look]:
        """Return pools first, then requests and tasks, then dead letters without a pool."""
        notices: list[str] = []
        unread: list[str] = []
        tasks = "none" if self.discovered is None else self.discovered.types.get(DEAD["tasks"], "none")
        if tasks not in ("none", "hash", "zset"):
            unread.append(reads.ignored_words(DEAD["tasks"], self.name, "hash or zset", tasks))
        from qdeck.adapters.vmpooler.health import read_measures

        pools = yield from read_pools(self.discovered)
        programs: list[Program[Any]] = [
            self._count_letters(notices), read_measures(now), self._other_rows(now, unread),
        ]  # fmt: skip
        programs += [self._pool_row(pool, now, unread) for pool in pools]
        found: list[Any] = []
        for at in range(0, len(programs), TOGETHER):
            found += yield from all_of(programs[at : at + TOGETHER])
        letters, measures, others, *rows = found
        if letters is not None:
            rows = [replace(row, dead=letters[row.name]) for row in rows]
        rows += others
        of_no_pool = sorted(set(letters) - set(pools)) if letters is not None else []
        rows += [QueueRow(adapter=self.name, name=name, dead=(letters or Counter())[name]) for name in of_no_pool]
        if letters is None:
            sizes = yield from reads.try_all([(b"ZCARD", key) for key in DEAD.values()])
            for kind, size in zip(DEAD, sizes, strict=True):
                if not is_error(size) and size:
                    rows.append(QueueRow(adapter=self.name, name=f"dlq:{kind}", dead=size))
        return Look(rows=tuple(rows), notices=tuple(notices), unread=tuple(unread), measures=measures)

    def _pool_row(self, pool: str, now: int, unread: list[str]) -> Program[QueueRow]:
        sizes = yield with_errors(*((b"SCARD", pool_key(name, pool)) for name in SETS))
        bad = [name for name, size in zip(SETS, sizes, strict=True) if is_error(size)]
        unread += [reads.ignored_words(pool_key(name, pool), self.name, "set") for name in bad]
        total = sum(size for size in sizes if not is_error(size))
        if total > MOST_VMS:
            known = {name: None if name in bad else size for name, size in zip(SETS, sizes, strict=True)}
            return (yield from self._big_row(pool, known))
        members: dict[str, list[bytes]] = {}
        seen: set[bytes] = set()
        full = [name for name, size in zip(SETS, sizes, strict=True) if name not in bad and size]
        listed = dict(zip(full, (yield from all_of([_members(pool_key(name, pool)) for name in full])), strict=True))
        for name in SETS:
            here = listed.get(name, [])
            members[name] = [vm for vm in here if vm not in seen]
            seen.update(here)
        waiting = [(name, vm) for name in ("pending", "ready") for vm in members[name]]
        hashes = yield from read_vms([vm for _, vm in waiting])
        since = {(name, vm): since_of(name, fields, None) for (name, vm), fields in zip(waiting, hashes, strict=True)}
        known_ages = [at for at in since.values() if at is not None]
        limit = now - self.thresholds.stuck_age_ms
        count: Counter[State] = Counter()
        for name, vms in members.items():
            count[STATE_OF[name]] += len(vms)
        return QueueRow(
            adapter=self.name, name=pool, ready=count[State.READY], delayed=count[State.DELAYED],
            running=count[State.RUNNING], done=count[State.DONE], overdue=count[State.DELAYED],
            overdue_word="pending",
            stuck=sum(1 for (name, _), at in since.items() if name == "pending" and at is not None and at < limit),
            oldest_s=age_s(now, min(known_ages, default=None)),
        )  # fmt: skip

    def _big_row(self, pool: str, sizes: Mapping[str, int | None]) -> Program[QueueRow]:
        pairs = (("running", "migrating"), ("completed", "discovered"))
        both = yield from reads.try_all([(b"SINTERCARD", 2, *(pool_key(n, pool) for n in pair)) for pair in pairs])
        sums = []
        for pair, shared in zip(pairs, both, strict=True):
            parts = [sizes[name] or 0 for name in pair]
            sums.append(None if is_error(shared) else sum(parts) - shared)
        return QueueRow(
            adapter=self.name, name=pool, ready=sizes["ready"], delayed=sizes["pending"], running=sums[0],
            done=sums[1], overdue=sizes["pending"], overdue_word="pending", oldest_exact=False,
        )  # fmt: skip

    def _other_rows(self, now: int, unread: list[str]) -> Program[list[QueueRow]]:
        waiting, working, create, *tasks = yield with_errors(
            (b"ZCARD", REQUESTS), (b"ZCARD", PROCESSING), (b"ZCARD", CREATE),
            *((b"SCARD", key) for key in TASKS.values()),
        )  # fmt: skip
        group = self.discovered.groups.get("requests") if self.discovered is not None else None
        ended: Counter[State] | None = Counter()
        if group is not None:
            ended = yield from self._ended(group.names, now, unread) if group.count <= len(group.names) else _nothing()
        oldest = yield with_errors(*((b"ZRANGE", key, 0, 0, b"WITHSCORES") for key in (REQUESTS, PROCESSING)))
        moments = [score_ms(first[1], 1000) for first in oldest if not is_error(first) and first]
        since = [at for at in moments if at is not None]
        rows = []
        if group is not None or reads.number(waiting) or reads.number(working):
            limit = now // 1000 - 300
            late = yield with_errors(*((b"ZCOUNT", key, b"-inf", f"({limit}") for key in (REQUESTS, PROCESSING)))
            counts = {s: None if ended is None else ended[s] for s in (State.DONE, State.CANCELLED)}
            rows.append(
                QueueRow(
                    adapter=self.name,
                    name=REQUEST_QUEUE,
                    ready=reads.number(waiting),
                    running=reads.number(working),
                    done=counts[State.DONE],
                    dead=0,
                    cancelled=counts[State.CANCELLED],
                    stuck=sum(reads.number(n) or 0 for n in late),
                    oldest_s=age_s(now, min(since, default=None)),
                    serves_others=True,
                )
            )
        for name, size in zip((CREATE_QUEUE, *TASKS), (create, *tasks), strict=True):
            if not is_error(size) and size:
                rows.append(QueueRow(adapter=self.name, name=name, ready=size, serves_others=True))
        return rows

    def _ended(self, names: Sequence[bytes], now: int, unread: list[str]) -> Program[Counter[State] | None]:
        raws = [Raw(source=_REQUEST_SCAN, member=name) for name in names]
        entries = yield from fill_requests(raws, now, unread)
        return Counter(State(entry.state) for entry in entries)

    def _count_letters(self, notices: list[str]) -> Program[Counter[str] | None]:
        """Count the dead letters of each pool, again only if their sets have changed."""
        sources = yield from dead_sources()
        calls: list[Command] = []
        for source in sources:
            is_hash = source.kind is Kind.HASH
            calls.append((b"HLEN" if is_hash else b"ZCARD", source.key))
            calls.append((b"HKEYS", source.key) if is_hash else (b"ZRANGE", source.key, -1, -1, b"WITHSCORES"))
        replies = yield from reads.try_all(calls)
        if sources[-1].kind is Kind.HASH and not is_error(replies[-1]):  # the size of each list tells a change
            replies += yield from reads.try_all([(b"HSTRLEN", sources[-1].key, name) for name in replies[-1]])
        mark = [str(reply) if is_error(reply) else reply for reply in replies]
        if self._letters[0] == mark:
            return self._letters[1]
        total = sum(size for size in replies[: 2 * len(sources) : 2] if not is_error(size))
        if total > MOST_LETTERS:
            notices.append(f"{total:,} dead letters: not counted by pool")
            return None
        count: Counter[str] = Counter()
        for part in (yield from all_of([_by_queue(source) for source in sources])):
            count.update(part)
        self._letters = (mark, count)
        return count

    def dead_kind(self, word: str) -> str:
        """Return the dead-letter queue of the document that a word names."""
        return kind_of(word)

    def dead_of_kind(self, kind: str, most: int, now: int) -> Program[tuple[list[Entry], int]]:
        """Return the newest dead letters of one of its four keys, and how many there are."""
        source = next(one for one in (yield from dead_sources()) if one.native_state == f"dlq:{kind}")
        raws: list[Raw] = []
        place: str | None = ""
        is_hash = source.kind is Kind.HASH
        while place is not None and (is_hash or len(raws) < most):
            some, place = yield from read_slice(source, place, min(most, 1000))
            raws += some
        entries = fill_letters(raws, now)
        if is_hash:  # in any order
            entries.sort(key=lambda one: one.since_ms or 0, reverse=True)
        [size] = [len(entries)] if is_hash else (yield from reads.try_all([(b"ZCARD", source.key)]))
        return entries[:most], reads.number(size) or 0

    def dead_sizes(self) -> Program[Mapping[str, int | None]]:
        """Return the number of dead letters in each of its four keys."""
        from qdeck.adapters.vmpooler.health import read_letters

        return (yield from read_letters())

    def trim(self, limits: Limits, now: int) -> Program[int]:
        """Remove dead letters that are too old or too many, in each of its four keys."""
        from qdeck.adapters.vmpooler.trimming import trim

        return (yield from trim(limits, now))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the sets of a pool, or the keys of requests and tasks; and the dead letters."""
        found: list[Source] = []
        if queue == NO_QUEUE:
            from qdeck.adapters.vmpooler.purge import RECORDS

            dead = (yield from dead_sources()) if State.DEAD in states else []
            return [*([RECORDS] if NO_STATE in states else []), *dead]
        if queue == REQUEST_QUEUE:
            if State.RUNNING in states:
                found.append(Source(key=PROCESSING, kind=Kind.ZSET, state=State.RUNNING, native_state="processing"))
            if State.READY in states:
                found.append(Source(key=REQUESTS, kind=Kind.ZSET, state=State.READY, native_state="requested"))
            return [*found, *([_REQUEST_SCAN] if {State.DONE, State.CANCELLED} & set(states) else [])]
        if queue == CREATE_QUEUE or queue in TASKS:
            key, kind = (CREATE, Kind.ZSET) if queue == CREATE_QUEUE else (TASKS[queue], Kind.SET)
            ready = Source(key=key, kind=kind, state=State.READY, native_state="queued")
            return [ready] if State.READY in states else []
        pool = () if queue.startswith("dlq:") else SETS
        found += [
            Source(key=pool_key(name, queue), kind=Kind.SET, state=STATE_OF[name], native_state=name)
            for name in pool
            if STATE_OF[name] in states
        ]
        return [*found, *((yield from dead_sources()) if State.DEAD in states else [])]

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the entries of one source."""
        if not raws:
            return []
        if raws[0].source.native_state.startswith("dlq:"):
            return fill_letters(raws, now)
        if queue == NO_QUEUE:
            from qdeck.adapters.vmpooler.purge import fill_orphans

            return (yield from fill_orphans(raws, (yield from read_pools(self.discovered)), now))
        if queue == REQUEST_QUEUE:
            return (yield from fill_requests(raws, now))
        if queue == CREATE_QUEUE or queue in TASKS:
            return fill_tasks(queue, raws, now)
        return (yield from fill_vms(queue, raws, now, self.thresholds.stuck_age_ms))

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned entries as they are now; orphaned records are read by their own keys."""
        from qdeck.adapters.vmpooler.purge import read_orphans

        if state != NO_STATE:
            return (yield from super().recall(queue, state, seen, now))
        pools = yield from read_pools(self.discovered)
        found = yield from read_orphans([one.member for one in seen], pools, now, ending=True)
        return [entry if entry and entry.seen == one else None for entry, one in zip(found, seen, strict=True)]

    def find(self, names: Sequence[str], job_id: str, unread: list[str]) -> Program[list[JobLocation]]:
        """Return also the orphaned record of a VM, which is in no queue."""
        found = yield from super().find(names, job_id, unread)
        if orphan := (yield from self._orphan(job_id)):
            place = JobLocation(
                adapter=self.name, queue=orphan.queue, id=orphan.id, key=orphan.key, state=orphan.state,
                match="orphaned_record",
            )  # fmt: skip
            found.append(place)
        return found

    def entry(self, queue: str, wanted: str) -> Program[Entry | None]:
        """Return one entry of a queue, or the orphaned record of a VM."""
        found = yield from super().entry(queue, wanted)
        return found or (yield from self._orphan(wanted.rpartition("/record/")[2]))

    def _orphan(self, vm: str) -> Program[Entry | None]:
        from qdeck.adapters.vmpooler.purge import read_orphan

        return (yield from read_orphan(vm, (yield from read_pools(self.discovered))))

    def rules(self, queue: str) -> Sequence[Rule]:
        """What the page on queue reliability calls stale; whether a VM is there at its provider is not looked at."""
        from qdeck.adapters.vmpooler.purge import rules_of

        return rules_of(queue)

    def health(self, now: int, rows: Sequence[QueueRow], orphans: Limits | None = None) -> Program[AdapterHealth]:
        """Return also its own numbers: clones in progress, orphaned records, and VMPooler's own health."""
        from qdeck.adapters.vmpooler.health import measure_health

        found, self._clones = yield from measure_health(self, now, rows, self._clones)
        return found

    def write_health(self, now: int) -> Program[dict[str, str]]:
        """Write `vmpooler__health` while VMPooler does not."""
        from qdeck.adapters.vmpooler.health import keep_own_health

        return (yield from keep_own_health(self, now))

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes from the requests."""
        from qdeck.adapters.vmpooler.outcomes import read_outcomes

        return (yield from read_outcomes(tried))

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return the changes of a verb, which have the effect of VMPooler's API or purge."""
        from qdeck.adapters.vmpooler.changes import build

        programs = [
            build(self, self.data_ttl_ms, act, entry, context, context.reason_of(at))
            for at, entry in enumerate(entries)
        ]
        return (yield from together(programs, Skipped))


def _by_queue(source: Source) -> Program[Counter[str]]:
    """Count the dead letters of a set by pool."""
    count: Counter[str] = Counter()
    place: str | None = ""
    while place is not None:
        raws, place = yield from read_slice(source, place, 1000)
        count.update(map(queue_of_letter, each_letter(raws)))
    return count


def _nothing() -> Program[Counter[State] | None]:
    yield from ()  # reads nothing, but is a program
    return None


def _members(key: bytes) -> Program[list[bytes]]:
    found, error = yield from reads.scan_set(key, most=2 * MOST_VMS + 1)
    if error is not None:
        raise error
    return found
