"""The stored values of a job: decoded lazily while very many are read, or in full as the record that is shown.

Pure, no reading.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from qdeck._engine import codec, keys, stored_numbers
from qdeck._engine.codec import BAND, Attempts, Event, JobHead, JobLease
from qdeck._engine.stored_numbers import clamped, digits
from qdeck._model import payload
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import NATIVE, HistoryEvent, JobFailure, JobRecord, State
from qdeck._server.queue_details import stuck_since

if TYPE_CHECKING:
    from qdeck._filter import Filter
    from qdeck._filter.nodes import Node

ENDED: Final = (State.DONE, State.DEAD, State.CANCELLED)
_CAUSES: Final = ("failed", "timeout", "crashed", "outage", "dependency", "expired", "cancelled", "buried")
_FAILURES: Final = ("failed", "timeout", "crashed", "outage", "dependency", "buried")
# What stands for a class where no exception was raised.
_CLASS_OF: Final = {
    "failed": "Error",
    "timeout": "TimeLimitExceeded",
    "crashed": "WorkerCrashed",
    "outage": "Outage",
    "dependency": "DependencyFailed",
    "expired": "Expired",
    "cancelled": "Cancelled",
    "buried": "Buried",
}
_MOST_CLASSES: Final = 10_000
_DONE: Final = State.DONE  # found here at half the cost
# An event as workers write it; every other one is read the long way.
_class_in: Final = re.compile(rb'([0-9]+) (?:failed|timeout) {"class":"([^"\\]+)"').match
_FAILED: Final = b'failed {"class":"'
_TIME: Final = 15  # from before the line to after its time and a blank
_decode: Final = msgspec.json.Decoder().decode
_classes: dict[bytes, str] = {}
MOST_SHOWN: Final = 2 * codec.MAX_PAYLOAD  # bytes of one value that are read to show its job
_NO_ATTEMPTS: Final = Attempts()  # in place of attempts that cannot be read


def read_head(raw: bytes | None) -> JobHead | None:
    """Return a head; None if it cannot be read."""
    try:
        return None if raw is None else codec.read_head(raw)
    except (ValueError, IndexError):
        return None


def read_attempts(raw: bytes | None) -> Attempts:
    """Return the attempts; 0 if they cannot be read."""
    try:
        return codec.read_attempts(raw)
    except (ValueError, TypeError):
        return _NO_ATTEMPTS


def _problem(
    row: Row, head: JobHead | None, attempts: Attempts, lease: JobLease | None, events: list[Event]
) -> str | None:
    """Return which of the values of a job cannot be read."""
    broken = ["head"] if row.head_raw is not None and head is None else []
    broken += ["lease"] if row.lease_raw is not None and lease is None else []
    broken += ["attempts"] if attempts is _NO_ATTEMPTS else []
    broken += ["error"] if any(event.kind == codec.UNREADABLE for event in events) else []
    broken += [f"score {float(row.score):g}"] if stored_numbers.score_ms(row.score) is None else []
    told = [f"unreadable: {', '.join(broken)}"] if broken else []
    told += [f"not read, over {MOST_SHOWN:,} bytes: {', '.join(row.over)}"] if row.over else []
    return "; ".join(told) or None


def read_lease(raw: bytes | None) -> JobLease | None:
    """Return a lease; None if it cannot be read."""
    try:
        return None if raw is None else codec.read_lease(raw)
    except (ValueError, IndexError):
        return None


def job_key(queue: str, job_id: str) -> str:
    """Return the exact identity of a job; no part of it can contain a `/`."""
    return f"native/{queue}/{job_id}"


def facts(row: Row) -> dict[str, Any]:
    """Return the fields of a record."""
    head, attempts, lease = read_head(row.head_raw), read_attempts(row.attempts_raw), read_lease(row.lease_raw)
    events = codec.read_events(row.error_raw) if row.error_raw else []
    cause = None if row.state == State.DONE else last_cause(events)
    since = _since(row, head, lease)
    known: dict[str, Any] = {
        "id": row.id,
        "key": job_key(row.queue, row.id),
        "queue": row.queue,
        "state": row.state,
        "native_state": keys.PARTS[row.state][0],
        "since_ms": since,
        "age_s": None if since is None else max(0, row.now - since) / 1000,
        "worker": _worker(lease, events),
        "lease_until_ms": stored_numbers.score_ms(row.score) if row.state == State.RUNNING else None,
        "error": cause and cause.class_name,
        "message": cause and cause.message,
        "failed_ms": _failed(row, events),
        "body": row.body_raw,
        "problem": _problem(row, head, attempts, lease, events),
        "stuck": why_stuck(row, head, events),
    }
    if head is not None:
        known |= {
            "name": head.name,
            "task": head.task,
            "priority": head.priority,
            "attempts": attempts.failed,
            "crashes": attempts.crashes,
            "tags": head.tags,
            "enqueued_ms": head.enqueued_ms,
            "due_ms": _due(row, head),
            "is_handler": head.origin is not None,
        }
    return known


def why_stuck(row: Row, head: JobHead | None, events: list[Event]) -> Stuck | None:
    """Return why a job is stuck; of one whose lease expired, `row.owner_alive` says whether its worker is lost."""
    if row.state == State.DELAYED and events and events[-1].kind == codec.UNKNOWN_TASK:
        at_ms = events[-1].at_ms
        return Stuck(code=StuckCode.UNKNOWN_TASK, seconds=max(0, row.now - at_ms) / 1000, since_ms=at_ms)
    found = stuck_since(row.lease_raw, row.head_raw, row.at, row.now) if row.state == State.RUNNING else None
    if found is None:
        return None
    code = StuckCode(found[0])
    if code is StuckCode.LEASE_EXPIRED and row.owner_alive is False:
        code = StuckCode.OWNER_GONE
    limit_ms = head.limit_ms if head is not None and code is StuckCode.OVER_LIMIT else None
    passed_s = (row.now - found[1]) / 1000
    return Stuck(code=code, seconds=passed_s, since_ms=found[1], limit=(limit_ms or 0) / 1000)


def _since(row: Row, head: JobHead | None, lease: JobLease | None) -> int | None:
    if row.state == State.READY:
        score = stored_numbers.score_ms(row.score)
        return None if score is None else score % BAND
    if row.state in ENDED:
        return stored_numbers.score_ms(row.score)
    if row.state == State.RUNNING:
        return lease.claimed_ms if lease is not None else None
    return head.enqueued_ms if head is not None else None


def _due(row: Row, head: JobHead) -> int | None:
    if row.state == State.DELAYED:
        return stored_numbers.score_ms(row.score)
    if row.state == State.BLOCKED and float(row.score) > head.enqueued_ms:
        return stored_numbers.score_ms(row.score)
    return None


def _worker(lease: JobLease | None, events: list[Event]) -> str | None:
    if lease is not None:
        return lease.worker
    named = (event.data.get("worker") for event in reversed(events))
    return next((worker for worker in named if isinstance(worker, str)), None)


def _failed(row: Row, events: list[Event]) -> int | None:
    if row.state == State.DONE:
        return None
    at = next((event.at_ms for event in reversed(events) if event.kind in _FAILURES), None)
    return stored_numbers.score_ms(row.score) if at is None and row.state == State.DEAD else at


def last_cause(events: list[Event]) -> JobFailure | None:
    """Return the last failure."""
    for event in reversed(events):
        if event.kind in _CAUSES:
            return _failure(event)
    return None


def _failure(event: Event) -> JobFailure:
    data = event.data
    named = data.get("class")
    traceback = data.get("traceback")
    return JobFailure(
        kind=event.kind,
        at_ms=event.at_ms,
        # The bare class, as a filter wants it; the traceback has the rest of the name.
        class_name=payload.mask_label(str(named).rpartition(".")[2])
        if named
        else _CLASS_OF.get(event.kind, event.kind),
        message=payload.mask_text(_message(event)),
        traceback=payload.mask_text(str(traceback)) if traceback else None,
    )


def _message(event: Event) -> str:
    data = event.data
    if "message" in data:
        return str(data["message"])
    if event.kind == "crashed":
        return f"worker {data.get('worker') or '?'} died with it, {_times(data.get('crashes'))}"
    if event.kind == "outage":
        return f"worker {data.get('worker') or '?'} was lost with many others, {_times(data.get('outages'))}"
    if event.kind == "dependency":
        return f"job {data.get('on', '?')} is {data.get('outcome', '?')}"
    reason, by = data.get("reason"), data.get("by")
    return f"{reason or event.kind} by {by}" if by else str(reason or event.kind)


def _times(count: Any) -> str:
    return "once" if count == 1 else f"{count} times"


def history(row: Row, head: JobHead | None, lease: JobLease | None) -> tuple[HistoryEvent, ...]:
    """Return the history of a job, oldest first, with its creation and its present state as events."""
    found = [_event(event.at_ms, event.kind, payload.mask(event.data)) for event in codec.read_events(row.error_raw)]
    if head is not None:
        found.insert(0, _event(head.enqueued_ms, "enqueued", {}))
    if lease is not None:
        found.append(_event(lease.claimed_ms, "claimed", {"worker": lease.worker}))
    if row.state in ENDED and row.state != State.CANCELLED:
        found.append(_event(clamped(row.score), row.state, {}))
    return tuple(found)


def _event(at_ms: int, kind: str, data: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(at_ms=at_ms, kind=str(kind), data=MappingProxyType(data))


class _Told(msgspec.Struct):
    message: str


_decode_told: Final = msgspec.json.Decoder(_Told).decode


class Row(msgspec.Struct, eq=False, gc=False):
    """One job, lazily. It has the attributes that a filter asks records for.

    A struct that the garbage collector passes over, because millions are made; it is in no circle.
    """

    adapter: ClassVar[str] = NATIVE

    queue: str
    state: str
    raw_id: bytes
    score: bytes
    now: int
    plain: bool
    since: int | None = None
    head_raw: bytes | None = None
    attempts_raw: bytes | None = None
    lease_raw: bytes | None = None
    error_raw: bytes | None = None
    body_raw: bytes | None = None
    record: JobRecord | None = None
    owner_alive: bool | None = None
    """Whether its worker is alive; None where that is unknown."""
    over: tuple[str, ...] = ()
    """What was not read because of its size."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.full(), name)

    def put(self, part: str, value: bytes | None) -> None:
        """Give it a raw value."""
        setattr(self, f"{part}_raw", value)

    def leave_out(self, part: str, size: int) -> None:
        """Note a value that is too large to be read for showing."""
        name = "payload" if part == "body" else part
        self.over += (f"{name} of {size:,} bytes",)

    def full(self) -> JobRecord:
        """The record with everything that was read."""
        if self.record is None:
            self.record = JobRecord(**facts(self))
        return self.record

    @property
    def id(self) -> str:
        """Its id."""
        return self.raw_id.decode("utf-8", "surrogateescape")

    @property
    def at(self) -> int:
        """Its score."""
        return clamped(self.score)

    @property
    def since_ms(self) -> int | None:
        """When it came into its state."""
        if self.since is not None:
            return self.since
        if self.state in ENDED:
            return self.at
        if self.state == State.READY:
            return self.at % BAND
        return self.full().since_ms

    @property
    def age_s(self) -> float | None:
        """How long it is in its state."""
        since = self.since if self.since is not None else self.since_ms
        return None if since is None else (self.now - since) / 1000

    @property
    def error(self) -> str | None:
        """The bare class of what went wrong last."""
        raw = self.error_raw
        if raw is None or self.state == _DONE:
            return self.full().error
        start = raw.rfind(b"\n") + _TIME
        # Up to the end of the class in an event as workers write it; it is only known when it was read the long way.
        opening = raw[start : raw.find(b'"', start + len(_FAILED))]
        known = _classes.get(opening)
        if known is None:
            known = self.full().error or ""
            found = _class_in(raw, start - _TIME + 1)
            if found is not None and opening == _FAILED + found[2] and len(_classes) < _MOST_CLASSES:
                _classes[opening] = known
        return known

    @property
    def message(self) -> str | None:
        """The message of what went wrong last."""
        raw = self.error_raw
        found = None if raw is None else _class_in(raw, raw.rfind(b"\n") + 1)
        if raw is None or found is None or self.state == _DONE:
            return self.full().message
        try:
            text = _decode_told(raw[raw.index(b"{", found.start()) :]).message
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return self.full().message
        return payload.mask_text(text)

    @property
    def failed_ms(self) -> int | None:
        """When it went wrong last."""
        raw = self.error_raw
        found = None if raw is None else _class_in(raw, raw.rfind(b"\n") + 1)
        at = None if found is None else digits(found[1])
        return at if at is not None and self.state != _DONE else self.full().failed_ms

    def payload(self) -> Any:
        """The payload; without the work of masking where nothing in it can be a secret that this filter reaches."""
        body = self.body_raw
        if self.plain and body is not None and not payload.may_hold_secrets(body):
            try:
                value = _decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return self._shown()
            return value if type(value) is list else self._shown()
        return self._shown()

    def _shown(self) -> Any:
        body = self.body_raw
        # A failure handler's payload is netstrings, which start with a length.
        return payload.read(body, is_handler=body is not None and body[:1].isdigit())

    def text(self) -> str:
        """All its text, with secrets masked."""
        return self.full().text()


def reaches_no_secret(wanted: Filter | None) -> bool:
    """Return whether none of the payload fields that a filter names could be masked, so that masking cannot matter."""
    return wanted is None or _plain(wanted.node)


def _plain(node: Node) -> bool:
    parts: Any = getattr(node, "nodes", None)
    if parts is not None:
        return all(map(_plain, parts))
    inner: Any = getattr(node, "node", None)
    if inner is not None:
        return _plain(inner)
    return not any(payload.is_secret(segment) for segment in getattr(node, "path", ()))
