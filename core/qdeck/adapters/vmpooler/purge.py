"""What a purge takes of VMPooler: leftovers of each pool, records of no VM, requests over their time, dead letters.

The rules are those of the page on queue reliability; where the program that was built differs for the worse, the rule
is the right one: a record that ends by itself already is left to do so, and dead letters go one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._deck.model import State
from qdeck._redis import reads
from qdeck.adapters import cells
from qdeck.adapters.cells import Change
from qdeck.adapters.listing import Place, read_slice
from qdeck.adapters.model import Act, Ages, Entry, Kind, Raw, Seen, Source, Stale, StalePage, age_s, raw_of, text_of
from qdeck.adapters.times import read_ms
from qdeck.adapters.vmpooler.keys import PROCESSING, REQUEST_QUEUE, REQUESTS, SETS, pool_key, vm_key
from qdeck.adapters.vmpooler.read import STATE_OF, dead_sources, fill_letters, fill_requests, fill_vms, owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

SLICE: Final = 500
ORPHAN: Final = "orphan"
NO_STATE: Final = "none"  # a record of no VM is in no state
ORPHAN_TTL_S: Final = 3600
_RECORDS: Final = Source(key=vm_key(b"*"), kind=Kind.NAMES, state=State.DONE, native_state=ORPHAN)


def stale(pools: Sequence[str], ages: Ages, now: int, cursor: str | None, *, stuck_age_ms: int) -> Program[StalePage]:
    """The next slice: pool by pool, then records of no VM, requests, dead letters."""
    sources = yield from _sources(pools)
    place = Place.read(cursor)
    if place.source >= len(sources):
        return StalePage()
    pool, source = sources[place.source]
    if source.state is State.DEAD and source.kind is Kind.ZSET:
        found, mark, scanned = yield from _letters(source, ages, now, int(place.mark or 0))
    else:
        raws, mark = yield from read_slice(source, place.mark, SLICE)
        found, scanned = (yield from _judge(pool, raws, ages, now, stuck_age_ms)), len(raws)
    place = Place(place.source + 1) if mark is None else Place(place.source, mark)
    end = place.source >= len(sources)
    return StalePage(found=tuple(found), cursor=None if end else str(place), scanned=scanned)


def _sources(pools: Sequence[str]) -> Program[list[tuple[str, Source]]]:
    found: list[tuple[str, Source]] = []
    for pool in pools:
        for name in ("pending", "ready", "completed"):
            source = Source(key=pool_key(name, pool), kind=Kind.SET, state=STATE_OF[name], native_state=name)
            found.append((pool, source))
    found.append(("", _RECORDS))
    for key, state, name in ((PROCESSING, State.RUNNING, "processing"), (REQUESTS, State.READY, "requested")):
        found.append((REQUEST_QUEUE, Source(key=key, kind=Kind.ZSET, state=state, native_state=name)))
    return [
        *found,
        *(("", msgspec.structs.replace(source, down=False)) for source in (yield from dead_sources())),
    ]


def _judge(pool: str, raws: Sequence[Raw], ages: Ages, now: int, stuck_age_ms: int) -> Program[list[Stale]]:
    if not raws:
        return []
    source = raws[0].source
    if source is _RECORDS or source.native_state == ORPHAN:
        return (yield from _orphans([raw.member for raw in raws], ages, now))
    if pool == REQUEST_QUEUE:
        entries = yield from fill_requests(raws, now)
        of_requests = (_too_old(e, "request_too_old", Act.EXPIRE, ages.max_request_age, "asked for") for e in entries)
        return [one for one in of_requests if one is not None]
    if source.state is State.DEAD:  # a hash of dead letters: only its entries tell their age
        old = (_too_old(e, "dead_too_old", Act.DISCARD, ages.dlq_ttl_s, "dead for") for e in fill_letters(raws, now))
        return [one for one in old if one is not None]
    entries = yield from fill_vms(pool, raws, now, stuck_age_ms)
    judged = (judge(entry, ages) for entry in entries)
    return [one for one in judged if one is not None]


def judge(entry: Entry, ages: Ages) -> Stale | None:
    """Whether a VM of a pool is stale; what a purge took for stale is judged again when it is done."""
    if entry.native_state == "pending":
        act = Act.BURY if ages.dlq_enabled else Act.EXPIRE
        return _too_old(entry, "pending_too_old", act, ages.max_pending_age, "pending for")
    if entry.native_state == "completed":
        return _too_old(entry, "done_too_old", Act.DISCARD, ages.max_completed_age, "completed for")
    asked_for = any(tag.startswith("request:") for tag in entry.tags)
    own = ages.max_ready_age_pool
    limit = ages.max_ready_age if asked_for or own is None else own
    return _too_old(entry, "ready_too_old", Act.COMPLETE, limit, "ready for")


def _too_old(entry: Entry, rule: str, act: Act, limit_s: int, words: str) -> Stale | None:
    """An age that is not known is over no limit."""
    if entry.age_s is None or entry.age_s <= limit_s:
        return None
    ago = " ago" if rule == "request_too_old" else ""
    return Stale(entry=entry, rule=rule, act=act, reason=f"{words} {entry.age_s:,.0f} s{ago}, over {limit_s:,} s")


def _letters(source: Source, ages: Ages, now: int, start: int) -> Program[tuple[list[Stale], str | None, int]]:
    """The oldest first: those beyond the number that is kept, and those beyond the age."""
    size, flat = yield reads.read(
        (b"ZCARD", source.key), (b"ZRANGE", source.key, start, start + SLICE - 1, b"WITHSCORES")
    )
    if reads.is_error(size) or reads.is_error(flat):
        return [], None, 0
    excess = max(0, size - ages.dlq_max_entries)
    pairs = reads.pairs(flat)
    entries = fill_letters([Raw(source=source, member=member, score=score) for member, score in pairs], now)
    found: list[Stale] = []
    for rank, entry in enumerate(entries, start):
        one = _too_old(entry, "dead_too_old", Act.DISCARD, ages.dlq_ttl_s, "dead for")
        if one is None and rank < excess:
            reason = f"one of {excess:,} beyond the {ages.dlq_max_entries:,} that are kept"
            one = Stale(entry=entry, rule="dead_too_many", act=Act.DISCARD, reason=reason)
        if one is None and entry.age_s is not None:
            return found, None, rank - start + 1  # the rest is newer
        found += [] if one is None else [one]
    return found, str(start + SLICE) if len(pairs) == SLICE else None, len(pairs)


def _orphans(keys: Sequence[bytes], ages: Ages, now: int) -> Program[list[Stale]]:
    entries = yield from read_orphans([key.removeprefix(vm_key(b"")) for key in keys], now)
    found = []
    for entry in entries:
        one = None if entry is None else _too_old(entry, "orphaned_records", Act.EXPIRE, ages.max_orphaned_age, "made")
        if one is not None:
            found.append(msgspec.structs.replace(one, reason=f"in no set of its pool; {one.reason}"))
    return found


def read_orphans(vms: Sequence[bytes], now: int, *, ending: bool = False) -> Program[list[Entry | None]]:
    """The records of VMs that are in no set of their pool, and with `ending` also those that end by themselves.

    None for a record that is no orphan: it is none, it names no pool, or its VM is in a set.
    """
    calls: list[Command] = []
    for vm in vms:
        calls += [(b"HMGET", vm_key(vm), b"pool", b"clone"), (b"TTL", vm_key(vm))]
    replies = yield from reads.ask(calls)
    known: dict[str, list[tuple[int, bytes, Any]]] = {}
    for at, (vm, fields, ttl) in enumerate(zip(vms, replies[::2], replies[1::2], strict=True)):
        if reads.is_error(fields) or fields[0] is None or not (ttl == -1 or (ending and ttl > 0)):
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
    """Let a record of no VM end in an hour, if it still is one, and has no end yet."""
    seen = entry.seen
    return Change(
        id=entry.id,
        cells=(
            cells.field(seen.key, b"pool", seen.value, seen.value),
            cells.field(seen.key, b"clone", seen.score, seen.score),
            cells.expiry(seen.key, None, b"%d" % (now + ORPHAN_TTL_S * 1000)),
            *(cells.member(pool_key(name, entry.queue), raw_of(entry.id), None) for name in SETS),
        ),
        effect=f"its record ends in {ORPHAN_TTL_S:,} s",
    )
