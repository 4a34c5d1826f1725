"""Ending a request of VMPooler: as DELETE of its API does, or as its manager does when the time of one is over.

In one step: the request, its record, and the VMs that were delivered to it. A request that is deleted is also taken out
of the line, because the manager would go on making its VMs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidOption
from qdeck._redis import reads
from qdeck.adapters.model import Act, Ages, Entry, raw_of, text_of
from qdeck.adapters.steps import Check, Step, Write
from qdeck.adapters.vmpooler.keys import pool_key, request_key

if TYPE_CHECKING:
    from qdeck._engine.ops import Program

DELETED_TTL_S: Final = 1_296_000
MOST_VMS: Final = 500
_GONE: Final = "it is not in line any more"


def delivered_key(request: str, alias: str, pool: str) -> bytes:
    """The set of VMs that a request got of a pool."""
    return raw_of(f"vmpooler__{request}__{alias}__{pool}")


def end_request(act: Act, entry: Entry, ages: Ages) -> Program[Step]:
    """The step that deletes a request (cancel) or lets it fail because it is too old (expire)."""
    request, seen = entry.id, entry.seen
    record = request_key(raw_of(request))
    wanted, ttl = yield reads.read((b"HGET", record, b"requested"), (b"TTL", record))
    if seen.score is None or reads.is_error(wanted):
        raise InvalidOption(f"{request!r} is over already", hint="its record ends by itself")
    deletes = act is Act.CANCEL
    status, ttl_s = (b"deleted", DELETED_TTL_S) if deletes else (b"failed", ages.data_ttl_s)
    checks = [
        Check("score", seen.key, seen.member, seen.score, _GONE),
        Check("field", record, b"status", seen.value, "its status has changed"),
        Check("field", record, b"requested", wanted, "its request has changed"),
    ]
    writes = [Write("ZREM", seen.key, (seen.member,)), Write("HSET", record, (b"status", status))]
    back = [Write("ZADD", seen.key, (seen.score, seen.member))]
    back.append(
        Write("HDEL", record, (b"status",)) if seen.value is None else Write("HSET", record, (b"status", seen.value))
    )
    if ttl == -1 or ttl == -2:
        writes.append(Write("EXPIRE", record, (b"%d" % ttl_s,)))
        back.append(Write("PERSIST", record))
    moved = yield from _take_vms(request, wanted or b"", checks, writes, back, deletes=deletes, ttl_s=ttl_s)
    vms = "" if not moved else f"; {moved:,} of its VMs to completed, where the manager destroys them"
    return Step(
        id=request,
        checks=tuple(checks),
        writes=tuple(writes),
        back_checks=(
            Check("field", record, b"status", status, "its status has changed since"),
            Check("score", seen.key, seen.member, None, "it is in line again"),
        ),
        back_writes=tuple(back),
        effect=f"{status.decode()}, out of {text_of(seen.key)}{vms}",
        warning="undone, VMs that the manager destroyed meanwhile do not come back" if moved else "",
    )


def _take_vms(
    request: str,
    wanted: bytes,
    checks: list[Check],
    writes: list[Write],
    back: list[Write],
    *,
    deletes: bool,
    ttl_s: int,
) -> Program[int]:
    moved = 0
    for part in text_of(wanted).split(","):
        alias, _, rest = part.partition(":")
        pool, _, count = rest.rpartition(":")
        if not (alias and pool and count.isdigit()):
            continue
        delivered = delivered_key(request, alias, pool)
        [vms] = yield reads.read((b"SMEMBERS", delivered))
        if reads.is_error(vms) or not vms:
            continue
        names = sorted(vms)
        if len(names) > MOST_VMS:
            raise InvalidOption(f"{request!r} has {len(names):,} VMs", hint="delete it through its API")
        running, done = pool_key("running", pool), pool_key("completed", pool)
        [there] = yield reads.read((b"SMISMEMBER", running, *names))
        for vm, is_running in zip(names, reads.good(there), strict=True):
            if is_running:
                moved += 1
                checks.append(Check("member", running, vm, b"1", "one of its VMs went on"))
                checks.append(Check("member", done, vm, None, "one of its VMs is completed already"))
                writes += [Write("SREM", running, (vm,)), Write("SADD", done, (vm,))]
                back.append(Write("SMOVE", done, (running, vm)))  # one that is not there any more stays away
        if deletes:
            writes.append(Write("DEL", delivered))
            back.append(Write("SADD", delivered, tuple(names)))
        else:
            writes.append(Write("EXPIRE", delivered, (b"%d" % ttl_s,)))
            back.append(Write("PERSIST", delivered))
    return moved
