"""Jobs of RQ, from their hashes, last results and calls, which are never unpickled."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits, score_ms
from qdeck._model import payload
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import HistoryEvent, State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import Entry, Part, Raw
from qdeck.adapters.rq.keys import HANDOVER, NAME, STARTED, dependents_key, first_seen_key, job_key, job_of, results_key
from qdeck.adapters.stored_values import inflated, read_short
from qdeck.adapters.times import read_ms
from qdeck.adapters.tracebacks import error_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import JobDetail
    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Want

MOST_RESULTS: Final = 20
MOST_DEPENDENTS: Final = 100
GRACE_MS: Final = 60_000  # RQ's own: how long a worker may be late, and a job be between the queue and its worker
SHOWN: Final = (
    b"status", b"description", b"created_at", b"enqueued_at", b"started_at", b"ended_at", b"worker_name",
    b"retries_left", b"number_of_retries", b"timeout", b"dependency_ids", b"group_id", b"exc_info",
)  # fmt: skip
RESULTS: Final = {b"1": "finished", b"2": "failed", b"3": "stopped", b"4": "retried", b"5": "failed"}
Fields = dict[bytes, bytes | None]
CALL: Final = re.compile(r"([A-Za-z_][\w.]*)\(.*\)", re.DOTALL)


def fill(queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
    """Return the jobs of some members, with the parts that are wanted."""
    ids = [job_of(raw.source.native_state, raw.member) for raw in raws]
    records: list[Fields | None] = [{} for _ in raws]
    if Part.RECORD in want:
        records = yield from _records(ids)
    errors = (yield from _errors(ids, records)) if Part.ERROR in want else [("", "")] * len(raws)
    bodies = (yield from read_calls(ids)) if Part.BODY in want else [None] * len(raws)
    found = yield from _first_seen(queue, raws)
    each = zip(raws, ids, records, errors, bodies, found, strict=True)
    return [_job(queue, now, *one) for one in each]


def _records(ids: Sequence[bytes]) -> Program[list[Fields | None]]:
    """Read the hashes of jobs; None for one that is missing or has another type."""
    replies = yield with_errors(*((b"HMGET", job_key(one), *SHOWN) for one in ids))
    return [reads.record(SHOWN, reply) for reply in replies]


def _errors(ids: Sequence[bytes], records: Sequence[Fields | None]) -> Program[list[tuple[str | None, str]]]:
    """Read class and message of each job's last error, from its newest result or RQ 1's field."""
    replies = yield with_errors(*((b"XREVRANGE", results_key(one), b"+", b"-", b"COUNT", 1) for one in ids))
    found = []
    for reply, record in zip(replies, records, strict=True):
        text = ""
        if not is_error(reply) and reply:
            [[_, flat], *_] = reply
            text = traceback_in(dict(zip(flat[::2], flat[1::2], strict=False)))
        text = text or _text(inflated((record or {}).get(b"exc_info") or b""))
        found.append(error_of(text) if text else (None, ""))
    return found


def with_results(detail: JobDetail) -> Program[JobDetail]:
    """Return a job with the results of its last executions, the newest traceback in full, and its dependents."""
    job = raw_of(detail.id)
    replies, waiting = yield with_errors(
        (b"XREVRANGE", results_key(job), b"+", b"-", b"COUNT", MOST_RESULTS),
        (b"SRANDMEMBER", dependents_key(job), MOST_DEPENDENTS + 1),
    )
    dependents = [] if is_error(waiting) else sorted(payload.mask_text(text_of(one)) for one in waiting)
    events: list[HistoryEvent] = []
    failure = detail.failure
    for entry_id, flat in [] if is_error(replies) else reversed(replies):
        result = dict(zip(flat[::2], flat[1::2], strict=False))
        at = digits(entry_id.partition(b"-")[0]) or 0
        text = traceback_in(result)
        class_name, message = error_of(text) if text else (None, "")
        said = {"worker": text_of(result.get(b"worker_name") or b""), "error": class_name, "message": message}
        data = {name: payload.mask_text(value) for name, value in said.items() if value}
        kind = RESULTS.get(result.get(b"type") or b"", "ended")
        events.append(HistoryEvent(at_ms=at, kind=kind, data=data))
        if kind == "failed" and failure is not None:
            failure = replace(failure, at_ms=at, traceback=payload.mask_text(text) if text else None)
    return replace(
        detail, history=tuple(events), failure=failure, dependents=tuple(dependents[:MOST_DEPENDENTS]),
        more_dependents=len(dependents) > MOST_DEPENDENTS,
    )  # fmt: skip


def traceback_in(result: Mapping[bytes, bytes]) -> str:
    """Return the traceback of a result."""
    try:
        packed = base64.b64decode(result.get(b"exc_string") or b"")
    except ValueError:
        return ""
    return _text(inflated(packed))


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")


def read_calls(ids: Sequence[bytes]) -> Program[list[bytes | None]]:
    """Read the calls of jobs, as JSON; None is one that is missing or too large."""
    bodies = yield from read_short([(job_key(one), b"data") for one in ids])
    return [codec.encode_json(call_of(body)) if body else None for body in bodies]


def call_of(body: bytes) -> Any:
    """Return a stored call as a JSON value: function, arguments, and the object whose method it is."""
    from qdeck.adapters import pickle_reader

    data = inflated(body)
    if data is None:
        data = body
    if data[:1] == b"[":
        value: Any = payload.decode(data)  # RQ's JSON serializer
        problem = None
    else:
        shown = pickle_reader.read(data)
        value, problem = shown.value, shown.problem
    if not isinstance(value, list) or len(value) != 4 or problem is not None:
        return payload.show_bytes(data) if problem is not None and value is None else value
    function, instance, args, kwargs = value
    call = {"function": function, "args": args, "kwargs": kwargs}
    return call if instance is None else {**call, "instance": instance}


def _first_seen(queue: str, raws: Sequence[Raw]) -> Program[list[int | None]]:
    """When RQ's maintenance first found each job between its queue and a worker."""
    if not raws or raws[0].source.native_state != HANDOVER:
        return [None] * len(raws)
    return (yield from first_seen(queue, [raw.member for raw in raws]))


