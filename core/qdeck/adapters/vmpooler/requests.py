"""Ending a request of VMPooler, like DELETE of its API, or like its manager when a request is too old.

In one step: the request, its record, and the VMs that were delivered to it. A request that is deleted is also taken out
of the line, because the manager would go on making its VMs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._formatting import threshold
from qdeck._model.reasons import Caution, CautionCode
from qdeck._model.words import Verb
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters import cells
from qdeck.adapters.cells import ANY, THERE, Change
from qdeck.adapters.model import Entry, Skipped
from qdeck.adapters.vmpooler.keys import PROCESSING, REQUESTS, pool_key, request_key

if TYPE_CHECKING:
    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Cell

DELETED_TTL_S: Final = 1_296_000
MOST_VMS: Final = 500
DESTROYED: Final = Caution(code=CautionCode.DESTROYED_OUTSIDE, name="VMs")


def delivered_key(request: str, alias: str, pool: str) -> bytes:
    """Return the set of VMs that a request got from a pool."""
    return raw_of(f"vmpooler__{request}__{alias}__{pool}")


def change_request(act: Verb, entry: Entry, now: int, data_ttl_ms: int) -> Program[Change]:
    """Return the change of a verb for a request: one that has ended, or was lost, only has its record left."""
    if act in (Verb.CANCEL, Verb.EXPIRE) and entry.seen.score is not None:
        return (yield from _end(act, entry, now, data_ttl_ms))
    if act not in (Verb.DISCARD, Verb.EXPIRE):
        raise Skipped.because("it has already ended" if act is Verb.CANCEL else "a request can only be cancelled")
    if entry.seen.score is not None:
        raise Skipped.because("the manager works on it; cancel it")
    record, member = request_key(raw_of(entry.id)), raw_of(entry.id)
    guards = (
        cells.field(record, b"status", entry.seen.value),
        cells.score(REQUESTS, member, None),
        cells.score(PROCESSING, member, None),
    )
    if act is Verb.DISCARD:
        return Change(id=entry.id, cells=(*guards, cells.whole_key(record)), effect=f"{text_of(record)} removed")
    end = cells.expiry(record, None, b"%d" % (now + data_ttl_ms))
    return Change(id=entry.id, cells=(*guards, end), effect=f"its record expires in {threshold(data_ttl_ms // 1000)}")


def _end(act: Verb, entry: Entry, now: int, data_ttl_ms: int) -> Program[Change]:
    """Return the change that deletes a request (cancel) or lets it fail because it is too old (expire)."""
    request, seen = entry.id, entry.seen
    record = request_key(raw_of(request))
    wanted, ttl = yield with_errors((b"HGET", record, b"requested"), (b"TTL", record))
    if seen.score is None or is_error(wanted):
        raise Skipped.because("it has already ended")
    deletes = act is Verb.CANCEL
    status, ttl_ms = (b"deleted", DELETED_TTL_S * 1000) if deletes else (b"failed", data_ttl_ms)
    ends = b"%d" % (now + ttl_ms)
    done = [
        cells.score(seen.key, seen.member, seen.score, None),
        cells.field(record, b"status", seen.value, status),
        cells.field(record, b"requested", wanted),
    ]
    if ttl in (-1, -2):
        done.append(cells.expiry(record, None, ends))
    vms = yield from _take_vms(request, wanted or b"", None if deletes else ends)
    moved = sum(bool(cell.part) for cell in vms) // 2
    told = "" if not moved else f"; {moved:,} of its VMs moved to completed, where the manager destroys them"
    return Change(
        id=request,
        cells=(*done, *vms),
        effect=f"{status.decode()}, removed from {text_of(seen.key)}{told}",
        caution=DESTROYED if moved else None,
    )


def _take_vms(request: str, wanted: bytes, ends: bytes | None) -> Program[list[Cell]]:
    """Return the cells that move its running VMs to `completed` and remove or expire the sets that list them."""
    found: list[Cell] = []
    for part in text_of(wanted).split(","):
        alias, _, rest = part.partition(":")
        pool, _, count = rest.rpartition(":")
        if not (alias and pool and count.isdigit()):
            continue
        delivered = delivered_key(request, alias, pool)
        [vms] = yield with_errors((b"SMEMBERS", delivered))
        if is_error(vms) or not vms:
            continue
        names = sorted(vms)
        if len(names) > MOST_VMS:
            raise Skipped.because(f"it has {len(names):,} VMs; delete it through the API of VMPooler")
        running, done = pool_key("running", pool), pool_key("completed", pool)
        there = yield (b"SMISMEMBER", running, *names)
        for vm, is_running in zip(names, there, strict=True):
            if is_running:  # a part of its own: one that the manager destroyed since stays away, and stops nothing
                found.append(cells.member(running, vm, THERE, None, part=done + vm))
                found.append(cells.member(done, vm, None, THERE, part=done + vm))
        found.append(cells.whole_key(delivered) if ends is None else cells.expiry(delivered, ANY, ends))
    return found
