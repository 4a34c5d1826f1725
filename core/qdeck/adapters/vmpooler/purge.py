"""The purge rules of VMPooler: old VMs of each pool, orphaned records, old requests, dead letters.

The rules are those of the page on queue reliability; where the program that was built differs for the worse, the rule
is the right one: a record that ends by itself already is left to do so, and dead letters go one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._model.values import NO_STATE, State
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import is_error
from qdeck.adapters import cells
from qdeck.adapters.cells import Change
from qdeck.adapters.model import NO_QUEUE, Entry, Kind, Seen, Source, age_s
from qdeck.adapters.plans import Rule
from qdeck.adapters.times import read_ms
from qdeck.adapters.vmpooler.keys import CREATE_QUEUE, REQUEST_QUEUE, SETS, TASKS, pool_key, vm_key
from qdeck.adapters.vmpooler.read import owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.model import Raw

ORPHAN: Final = "orphan"
ORPHAN_TTL_S: Final = 3600
RECORDS: Final = Source(key=vm_key(b"*"), kind=Kind.NAMES, state=State.DONE, native_state=ORPHAN)
_OVER: Final = "for {age} (limit {limit})"
_OF_POOLS: Final = (
    Rule(
        name="pending_too_old", states=(State.DELAYED,), verb=Verb.BURY, without_dlq=Verb.EXPIRE,
        setting="max_pending_age", reason=f"pending {_OVER}",
    ),
    Rule(
        name="ready_too_old", states=(State.READY,), verb=Verb.COMPLETE, setting="max_ready_age",
        where='age>{}ms tag:"request:*"', reason=f"ready {_OVER}",
    ),
    Rule(
        name="ready_too_old", states=(State.READY,), verb=Verb.COMPLETE, setting="max_ready_age_pool",
        where='age>{}ms -tag:"request:*"', reason=f"ready {_OVER}",
    ),
    Rule(
        name="done_too_old", states=(State.DONE,), verb=Verb.DISCARD, setting="max_completed_age",
        reason=f"completed {_OVER}",
    ),
)  # fmt: skip
_OF_REQUESTS: Final = (
    Rule(
        name="request_too_old", states=(State.RUNNING, State.READY), verb=Verb.EXPIRE, setting="max_request_age",
        reason="requested {age} ago (limit {limit})",
    ),
)  # fmt: skip
_OF_ALL: Final = (
    Rule(
        name="orphaned_records", states=(NO_STATE,), verb=Verb.EXPIRE, setting="max_orphaned_age",
        reason="in no set of its pool; made {age} ago (limit {limit})",
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


def fill_orphans(raws: Sequence[Raw], now: int) -> Program[list[Entry]]:
    """Return the orphaned ones of these records."""
    found = yield from read_orphans([raw.member.removeprefix(vm_key(b"")) for raw in raws], now)
    return [entry for entry in found if entry is not None]


def read_orphans(vms: Sequence[bytes], now: int, *, ending: bool = False) -> Program[list[Entry | None]]:
    """Return the records of VMs that are in no set of their pool; with `ending`, also those that expire.

    None for a record that is not orphaned: it is missing, has no pool, or its VM is in a set.
    """
    calls: list[Command] = []
    for vm in vms:
        calls += [(b"HMGET", vm_key(vm), b"pool", b"clone"), (b"TTL", vm_key(vm))]
    replies = yield from reads.try_all(calls)
    known: dict[str, list[tuple[int, bytes, Any]]] = {}
    for at, (vm, fields, ttl) in enumerate(zip(vms, replies[::2], replies[1::2], strict=True)):
        if is_error(fields) or fields[0] is None or not (ttl == -1 or (ending and ttl > 0)):
            continue
        known.setdefault(text_of(fields[0]), []).append((at, vm, fields))
    found: list[Entry | None] = [None] * len(vms)
    for pool, some in known.items():
        places = yield from owners(pool, [vm for _, vm, _ in some])
        for (at, vm, (named, clone)), home in zip(some, places, strict=True):
            if home is None:
                found[at] = _orphan(vm, pool, named, clone, now)
    return found


def _orphan(vm: bytes, pool: str, named: bytes, clone: bytes | None, now: int) -> Entry:
    since, name = read_ms(clone), text_of(vm)
    return Entry(
        id=name, key=f"vmpooler/{pool}/record/{name}", adapter="vmpooler", queue=pool, state=NO_STATE,
        native_state=ORPHAN, seen=Seen(key=vm_key(vm), member=vm, score=clone, value=named), since_ms=since,
        age_s=age_s(now, since), enqueued_ms=since,
    )  # fmt: skip


def expire_orphan(entry: Entry, now: int) -> Change:
    """Return the change that lets an orphaned record expire in an hour, unless it already expires."""
    seen = entry.seen
    return Change(
        id=entry.id,
        cells=(
            cells.field(seen.key, b"pool", seen.value, seen.value),
            cells.field(seen.key, b"clone", seen.score, seen.score),
            cells.expiry(seen.key, None, b"%d" % (now + ORPHAN_TTL_S * 1000)),
            *(cells.member(pool_key(name, entry.queue), raw_of(entry.id), None) for name in SETS),
        ),
        effect=f"its record expires in {ORPHAN_TTL_S:,} s",
    )
