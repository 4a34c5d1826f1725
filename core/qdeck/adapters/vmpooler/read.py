"""VMPooler's entries as records: VMs of pools, requests, tasks, dead letters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, score_ms, whole
from qdeck._model import payload
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import PERMANENT, Entry, Kind, Raw, Source, age_s, short
from qdeck.adapters.times import read_ms
from qdeck.adapters.vmpooler.keys import (
    CREATE,
    CREATE_QUEUE,
    DEAD,
    FIELDS,
    POOLS,
    PROCESSING,
    REQUEST_QUEUE,
    REQUESTS,
    SETS,
    Letter,
    active_key,
    is_permanent,
    json_object,
    kind_tag,
    pool_key,
    read_letter,
    read_task,
    request_key,
    task_items,
    vm_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Discovered

STATE_OF: Final = {
    "pending": State.DELAYED, "ready": State.READY, "running": State.RUNNING, "migrating": State.RUNNING,
    "completed": State.DONE, "discovered": State.DONE,
}  # fmt: skip
LOST: Final = "Lost"  # in place of the error of a request that is not in progress, and whose record stays
# A failed request is no dead letter: those are the VMs that it did not get.
_REQUEST_STATE: Final = {b"ready": State.DONE, b"failed": State.CANCELLED, b"deleted": State.CANCELLED}
REQUEST_TTL_MS: Final = 5 * 60_000
CLONED: Final = ("clone", "clone_time")  # of the manager the second is a duration, in the document a time
_SINCE: Final = {
    "pending": CLONED, "ready": ("ready", *CLONED), "running": ("checkout",), "migrating": ("checkout",),
    "completed": ("destroy", "checkout"),
}  # fmt: skip
_TASK: Final = re.compile(r"[\w.-]{1,100}(:[\w.+-]{1,100})?")
_SECONDS: Final = re.compile(rb"[0-9]{10}")
_NAME: Final = "vmpooler"
Fields = dict[str, bytes]


def owners(pool: str, vms: Sequence[bytes]) -> Program[list[str | None]]:
    """Return the set in which each VM is counted; None if it is in none."""
    if not vms:
        return []
    replies = yield with_errors(*((b"SMISMEMBER", pool_key(name, pool), *vms) for name in SETS))
    found: list[str | None] = [None] * len(vms)
    for name, reply in zip(SETS, replies, strict=True):
        if is_error(reply):
            continue  # not a set: told by the rows
        for at, there in enumerate(reply):
            if there and found[at] is None:
                found[at] = name
    return found


def read_vms(vms: Sequence[bytes]) -> Program[list[Fields]]:
    """Read the known fields of VMs; one without a hash has none."""
    replies = yield from reads.try_all([(b"HMGET", vm_key(vm), *FIELDS) for vm in vms])
    found: list[Fields] = []
    for reply in replies:
        values = [] if is_error(reply) else reply
        found.append({name: value for name, value in zip(FIELDS, values, strict=False) if value is not None})
    return found


def fill_vms(pool: str, raws: Sequence[Raw], now: int, stuck_ms: int) -> Program[list[Entry]]:
    """Return the VMs of one set; one that is counted in another set is listed there."""
    here = raws[0].source.native_state
    places = yield from owners(pool, [raw.member for raw in raws])
    kept = [raw for raw, place in zip(raws, places, strict=True) if place == here]
    hashes = yield from read_vms([raw.member for raw in kept])
    active: Sequence[bytes | None] = [None] * len(kept)
    if kept and STATE_OF[here] is State.RUNNING:
        [reply] = yield with_errors((b"HMGET", active_key(pool), *(raw.member for raw in kept)))
        active = active if is_error(reply) else reply
    return [
        vm_entry(pool, raw, fields, checkout, now, stuck_ms)
        for raw, fields, checkout in zip(kept, hashes, active, strict=True)
    ]


def since_of(native: str, fields: Mapping[str, bytes], checkout: bytes | None) -> int | None:
    """Return since when a VM is in its state: by the first field of it that is there. None is unknown.

    One that cannot be read is not replaced by another, which is older.
    """
    if native == "running" and checkout is not None:
        return _moment(checkout)
    return next((_moment(fields[name]) for name in _SINCE.get(native, ()) if name in fields), None)


def _moment(raw: bytes) -> int | None:
    return int(raw) * 1000 if _SECONDS.fullmatch(raw) else read_ms(raw)


def vm_entry(
    pool: str, raw: Raw, fields: Mapping[str, bytes], checkout: bytes | None, now: int, stuck_ms: int
) -> Entry:
    """Return a VM as an entry."""
    native, vm = raw.source.native_state, text_of(raw.member)
    since = since_of(native, fields, checkout)
    stuck = None
    if native == "pending" and since is not None and now - since > stuck_ms:
        stuck = _waits(native, now - since, stuck_ms)
    error = fields.get("clone_error_class")
    message = fields.get("clone_error") or fields.get("open_socket_error")
    return Entry(
        id=vm, key=f"{_NAME}/{pool}/{vm}", adapter=_NAME, queue=pool, state=STATE_OF[native], native_state=native,
        seen=raw.seen(), since_ms=since, age_s=age_s(now, since), enqueued_ms=since_of("pending", fields, None),
        tags=_tags(fields), error=None if error is None else text_of(error), body=body_of(fields), stuck=stuck,
        message=None if message is None else payload.mask_text(message.decode("utf-8", "replace")),
    )  # fmt: skip


def _waits(native: str, ms: int, limit_ms: int) -> Stuck:
    return Stuck(code=StuckCode.WAITING_TOO_LONG, name=native, seconds=ms // 1000, limit=limit_ms // 1000)


def _tags(fields: Mapping[str, bytes]) -> tuple[str, ...]:
    known = (("request", "request_id"), ("alias", "pool_alias"), ("user", "token:user"))
    return tuple(f"{word}:{fields[name].decode('utf-8', 'replace')}" for word, name in known if name in fields)


def body_of(fields: Mapping[str, bytes]) -> bytes | None:
    """Return the fields of a hash as JSON; secrets are masked when it is shown."""
    if not fields:
        return None
    return codec.encode_json({name: value.decode("utf-8", "replace") for name, value in fields.items()})


def fill_requests(raws: Sequence[Raw], now: int, unread: list[str] | None = None) -> Program[list[Entry]]:
    """Return requests that wait or are in progress; or, from a scan of their hashes, those that ended.

    Keys that hold no hash are named in `unread`.
    """
    names = raws[0].source.kind is Kind.NAMES
    ids = [raw.member.removeprefix(request_key(b"")) for raw in raws]
    wanted = ("requested", "status", "retry_count", "failure_reason", "token:token", "token:user")
    replies = yield from reads.try_all([(b"HMGET", request_key(name), *wanted) for name in ids])
    if unread is not None:
        bad = [request_key(name) for name, reply in zip(ids, replies, strict=True) if is_error(reply)]
        unread += [reads.ignored_words(key, "vmpooler", "hash") for key in bad]
    scores: list[Any] = [None, None]
    if names and ids:
        scores = yield with_errors((b"ZMSCORE", REQUESTS, *ids), (b"ZMSCORE", PROCESSING, *ids))
    found: list[tuple[Raw, str, dict[str, bytes]]] = []
    for at, (raw, request, reply) in enumerate(zip(raws, ids, replies, strict=True)):
        values = [] if is_error(reply) else reply
        fields = {name: value for name, value in zip(wanted, values, strict=False) if value is not None}
        if names and (not fields or any(not is_error(s) and s[at] is not None for s in scores)):
            continue
        found.append((raw, text_of(request), fields))
    lost = [request for _, request, known in found if names and "status" not in known]
    ends = yield from reads.try_all([(b"TTL", request_key(raw_of(request))) for request in lost])
    endless = {request for request, ttl in zip(lost, ends, strict=True) if ttl == -1}
    return [_request(raw, request, fields, now, endless=request in endless) for raw, request, fields in found]


def _request(raw: Raw, request: str, fields: Mapping[str, bytes], now: int, *, endless: bool) -> Entry:
    """Return a request; a lost one is `endless` while nothing removes its record."""
    status, source = fields.get("status"), raw.source
    said = payload.mask_text(text_of(status or b""))
    state, native = source.state, source.native_state
    since = score_ms(raw.score, 1000)
    problem = stuck = None
    if source.kind is Kind.NAMES:
        lost = "it is neither waiting nor in progress and has no outcome; the manager lost it"
        state, problem = (State.CANCELLED, lost) if status is None else (_REQUEST_STATE.get(status, State.DONE), None)
        native = "lost" if status is None else said
    elif status is not None:
        native = f"{native}, {said}"  # its status stands before the manager takes it out of line
    elif "requested" not in fields:
        problem = "it has no record of the request"
    if since is not None and now - since > REQUEST_TTL_MS:
        stuck = _waits(native, now - since, REQUEST_TTL_MS)
    reason = fields.get("failure_reason")
    retries = digits(fields.get("retry_count", b""))
    return Entry(
        id=request, key=f"{_NAME}/{REQUEST_QUEUE}/{request}", adapter=_NAME, queue=REQUEST_QUEUE, state=state,
        native_state=native, seen=raw.seen(fields.get("status")), since_ms=since, age_s=age_s(now, since),
        enqueued_ms=since, attempts=retries, tags=_tags(fields),
        body=body_of(fields), stuck=stuck if state in (State.READY, State.RUNNING) else None, problem=problem,
        error=LOST if endless else "Failed" if status == b"failed" else None,
        message=problem or (reason and payload.mask_text(reason.decode("utf-8", "replace"))) or None,
    )  # fmt: skip


def fill_tasks(queue: str, raws: Sequence[Raw], now: int) -> list[Entry]:
    """Return waiting tasks: of requests, disks and snapshots."""
    return [_task(queue, raw, now) for raw in raws]


def _task(queue: str, raw: Raw, now: int) -> Entry:
    text, native, since, problem = text_of(raw.member), "queued", None, None
    told: dict[str, Any] = {"task": text}
    if raw.source.key == CREATE:
        task, score = read_task(raw.member), float(raw.score or 0)
        native = "cancel" if score == 0 else "retry" if score == 1 else "queued"
        since = score_ms(score, 1000) if score > 1 else None  # 0 and 1 are marks, no times
        if task is None:
            problem = "it is not `alias:pool:count:request`"
        else:
            told = {"alias": task.alias, "pool": task.pool, "count": task.count, "request_id": task.request}
    else:
        vm, _, rest = text.partition(":")
        told = {"vm": vm, ("size_gb" if queue == "tasks:disk" else "snapshot"): rest}
    return Entry(
        id=text, key=f"{_NAME}/{queue}/{text}", adapter=_NAME, queue=queue, state=State.READY, native_state=native,
        seen=raw.seen(), since_ms=since, age_s=age_s(now, since), enqueued_ms=since, problem=problem,
        task=queue.partition(":")[2], body=codec.encode_json(told) if problem is None else raw.member,
        tags=(f"request:{told['request_id']}",) if queue == CREATE_QUEUE and problem is None else (),
    )  # fmt: skip


def fill_letters(raws: Sequence[Raw], now: int) -> list[Entry]:
    """Return dead letters, each in the queue of its pool; one without a pool is in a queue of its set."""
    return [_letter(raw, now) for raw in each_letter(raws)]


def each_letter(raws: Iterable[Raw]) -> Iterator[Raw]:
    """Yield dead letters one by one: a field of the fourth key is a type of task, and its value a list of failures."""
    for raw in raws:
        for item in (None,) if raw.value is None else task_items(raw.value):
            yield raw if item is None else msgspec.structs.replace(raw, value=item)


def queue_of_letter(raw: Raw) -> str:
    """Return the queue of a dead letter: its pool, or that of its set."""
    pool = _facts_of(raw).facts.get("pool")
    return pool if isinstance(pool, str) and pool else raw.source.native_state


def _facts_of(raw: Raw) -> Letter:
    if raw.value is None:
        return read_letter(raw.member)
    facts = json_object(raw.value) or {}
    name = facts.get("vm") or text_of(raw.value).strip('"')
    # Without facts it is the task as it stood in its set, such as `vm:10`; other text may hold anything.
    return Letter(name if isinstance(name, str) and _TASK.fullmatch(name) else short(raw.value), facts)


def _letter(raw: Raw, now: int) -> Entry:
    kind = raw.source.native_state.removeprefix("dlq:")
    letter = _facts_of(raw)
    facts, vm = letter.facts, letter.vm
    at = score_ms(raw.score, 1000)
    failed = read_ms(facts.get("failed_at")) if isinstance(facts.get("failed_at"), str) else None
    retries = whole(facts.get("retry_count"))
    since = at if at is not None else failed
    message = facts.get("error_message")
    known = {name: facts[name].encode() for name in ("request_id", "pool_alias") if isinstance(facts.get(name), str)}
    permanent = [PERMANENT] if is_permanent(facts.get("error_class"), message) else []
    stamp = "" if at is None else f"{at // 1000}:"
    return Entry(
        id=vm, key=f"{_NAME}/dlq:{kind}/{vm}:{stamp}{short(raw.value or raw.member)}", adapter=_NAME,
        queue=queue_of_letter(raw), state=State.DEAD, native_state=raw.source.native_state, seen=raw.seen(),
        task=None if raw.value is None else text_of(raw.member), since_ms=since, age_s=age_s(now, since),
        failed_ms=failed or at, queue_from=str(facts.get("queue_from") or kind),
        tags=(kind_tag(kind), *_tags(known), *permanent), error=str(facts.get("error_class") or "Error"),
        problem=letter.problem, message=payload.mask_text(message) if isinstance(message, str) else letter.problem,
        attempts=None if retries is None else retries + 1,
        body=codec.encode_json(facts) if facts else raw.value if raw.value is not None else raw.member,
    )  # fmt: skip


def dead_sources() -> Program[list[Source]]:
    """Return the dead-letter keys; the fourth has the type that it has on this server."""
    [kind] = yield with_errors((b"TYPE", DEAD["tasks"]))
    tasks = Kind.HASH if kind == b"hash" else Kind.ZSET
    return [
        Source(
            key=key,
            kind=tasks if name == "tasks" else Kind.ZSET,
            state=State.DEAD,
            native_state=f"dlq:{name}",
            down=True,
        )
        for name, key in DEAD.items()
    ]


def read_pools(discovered: Discovered | None) -> Program[list[str]]:
    """Return the configured pools, and those that only have sets left."""
    names, _ = yield from reads.scan_set(POOLS)
    found = {text_of(name) for name in names}
    groups = discovered.groups if discovered is not None else {}
    found.update(group.removeprefix("pool ") for group in groups if group.startswith("pool "))
    return sorted(found)
