"""The changes of verbs in VMPooler: the effects of its API or purge, in one step, if the entry has not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits
from qdeck._formatting import threshold
from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters import cells
from qdeck.adapters.cells import THERE, Change
from qdeck.adapters.model import PERMANENT, Entry, Skipped, age_s
from qdeck.adapters.times import iso
from qdeck.adapters.vmpooler.keys import (
    CREATE,
    CREATE_QUEUE,
    DEAD,
    MOST_TOGETHER,
    REQUEST_QUEUE,
    SETS,
    TASKS,
    pool_key,
    request_key,
    task_items,
    vm_key,
)
from qdeck.adapters.vmpooler.purge import ORPHAN, ORPHAN_TTL_S, expire_orphan, is_old_orphan
from qdeck.adapters.vmpooler.read import CLONED, read_pools, since_of
from qdeck.adapters.vmpooler.reasons import lacks_for_retry
from qdeck.adapters.vmpooler.requests import DESTROYED, change_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck._redis.commands import Program
    from qdeck._settings.limits import Limits
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.cells import Cell
    from qdeck.adapters.plans import Context

_NO_LETTER: Final = Caution(code=CautionCode.NO_DEAD_LETTER)
_RECORDS_END: Final = Caution(code=CautionCode.RECORDS_END, name="VMs")
_VM_STAYS: Final = Caution(code=CautionCode.ELSEWHERE_UNCHANGED, name="the VM itself")


def build(
    adapter: Adapter, data_ttl_ms: int, act: Verb, entry: Entry, context: Context, reason: str
) -> Program[Change]:
    """Return the change of a verb for an entry."""
    now, limits = context.now, context.limits
    if entry.native_state == ORPHAN:
        return expire_orphan(entry, (yield from read_pools(adapter.discovered)), now)
    if entry.queue == REQUEST_QUEUE:
        return (yield from change_request(act, entry, now, data_ttl_ms))
    rule = context.rule
    if rule is not None and entry.state != State.DEAD and entry.age_s is None:
        raise Skipped.because("its age is unknown: its record has no time that can be read")
    if rule is not None and entry.state != State.DEAD and not adapter.takes(rule, entry, limits, now):
        raise Skipped.because("it is no longer over the limit")
    if act is Verb.EXPIRE and entry.native_state == "pending":
        dropped = yield from _drop(entry, now, data_ttl_ms)
        return dropped if rule is None else msgspec.structs.replace(dropped, caution=_NO_LETTER)
    if act is Verb.EXPIRE:
        raise Skipped.because("only requests, pending VMs and orphaned records expire")
    if act is Verb.RETRY:
        return (yield from _retry(entry))
    if act is Verb.DISCARD and entry.state == State.DEAD and entry.seen.value is not None:
        return (yield from remove_item(entry))
    if act is Verb.DISCARD and (entry.state == State.DEAD or entry.queue == CREATE_QUEUE or entry.queue in TASKS):
        return _remove(entry)
    if entry.queue == CREATE_QUEUE or entry.queue in TASKS:
        raise Skipped.because("a task can only be discarded")
    if act is Verb.BURY:
        return (yield from _bury(entry, context, reason, data_ttl_ms))
    if act is Verb.DISCARD and entry.state == State.DONE:
        return (yield from _forget(entry, now, limits if rule is not None else None))
    return (yield from _complete(entry))


def _remove(entry: Entry) -> Change:
    seen = entry.seen
    if seen.score is not None:
        cell = cells.score(seen.key, seen.member, seen.score, None)
    else:
        cell = cells.member(seen.key, seen.member, THERE, None)
    return Change(
        id=entry.id,
        cells=(cell,),
        effect=f"removed from {text_of(seen.key)}",
    )


def _forget(entry: Entry, now: int, limits: Limits | None) -> Program[Change]:
    """Remove a VM from `completed` or `discovered`.

    A purge also lets its record expire if that becomes an orphan of its age: the manager does so in the same pass.
    """
    removed, hash_key = _remove(entry), vm_key(entry.seen.member)
    [ttl] = yield with_errors((b"TTL", hash_key))
    ends = limits is not None and ttl == -1 and is_old_orphan(age_s(now, entry.enqueued_ms), limits)
    record = (cells.expiry(hash_key, None, b"%d" % (now + ORPHAN_TTL_S * 1000)),) if ends else ()
    guards = _in_no_other_set(entry) if entry.native_state == "completed" else ()
    return msgspec.structs.replace(
        removed,
        cells=(*removed.cells, *record, *guards),
        effect=removed.effect + (f"; its record expires in {threshold(ORPHAN_TTL_S)}" if ends else ""),
        caution=_RECORDS_END if ends else _VM_STAYS,
    )


def remove_item(entry: Entry) -> Program[Change]:
    """Remove one failed task from the list of its type, and the type with its last one."""
    key, name, item = entry.seen.key, entry.seen.member, entry.seen.value or b""
    [value] = yield with_errors((b"HGET", key, name))
    items = [] if is_error(value) or value is None else task_items(value)
    if item not in items:
        raise Skipped(SkipCode.GONE, text_of(key))
    items.remove(item)
    rest = b"[" + b",".join(items) + b"]" if items else None
    return Change(id=entry.id, cells=(cells.field(key, name, value, rest),), effect=f"removed from {text_of(key)}")


def _complete(entry: Entry) -> Program[Change]:
    """To `completed`, where the manager destroys it: what DELETE of its API does."""
    seen, done = entry.seen, pool_key("completed", entry.queue)
    [there] = yield with_errors((b"SISMEMBER", done, seen.member))
    is_there = not is_error(there) and bool(there)
    return Change(
        id=entry.id,
        cells=(
            cells.member(seen.key, seen.member, THERE, None),
            cells.member(done, seen.member, THERE) if is_there else cells.member(done, seen.member, None, THERE),
        ),
        effect=(f"removed from {text_of(seen.key)}; it is in" if is_there else "moved to")
        + f" {text_of(done)}; the manager destroys it",
        caution=DESTROYED,
    )


def _bury(entry: Entry, context: Context, reason: str, data_ttl_ms: int) -> Program[Change]:
    """To the dead letters, as an entry of the document; a ready VM goes to `completed`, as its manager does it."""
    kind = "ready" if entry.state == State.READY else "pending"
    now, dead, ttl_ms = context.now, DEAD[kind], context.limits.ms("dlq_ttl")
    told = yield from _entry(entry, kind, now // 1000, reason, by_rule=context.rule is not None)
    moved = yield from _complete(entry) if kind == "ready" else _drop(entry, now, data_ttl_ms)
    # The letters that are there already may be kept for longer, or for good: their end is never brought nearer.
    kept = (cells.expiry_later(dead, now + ttl_ms),) if ttl_ms >= 1000 else ()
    where = f"moved to {text_of(dead)}"
    return msgspec.structs.replace(
        moved,
        cells=(*moved.cells, cells.score(dead, told, None, b"%d" % (now // 1000)), *kept),
        effect=where + (f", and {moved.effect.removeprefix('moved ')}" if kind == "ready" else ""),
    )


def _entry(entry: Entry, kind: str, at: int, reason: str, *, by_rule: bool) -> Program[bytes]:
    """Return the JSON of a dead letter: of a purge with its reason, else with what an operator or the VM says."""
    names = (b"request_id", b"pool_alias", b"clone_error_class")
    replies = yield with_errors(*((b"HGET", vm_key(entry.seen.member), name) for name in names))
    request, alias, error = (text_of(one) if isinstance(one, bytes) else None for one in replies)
    retries = None
    if request is not None:
        [retries] = yield with_errors((b"HGET", request_key(raw_of(request)), b"retry_count"))
    own = entry.message if not reason else None
    facts = {
        "vm": entry.id, "pool": entry.queue, "queue_from": kind,
        "error_class": "Purge" if by_rule else (own and error) or "Buried",
        "error_message": reason or own or "buried by an operator",
        "failed_at": iso(at * 1000).replace("+00:00", "Z"),
        "retry_count": (digits(retries) if isinstance(retries, bytes) else None) or 0,
        "request_id": request, "pool_alias": alias,
    }  # fmt: skip
    return codec.encode_json({name: value for name, value in facts.items() if value is not None})


def _drop(entry: Entry, now: int, data_ttl_ms: int) -> Program[Change]:
    """Out of `pending`, without a dead letter; its hash gets an end only if it has none, and is the one that was read.

    Undone only while the VM is in no set: the manager may have found it since.
    """
    seen, hash_key = entry.seen, vm_key(entry.seen.member)
    values, ttl = yield with_errors((b"HMGET", hash_key, *CLONED), (b"TTL", hash_key))
    cloned = dict.fromkeys(CLONED) if is_error(values) else dict(zip(CLONED, values, strict=True))
    if since_of("pending", {name: value for name, value in cloned.items() if value}, None) != entry.since_ms:
        raise Skipped(SkipCode.CHANGED, text_of(hash_key))
    record = [cells.field(hash_key, name.encode(), value) for name, value in cloned.items()] if ttl != -2 else []
    record += [cells.expiry(hash_key, None, b"%d" % (now + data_ttl_ms))] if ttl == -1 else []
    return Change(
        id=entry.id,
        cells=(cells.member(seen.key, seen.member, THERE, None), *record, *_in_no_other_set(entry)),
        effect=f"removed from {seen.key.decode('utf-8', 'replace')}, without a dead letter",
        caution=_VM_STAYS,
    )


def _in_no_other_set(entry: Entry) -> Iterator[Cell]:
    """Return the cells that only an undo checks: a VM that is in a set has moved."""
    for name in SETS:
        if (key := pool_key(name, entry.queue)) != entry.seen.key:
            yield cells.member(key, entry.seen.member, None).guards_undo


def _retry(entry: Entry) -> Program[Change]:
    """Ask for a VM of its request again, as the manager does: with the mark 1, which goes first.

    Equal tasks would become one, so a task that waits already is made to ask for one VM more.
    """
    if why := lacks_for_retry(entry):
        raise Skipped.because(why)
    tags = dict(tag.split(":", 1) for tag in entry.tags if tag != PERMANENT)
    request, alias, pool, seen = tags["request"], tags["alias"], entry.queue, entry.seen
    record = request_key(raw_of(request))
    status, wanted = yield [(b"HGET", record, b"status"), (b"HGET", record, b"requested")]
    if wanted is None or status is not None:
        over = "is gone" if wanted is None else f"is {status.decode('utf-8', 'replace')}"
        raise Skipped.because(f"its request {request!r} {over}")
    tasks = [raw_of(f"{alias}:{pool}:{count}:{request}") for count in range(1, MOST_TOGETHER + 2)]
    scores = yield (b"ZMSCORE", CREATE, *tasks[:-1])
    there = [(at, score) for at, score in enumerate(scores) if score is not None]
    at, score = there[0] if there else (-1, None)
    return Change(
        id=entry.id,
        cells=(
            cells.score(seen.key, seen.member, seen.score, None),
            cells.field(record, b"status", None),
            cells.field(record, b"requested", wanted),
            *(() if score is None else (cells.score(CREATE, tasks[at], score, None),)),
            cells.score(CREATE, tasks[at + 1], None, b"1"),
        ),
        effect=f"one more VM of {pool} for the request {request}, as the next task"
        + ("; its error is permanent" if PERMANENT in entry.tags else ""),
    )