def first_seen(queue: str, ids: Sequence[bytes]) -> Program[list[int | None]]:
    """Read since when RQ's maintenance has seen jobs that are between a queue and a worker."""
    replies = yield with_errors(*((b"GET", first_seen_key(queue, one)) for one in ids))
    return [None if is_error(reply) else score_ms(reply, 1000) for reply in replies]


def _job(
    queue: str, now: int, raw: Raw, job: bytes, record: Fields | None,
    error: tuple[str | None, str], body: bytes | None, seen_ms: int | None,
) -> Entry:  # fmt: skip
    source, shown = raw.source, text_of(job)
    facts = record or {}
    moments = {
        name: read_ms(facts.get(name) or None) for name in (b"created_at", b"enqueued_at", b"started_at", b"ended_at")
    }
    due = score_ms(raw.score, 1000) if source.state is State.DELAYED else None
    since = {
        State.READY: moments[b"enqueued_at"], State.DELAYED: moments[b"created_at"],
        State.BLOCKED: moments[b"created_at"],
        State.RUNNING: seen_ms if source.native_state == HANDOVER else moments[b"started_at"],
    }.get(source.state, moments[b"ended_at"])  # fmt: skip
    description = text_of(facts.get(b"description") or b"")
    called = CALL.match(description)  # what RQ writes where its caller gives none
    worker = payload.mask_text(text_of(facts.get(b"worker_name") or b"")) or None
    class_name, message = error
    failed = source.state is State.DEAD
    return Entry(
        id=shown, key=f"{NAME}/{queue}/{source.native_state}/{text_of(raw.member)}", adapter=NAME, queue=queue,
        state=source.state, native_state=source.native_state, seen=raw.seen(),
        name=None if called else description or None, task=_function(body) or (called[1] if called else None),
        enqueued_ms=moments[b"enqueued_at"] or moments[b"created_at"], due_ms=due, since_ms=since,
        worker=worker if source.state is State.RUNNING else None,
        lease_until_ms=score_ms(raw.score, 1000) if source.native_state == STARTED else None,
        error=class_name or ("Error" if message else None), message=payload.mask_text(message) if message else None,
        failed_ms=moments[b"ended_at"] if failed else None,
        attempts=_attempts(facts, source.state), body=body,
        problem="it has no record; the next worker drops it" if record is None else None,
        stuck=stuck_of(raw, due, seen_ms, now),
        depends_on=tuple(_ids(facts.get(b"dependency_ids"))), tags=_group(facts.get(b"group_id")),
    )  # fmt: skip


def _group(name: bytes | None) -> tuple[str, ...]:
    """Return the tag of a job of a group."""
    return (f"group:{payload.mask_text(text_of(name))}",) if name else ()


def _function(body: bytes | None) -> str | None:
    """Return the function of a call, if it was read."""
    call = codec.decode_json(body) if body else None
    name = call.get("function") if isinstance(call, dict) else None
    return name if isinstance(name, str) else None


def _attempts(facts: Fields, state: State) -> int | None:
    """The executions that have begun, where RQ counts them."""
    retries = digits(facts.get(b"number_of_retries") or b"")
    if retries is None:
        return None
    return retries + (state in (State.RUNNING, State.DEAD, State.DONE))


def _ids(raw: bytes | None) -> list[str]:
    try:
        found = codec.decode_json(raw or b"[]")
    except ValueError:
        return []
    return [payload.mask_text(one) for one in found if isinstance(one, str)] if isinstance(found, list) else []


def stuck_of(raw: Raw, due: int | None, seen_ms: int | None, now: int) -> Stuck | None:
    """Return why a job is stuck."""
    source = raw.source
    if source.state in (State.DONE, State.DEAD, State.CANCELLED):
        return None
    if source.native_state == HANDOVER:
        return Stuck(code=StuckCode.OWNER_GONE) if is_lost(seen_ms, now) else None
    if source.native_state == STARTED:
        # The score is the time of the next heartbeat of its worker; infinite if RQ always waits.
        until = score_ms(raw.score, 1000)
        return Stuck(code=StuckCode.LEASE_EXPIRED) if until is not None and until < now - GRACE_MS else None
    if due is not None and due < now - GRACE_MS:
        return Stuck(code=StuckCode.OVERDUE, seconds=(now - due) / 1000)
    return None


def is_lost(seen_ms: int | None, now: int) -> bool:
    """Return whether a job has been between its queue and a worker for too long."""
    return seen_ms is not None and now - seen_ms > GRACE_MS
