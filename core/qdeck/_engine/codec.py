"""Format of the values in a queue's hashes: heads, attempts, leases, events, payloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine.stored_numbers import digits, require_integer, score_ms
from qdeck._errors import PayloadNotSerializable, PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PAYLOAD: Final = 1024 * 1024
UNREADABLE: Final = "unreadable"  # the kind of an event of another program
MAX_PRIORITY: Final = 899
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class UnreadableRecord(ValueError):
    """A stored value of a job that cannot be read."""


def read_whole(text: str | bytes, what: str) -> int:
    """Return a whole number of at most 15 digits, as the scripts read it; raise `UnreadableRecord` for another text."""
    found = digits(text)
    if found is not None:
        return found
    raise UnreadableRecord(f"its {what} is not a number: {text[:40]!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHead:
    """The short facts about a job that every transition needs."""

    enqueued_ms: int
    priority: int
    retries: int
    task: str
    name: str | None = None
    unique: bool = False
    tags: tuple[str, ...] = ()
    expires_ms: int | None = None
    expires_after_ms: int | None = None
    lease_ms: int | None = None
    limit_ms: int | None = None
    backoff: str | None = None
    on_failure: str | None = None
    handler_template: str | None = None
    run_anyway: bool = False
    keep_ms: int | None = None
    origin: str | None = None

    def template(self) -> str:
        """Return the head without the time of enqueueing, which the server adds."""
        lines = [f"{self.priority} {self.retries} {self.task}"]
        if self.name is not None:
            lines.append(f"n{self.name}")
        if self.unique:
            lines.append("u")
        if self.tags:
            lines.append("t" + ",".join(self.tags))
        for letter, number in (("x", self.expires_ms), ("l", self.lease_ms), ("m", self.limit_ms), ("k", self.keep_ms)):
            if number is not None:
                lines.append(f"{letter}{number}")
        if self.expires_after_ms is not None:
            lines.append(f"x+{self.expires_after_ms}")
        for letter, text in (
            ("b", self.backoff),
            ("f", self.on_failure),
            ("h", self.handler_template),
            ("o", self.origin),
        ):
            if text is not None:
                lines.append(f"{letter}{text}")
        if self.run_anyway:
            lines.append("drun")
        return "\n".join(lines)


_WAITING: Final = ("ready", "delayed", "blocked")
_NEWLINE: Final = b"\n"


def read_head(raw: bytes) -> JobHead:
    """Read a head; skip what a newer version added. Raise `UnreadableRecord` for another text."""
    first, *rest = raw.decode("utf-8", "replace").split("\n")
    words = first.split(" ", 3)
    if len(words) != 4 or not words[3]:
        raise UnreadableRecord(f"its head cannot be read: {first[:40]!r}")
    enqueued = read_whole(words[0], "time of enqueueing")
    priority = read_whole(words[1], "priority")
    if priority > MAX_PRIORITY:
        raise UnreadableRecord(f"its priority is over {MAX_PRIORITY}: {words[1][:40]!r}")
    extra = {line[:1]: line[1:] for line in rest if line}

    def number(letter: str, what: str) -> int | None:
        text = extra.get(letter)
        return read_whole(text, what) if text else None

    return JobHead(
        enqueued_ms=enqueued,
        priority=priority,
        retries=read_whole(words[2], "number of retries"),
        task=words[3],
        name=extra.get("n"),
        unique="u" in extra,
        tags=tuple(extra["t"].split(",")) if extra.get("t") else (),
        expires_ms=_expiry(extra.get("x"), enqueued),
        lease_ms=number("l", "lease"),
        limit_ms=number("m", "time limit"),
        backoff=extra.get("b"),
        on_failure=extra.get("f"),
        handler_template=extra.get("h"),
        run_anyway=extra.get("d") == "run",
        keep_ms=number("k", "time to keep its result"),
        origin=extra.get("o"),
    )


def version_of(state: str, score: str, head: bytes | None) -> str:
    """Return the version of a job that does not run: its score, and the number of its last change if it waits."""
    at = -1 if head is None or state not in _WAITING else head.find(b"\nv")
    if head is None or at < 0:
        return score
    return f"{score} {head[at + 2 :].partition(_NEWLINE)[0].decode('utf-8', 'replace')}"


def score_of(seen: str) -> float:
    """Return the score in a version."""
    return float(seen.partition(" ")[0])


def _expiry(text: str | None, enqueued_ms: int) -> int | None:
    if not text:
        return None
    ms = read_whole(text.removeprefix("+"), "time of expiry")
    return enqueued_ms + ms if text.startswith("+") else ms


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often attempts at a job failed, crashed their worker, or ended in an outage."""

    failed: int = 0
    crashes: int = 0
    outages: int = 0


