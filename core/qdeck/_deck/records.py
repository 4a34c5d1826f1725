"""From what a queue keeps about a job to the record that is shown: pure, no reading."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from qdeck._deck import payload
from qdeck._deck.model import Failure, HistoryEvent, JobRecord, State
from qdeck._engine import codec, keys, numbers
from qdeck._engine.codec import BAND, Event, Head, Lease, Tries

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
MOST_SHOWN: Final = 2 * codec.MAX_PAYLOAD  # bytes of one value that are read to show its job
_NO_TRIES: Final = Tries()  # in place of tries that cannot be read


@dataclass(slots=True)
class Raw:
    """What was read of one job so far."""

    id: str
    state: str
    score: float
    head: bytes | None = None
    tries: bytes | None = None
    lease: bytes | None = None
    error: bytes | None = None
    body: bytes | None = None
    over: tuple[str, ...] = ()  # what was not read because of its size

    def leave_out(self, part: str, size: int) -> None:
        """Note a value that is too large to be read for showing."""
        name = "payload" if part == "body" else part
        self.over += (f"{name} of {size:,} bytes",)


def read_head(raw: bytes | None) -> Head | None:
    """A head; one that cannot be read is none."""
    try:
        return None if raw is None else codec.read_head(raw)
    except (ValueError, IndexError):
        return None


def read_tries(raw: bytes | None) -> Tries:
    """The tries; what cannot be read counts for nothing."""
    try:
        return codec.read_tries(raw)
    except (ValueError, TypeError):
        return _NO_TRIES


def _problem(raw: Raw, head: Head | None, tries: Tries, lease: Lease | None, events: list[Event]) -> str | None:
    """What of a job cannot be read, of what was read of it."""
    broken = ["head"] if raw.head is not None and head is None else []
    broken += ["lease"] if raw.lease is not None and lease is None else []
    broken += ["tries"] if tries is _NO_TRIES else []
    broken += ["error"] if any(event.kind == codec.UNREADABLE for event in events) else []
    broken += [f"score {raw.score:g}"] if numbers.whole(raw.score) is None else []
    told = [f"unreadable: {', '.join(broken)}"] if broken else []
    told += [f"not read, over {MOST_SHOWN:,} bytes: {', '.join(raw.over)}"] if raw.over else []
    return "; ".join(told) or None


def read_lease(raw: bytes | None) -> Lease | None:
    """A lease; one that cannot be read is none."""
    try:
        return None if raw is None else codec.read_lease(raw)
    except (ValueError, IndexError):
        return None


def job_key(queue: str, job_id: str) -> str:
    """The exact identity of a job: no part of it can hold a `/`."""
    return f"native/{queue}/{job_id}"


def facts(queue: str, raw: Raw, now: int) -> dict[str, Any]:
    """The fields of a record."""
    head, tries, lease = read_head(raw.head), read_tries(raw.tries), read_lease(raw.lease)
    events = codec.read_events(raw.error) if raw.error else []
    cause = None if raw.state == State.DONE else last_cause(events)
    since = _since(raw, head, lease)
    known: dict[str, Any] = {
        "id": raw.id,
        "key": job_key(queue, raw.id),
        "queue": queue,
        "state": raw.state,
        "native_state": keys.PARTS[raw.state][0],
        "since_ms": since,
        "age_s": None if since is None else max(0, now - since) / 1000,
        "worker": _worker(lease, events),
        "lease_until_ms": numbers.whole(raw.score) if raw.state == State.RUNNING else None,
        "error": cause and cause.class_name,
        "message": cause and cause.message,
        "failed_ms": _failed(raw, events),
        "body": raw.body,
        "problem": _problem(raw, head, tries, lease, events),
    }
    if head is not None:
        known |= {
            "name": head.name,
            "task": head.task,
            "priority": head.priority,
            "attempts": tries.attempts,
            "crashes": tries.crashes,
            "tags": head.tags,
            "enqueued_ms": head.enqueued_ms,
            "due_ms": _due(raw, head),
            "is_handler": head.origin is not None,
        }
    return known


def make_record(queue: str, raw: Raw, now: int) -> JobRecord:
    """The record of a list."""
    return JobRecord(**facts(queue, raw, now))


def _since(raw: Raw, head: Head | None, lease: Lease | None) -> int | None:
    if raw.state == State.READY:
        score = numbers.whole(raw.score)
        return None if score is None else score % BAND
    if raw.state in ENDED:
        return numbers.whole(raw.score)
    if raw.state == State.RUNNING:
        return lease.claimed_ms if lease is not None else None
    return head.enqueued_ms if head is not None else None


def _due(raw: Raw, head: Head) -> int | None:
    if raw.state == State.DELAYED:
        return numbers.whole(raw.score)
    if raw.state == State.BLOCKED and raw.score > head.enqueued_ms:
        return numbers.whole(raw.score)
    return None


def _worker(lease: Lease | None, events: list[Event]) -> str | None:
    if lease is not None:
        return lease.worker
    named = (event.data.get("worker") for event in reversed(events))
    return next((worker for worker in named if isinstance(worker, str)), None)


def _failed(raw: Raw, events: list[Event]) -> int | None:
    if raw.state == State.DONE:
        return None
    at = next((event.at_ms for event in reversed(events) if event.kind in _FAILURES), None)
    return numbers.whole(raw.score) if at is None and raw.state == State.DEAD else at


def last_cause(events: list[Event]) -> Failure | None:
    """The last thing that went wrong."""
    for event in reversed(events):
        if event.kind in _CAUSES:
            return _failure(event)
    return None


def _failure(event: Event) -> Failure:
    data = event.data
    named = data.get("class")
    traceback = data.get("traceback")
    return Failure(
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


def history(raw: Raw, head: Head | None, lease: Lease | None) -> tuple[HistoryEvent, ...]:
    """All that happened to a job, oldest first, with its making and its present state as events of their own."""
    found = [_event(event.at_ms, event.kind, payload.mask(event.data)) for event in codec.read_events(raw.error)]
    if head is not None:
        found.insert(0, _event(head.enqueued_ms, "enqueued", {}))
    if lease is not None:
        found.append(_event(lease.claimed_ms, "claimed", {"worker": lease.worker}))
    if raw.state in ENDED and raw.state != State.CANCELLED:
        found.append(_event(numbers.clipped(raw.score), raw.state, {}))
    return tuple(found)


def _event(at_ms: int, kind: str, data: dict[str, Any]) -> HistoryEvent:
    return HistoryEvent(at_ms=at_ms, kind=str(kind), data=MappingProxyType(data))
