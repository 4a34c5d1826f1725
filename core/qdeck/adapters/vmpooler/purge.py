"""The purge rules of VMPooler: old VMs of each pool, orphaned records, old requests, dead letters.

The rules are those of the page on queue reliability; where the program that was built differs for the worse, the rule
is the right one: a record that ends by itself already is left to do so, and dead letters go one by one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._formatting import threshold
from qdeck._model.values import NO_STATE, State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import is_error
from qdeck.adapters import cells
from qdeck.adapters.cells import Change
from qdeck.adapters.model import NO_QUEUE, Entry, Kind, Seen, Source, age_s
from qdeck.adapters.plans import Rule
from qdeck.adapters.vmpooler.keys import CREATE_QUEUE, REQUEST_QUEUE, SETS, TASKS, pool_key, vm_key
from qdeck.adapters.vmpooler.read import CLONED, LOST, body_of, owners, read_vms, since_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.model import Raw

ORPHAN: Final = "orphan"
ORPHAN_TTL_S: Final = 3600
NO_POOL: Final = "records"  # in place of a queue: orphaned records that name no pool that is there
RECORDS: Final = Source(key=vm_key(b"*"), kind=Kind.NAMES, state=State.DONE, native_state=ORPHAN)
_OVER: Final = "for {age} (limit {limit})"
_OLD: Final = "(age>{}ms or -age>=0ms)"  # one of unknown age is skipped by its name, and not silently


def _is_no_find(entry: Entry, _now: int, _prepared: Any) -> bool:
    """Leave discovered VMs out: the manager moves them to `completed` by itself, and nothing says since when."""
    return entry.native_state != "discovered"


_OF_POOLS: Final = (
    Rule(
        name="pending_too_old", states=(State.DELAYED,), verb=Verb.BURY, without_dlq=Verb.EXPIRE,
        setting="max_pending_age", where=_OLD, reason=f"pending {_OVER}",
    ),
    Rule(
        name="ready_too_old", states=(State.READY,), verb=Verb.COMPLETE, setting="max_ready_age",
        where=f'{_OLD} tag:"request:*"', reason=f"ready {_OVER}",
    ),
    Rule(
        name="pool_ready_too_old", states=(State.READY,), verb=Verb.COMPLETE, setting="max_ready_age_pool",
        where=f'{_OLD} -tag:"request:*"', reason=f"ready {_OVER}",
    ),
    Rule(
        name="done_too_old", states=(State.DONE,), verb=Verb.DISCARD, setting="max_completed_age",
        where=_OLD, reason=f"completed {_OVER}", test=_is_no_find,
    ),
)  # fmt: skip
_OF_REQUESTS: Final = (
    Rule(
        name="request_too_old", states=(State.RUNNING, State.READY), verb=Verb.EXPIRE, setting="max_request_age",
        reason="requested {age} ago (limit {limit})",
    ),
    Rule(
        name="request_too_old", states=(State.CANCELLED,), verb=Verb.EXPIRE, setting="max_request_age",
        where=f"error:{LOST}", reason="neither waiting nor in progress, and without an outcome",
    ),
)  # fmt: skip
_OF_ALL: Final = (
    Rule(
        name="orphaned_records", states=(NO_STATE,), verb=Verb.EXPIRE, setting="max_orphaned_age",
        where=_OLD, reason="in no set of its pool; made {age} ago (limit {limit})",
    ),
    Rule(name="dead_too_old", states=(State.DEAD,), verb=Verb.DISCARD, setting="dlq_ttl", reason=f"dead {_OVER}"),
    Rule(
        name="dead_too_many", states=(State.DEAD,), verb=Verb.DISCARD, setting="dlq_max_entries", rank=True,
        reason="more dead letters than {limit}; dead for {age}",
    ),
)  # fmt: skip


def rules_of(queue: str) -> tuple[Rule, ...]:
    """Return the rules for a queue; dead letters and orphaned records belong to no particular queue."""
    if queue == NO_QUEUE:
        return _OF_ALL
    if queue == REQUEST_QUEUE:
        return _OF_REQUESTS
    return () if queue == CREATE_QUEUE or queue in TASKS or queue.startswith("dlq:") else _OF_POOLS


def fill_orphans(raws: Sequence[Raw], pools: Sequence[str], now: int) -> Program[list[Entry]]:
    """Return the orphaned ones of these records."""
    found = yield from read_orphans([raw.member.removeprefix(vm_key(b"")) for raw in raws], pools, now)
    return [entry for entry in found if entry is not None]


def read_orphans(
    vms: Sequence[bytes], pools: Sequence[str], now: int, *, ending: bool = False
) -> Program[list[Entry | None]]:
    """Return the records of VMs that are in no set of their pool, or of any pool if theirs is not there.

    None for a record that is not orphaned: it is missing, its VM is in a set, or it expires (unless `ending`).
    """
    calls: list[Command] = []
    for vm in vms:
        calls += [(b"HMGET", vm_key(vm), b"pool", *CLONED), (b"TTL", vm_key(vm))]
    replies = yield from reads.try_all(calls)
    known: dict[str | None, list[tuple[int, bytes, Any]]] = {}
    for at, (vm, fields, ttl) in enumerate(zip(vms, replies[::2], replies[1::2], strict=True)):
        if not is_error(fields) and (ttl == -1 or (ending and ttl > 0)):
            named = None if fields[0] is None else text_of(fields[0])
            known.setdefault(named if named in pools else None, []).append((at, vm, fields))
    found: list[Entry | None] = [None] * len(vms)
    for pool, some in known.items():
        homes: list[bool] = [False] * len(some)
        for name in pools if pool is None else (pool,):
            places = yield from owners(name, [vm for _, vm, _ in some])
            homes = [home or place is not None for home, place in zip(homes, places, strict=True)]
        for (at, vm, fields), home in zip(some, homes, strict=True):
            found[at] = None if home else _orphan(vm, pool or NO_POOL, fields, now)
    return found


def read_orphan(vm: str, pools: Sequence[str]) -> Program[Entry | None]:
    """Return the orphaned record of a VM by its name, with all of its fields."""
    raw = raw_of(vm)
    [found] = yield from read_orphans([raw], pools, (yield from reads.clock()))
    if found is None:
        return None
    [fields] = yield from read_vms([raw])
    return replace(found, body=body_of(fields))


def _orphan(vm: bytes, pool: str, fields: Sequence[bytes | None], now: int) -> Entry:
    named, clone, _ = fields
    since = since_of("pending", {name: value for name, value in zip(CLONED, fields[1:], strict=True) if value}, None)
    name = text_of(vm)
    return Entry(
        id=name, key=f"vmpooler/{pool}/record/{name}", adapter="vmpooler", queue=pool, state=NO_STATE,
        native_state=ORPHAN, seen=Seen(key=vm_key(vm), member=vm, score=clone, value=named), since_ms=since,
        age_s=age_s(now, since), enqueued_ms=since,
    )  # fmt: skip


def is_old_orphan(seconds: float | None, limits: Limits) -> bool:
    """Return whether the purge takes an orphan of this age: one of unknown age would else stay for ever."""
    return seconds is None or 1000 * seconds > limits.ms("max_orphaned_age")


def expire_orphan(entry: Entry, pools: Sequence[str], now: int) -> Change:
    """Return the change that lets an orphaned record expire in an hour, unless it already expires."""
    seen = entry.seen
    checked = pools if entry.queue == NO_POOL else (entry.queue,)
    return Change(
        id=entry.id,
        cells=(
            cells.field(seen.key, b"pool", seen.value),
            cells.field(seen.key, b"clone", seen.score),
            cells.expiry(seen.key, None, b"%d" % (now + ORPHAN_TTL_S * 1000)),
            *(cells.member(pool_key(name, pool), raw_of(entry.id), None) for pool in checked for name in SETS),
        ),
        effect=f"its record expires in {threshold(ORPHAN_TTL_S)}",
    )