def read_attempts(raw: bytes | None) -> Attempts:
    """Read the attempts of a job; None means none. Those of a dead job end with the id of its group."""
    if not raw:
        return Attempts()
    words = raw.split(b" ", 3)
    if len(words) < 3:
        raise UnreadableRecord(f"its attempts are not numbers: {raw[:40]!r}")
    return Attempts(*(read_whole(word, "number of attempts") for word in words[:3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLease:
    """A worker's claim on a running job."""

    worker: str
    token: str
    claimed_ms: int
    lease_ms: int
    ready_ms: int
    expired_once: bool
    cancel_requested: bool


def read_lease(raw: bytes) -> JobLease:
    """Read a lease."""
    words = raw.decode("utf-8", "replace").split(" ")
    token, claimed, length, score = words[:4]
    flags = words[4] if len(words) > 4 else ""
    return JobLease(
        worker=token.rpartition(":")[0],
        token=token,
        claimed_ms=require_integer(claimed),
        lease_ms=require_integer(length),
        ready_ms=_place(score) % BAND,
        expired_once="?" in flags,
        cancel_requested="c" in flags,
    )


def _place(score: str) -> int:
    found = score_ms(score)
    if found is None:
        raise ValueError(f"{score[:40]!r} is not a score of a ready job")
    return found


BAND: Final = 10**13
UNKNOWN_TASK: Final = "unknown_task"  # the event of a job whose worker lacks its task


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a job."""

    at_ms: int
    kind: str
    data: dict[str, Any]


def read_events(raw: bytes | None) -> list[Event]:
    """Read the events of a job, oldest first; keep another program's line as text."""
    events = []
    for line in (raw or b"").split(b"\n"):
        at, _, rest = line.partition(b" ")
        kind, _, json = rest.partition(b" ")
        at_ms = digits(at)
        if at_ms is None:
            if line:
                events.append(Event(0, UNREADABLE, {"text": line.decode("utf-8", "replace")}))
            continue
        try:
            data = decode_json(json)
        except (msgspec.DecodeError, UnicodeDecodeError):
            data = {"text": json.decode("utf-8", "replace")}
        data = data if isinstance(data, dict) else {"value": data}
        events.append(Event(at_ms, kind.decode("utf-8", "replace"), data))
    return events


def encode_call(task: str, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = MAX_PAYLOAD) -> bytes:
    """Return the payload of a call: JSON `[args, kwargs]`."""
    try:
        body = _encoder.encode((args, kwargs))
        if not _UNCHANGED.issuperset(map(type, args)):
            _refuse_what_changes(args)
        if kwargs and not _UNCHANGED.issuperset(map(type, kwargs.values())):
            _refuse_what_changes(kwargs.values())
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadNotSerializable(
            f"arguments of task {task!r} cannot be written as JSON: {error}",
            hint="Pass numbers, text, lists, dicts, dates or None; pass an id instead of an object.",
        ) from error
    if len(body) > limit:
        raise PayloadTooLarge(
            f"arguments of task {task!r} take {len(body):,} bytes, the limit is {limit:,}",
            hint="Store the data elsewhere and pass its location, or raise max_payload of the app.",
        )
    return body


def decode_call(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call; raise `ValueError` when the payload is not one."""
    try:
        args, kwargs = _decoder.decode(body)
    except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the payload is not a call: {error}") from error
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError("the payload is not a call: expected [arguments, named arguments]")
    return args, kwargs


def encode_json(value: Any) -> bytes:
    """Return one of our own values as JSON."""
    return _encoder.encode(value)


def encode_value(value: Any) -> bytes:
    """Return a value of an application as JSON; raise for one that would arrive as something else."""
    text = _encoder.encode(value)
    # After the encoder, which has refused what refers to itself.
    _refuse_what_changes((value,))
    return text


_UNCHANGED: Final = frozenset({str, int, bool, type(None)})
_BYTES: Final = (bytes, bytearray, memoryview)


def _refuse_what_changes(values: Iterable[Any]) -> None:
    """Refuse values that the encoder changes silently: NaN into null, bytes into base64 text."""
    for value in values:
        kind = type(value)
        if kind in _UNCHANGED:
            continue
        if kind is float:
            if value - value != 0.0:
                raise ValueError(f"JSON cannot hold {value}")
        elif kind is list or kind is tuple:
            if not _UNCHANGED.issuperset(map(type, value)):
                _refuse_what_changes(value)
        elif kind is dict:
            if not _UNCHANGED.issuperset(map(type, value)):
                _refuse_what_changes(value)
            if not _UNCHANGED.issuperset(map(type, value.values())):
                _refuse_what_changes(value.values())
        elif isinstance(value, _BYTES):
            raise TypeError(f"JSON cannot hold bytes: {bytes(value[:20])!r}")
        else:
            # Dates, sets and dataclasses are rare: check what is written for them.
            _refuse_what_changes((msgspec.to_builtins(value, builtin_types=_BYTES),))


def decode_json(raw: bytes) -> Any:
    """Return a value from JSON; raise `DecodeError` also for one that is nested too deeply."""
    try:
        return _decoder.decode(raw)
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error


def read_netstrings(raw: bytes) -> list[bytes]:
    """Return the parts of a failure handler's body, which a script wrote."""
    parts, at = [], 0
    while at < len(raw):
        colon = raw.index(b":", at)
        size = int(raw[at:colon])
        parts.append(raw[colon + 1 : colon + 1 + size])
        at = colon + 1 + size + 1
    return parts
