"""Jobs of BullMQ, decoded from their hashes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._model import payload
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.bullmq.keys import NAME, TICKS, is_marker
from qdeck.adapters.model import Entry, Part
from qdeck.adapters.stored_values import read_short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._model.values import JobDetail
    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Raw, Want

LOCK_MS: Final = 60_000  # a job that began so long ago and has no lock lost it: BullMQ renews one every 15s
MOST_LOGS: Final = 1_000
MOST_RELATED: Final = 100
RECORD: Final = (
    b"name", b"timestamp", b"processedOn", b"finishedOn", b"priority", b"atm", b"attemptsMade", b"parentKey", b"pb",
)  # fmt: skip
_LONG: Final = {Part.ERROR: (b"failedReason", b"stacktrace"), Part.BODY: (b"data",)}
Fields = dict[bytes, bytes | None]


def fill(base: bytes, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
    """Return the jobs of some members, with the parts that are wanted."""
    raws = [raw for raw in raws if not is_marker(raw.member)]
    keys = [base + raw.member for raw in raws]
    records = yield from _records(keys)
    for part, names in _LONG.items():
        if part in want:
            yield from _read_long(keys, records, names)
    active = [key for key, raw in zip(keys, raws, strict=True) if raw.source.native_state == "active"]
    locked = yield from read_locked(active)
    each = zip(raws, keys, records, strict=True)
    return [_job(queue, raw, record, now, is_locked=key in locked) for raw, key, record in each]


def _records(keys: Sequence[bytes]) -> Program[list[Fields | None]]:
    replies = yield with_errors(*((b"HMGET", key, *RECORD) for key in keys))
    return [reads.record(RECORD, reply) for reply in replies]


def _read_long(keys: Sequence[bytes], records: Sequence[Fields | None], names: Sequence[bytes]) -> Program[None]:
    """Read fields that may be long into these records, without very long ones."""
    there = [(key, record, name) for key, record in zip(keys, records, strict=True) if record for name in names]
    values = yield from read_short([(key, name) for key, _, name in there])
    for (_, record, name), value in zip(there, values, strict=True):
        record[name] = value


def read_locked(keys: Sequence[bytes]) -> Program[set[bytes]]:
    """Read which of these jobs a worker has locked."""
    replies = (yield with_errors(*((b"EXISTS", key + b":lock") for key in keys))) if keys else []
    return {key for key, reply in zip(keys, replies, strict=True) if is_error(reply) or reply}


def is_stalled(began_ms: int | None, now: int, *, is_locked: bool) -> bool:
    """Return whether the worker of an active job has lost it."""
    return not is_locked and (began_ms is None or now - began_ms > LOCK_MS)


def _job(queue: str, raw: Raw, record: Fields | None, now: int, *, is_locked: bool) -> Entry:
    source, job, facts = raw.source, text_of(raw.member), record or {}
    made, began, ended = (_ms(facts, name) for name in (b"timestamp", b"processedOn", b"finishedOn"))
    stalled = source.state is State.RUNNING and is_stalled(began, now, is_locked=is_locked)
    since = {State.RUNNING: began, State.DEAD: ended, State.DONE: ended}.get(source.state, made)
    class_name, message = error_of(facts)
    body = facts.get(b"data")
    return Entry(
        id=job, key=f"{NAME}/{queue}/{source.native_state}/{job}", adapter=NAME, queue=queue, state=source.state,
        native_state=source.native_state, seen=raw.seen(), task=text_of(facts.get(b"name") or b"") or None,
        priority=digits(facts.get(b"priority") or b""), enqueued_ms=made, since_ms=since,
        attempts=digits(facts.get(b"atm") or facts.get(b"attemptsMade") or b""),
        due_ms=_due(raw.score) if source.state is State.DELAYED else None,
        worker=payload.mask_text(text_of(facts.get(b"pb") or b"")) or None, error=class_name, message=message,
        failed_ms=ended if source.state is State.DEAD else None, body=body,
        problem="it has no record" if record is None else None,
        stuck=Stuck(code=StuckCode.STALLED) if stalled else None,
    )  # fmt: skip


def _ms(facts: Fields, name: bytes) -> int | None:
    return digits(facts.get(name) or b"")


def _due(score: bytes | None) -> int | None:
    """Return when a delayed job is due: its score is the time and a counter."""
    ticks = None if score is None else score_ms(score)
    try:
        return int(float(score or b"")) // TICKS if ticks is None else ticks // TICKS
    except (ValueError, OverflowError):
        return None


def error_of(facts: Fields) -> tuple[str | None, str | None]:
    """Return class and message of the last failure; the class is only in the stack trace."""
    reason = facts.get(b"failedReason")
    if reason is None:
        return None, None
    message = reason.decode("utf-8", "replace")
    head = stack_in(facts).partition("\n")[0]
    name, colon, _ = head.partition(":")
    is_class = bool(colon) and len(name) <= 200 and name.replace(".", "").replace("_", "").isalnum()
    return name.rpartition(".")[2] if is_class else "Error", payload.mask_text(message)


def stack_in(facts: Fields) -> str:
    """Return the stack trace of the last failure."""
    try:
        found = codec.decode_json(facts.get(b"stacktrace") or b"[]")
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    last = found[-1] if isinstance(found, list) and found else ""
    return last if isinstance(last, str) else ""


def with_relations(base: bytes, detail: JobDetail) -> Program[JobDetail]:
    """Return a job with its children in a flow, and with the parent that waits for it."""
    key = base + raw_of(detail.id)
    parent, *children = yield with_errors(
        (b"HGET", key, b"parentKey"), (b"SRANDMEMBER", key + b":dependencies", MOST_RELATED),
        (b"HRANDFIELD", key + b":processed", MOST_RELATED), (b"HRANDFIELD", key + b":failed", MOST_RELATED),
        (b"ZRANGE", key + b":unsuccessful", 0, MOST_RELATED - 1),
    )  # fmt: skip
    found = sorted({one for reply in children if not is_error(reply) for one in reply})[:MOST_RELATED]
    parents = [parent] if isinstance(parent, bytes) and parent else []
    refs = [tuple(_reference(base, one) for one in some) for some in (found, parents)]
    return replace(detail, depends_on=refs[0], dependents=refs[1]) if found or parents else detail


def _reference(base: bytes, key: bytes) -> str:
    """Return the id in the key of a job, and its queue where that is another one."""
    if key.startswith(base):
        return payload.mask_text(text_of(key.removeprefix(base)))
    prefix, _, rest = key.removeprefix(base[: base.index(b":") + 1]).rpartition(b":")
    return payload.mask_text(f"{text_of(rest)}@{text_of(prefix)}")


def with_logs(base: bytes, detail: JobDetail) -> Program[JobDetail]:
    """Return a job with its log, its result and the stack trace of its last failure."""
    key = base + raw_of(detail.id)
    logs, trace, result = yield with_errors(
        (b"LRANGE", key + b":logs", -MOST_LOGS, -1), (b"HGET", key, b"stacktrace"), (b"HGET", key, b"returnvalue")
    )
    facts: dict[str, Any] = {}
    if not is_error(logs) and logs:
        facts["log"] = payload.mask_text("\n".join(line.decode("utf-8", "replace") for line in logs))
    stack = "" if is_error(trace) else stack_in({b"stacktrace": trace})
    if stack and detail.failure is not None:
        facts["failure"] = replace(detail.failure, traceback=payload.mask_text(stack))
    if not is_error(result) and result is not None and detail.state == State.DONE:
        facts |= {"has_result": True, "result": payload.decode(result)}
    return replace(detail, **facts) if facts else detail
