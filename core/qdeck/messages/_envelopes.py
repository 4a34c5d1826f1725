"""Envelopes of messages between services: read from JSON of every generation, and written without loss.

Fields that are not known here are kept in `extra` and written back: a service that is older than its neighbours must
not strip their messages. Only fields that every message needs are required, because the generations differ in the rest.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from typing import Any, Final, Self, TypeVar

import msgspec

from qdeck._errors import PayloadNotSerializable, UsageError
from qdeck._formatting import invalid_value

_decoder = msgspec.json.Decoder()
# What the envelope of June 2025 has and later ones have not: there `data` may be missing.
_EARLY: Final = frozenset({"tenant_tier", "callback_queue", "queue_metadata", "execution_context"})
_DICTS: Final = frozenset({"data", "metadata", "extra"})
_NEEDED: Final = _DICTS | {"action_id", "action_type"}
_SEE: Final = "See the fields in qdeck.messages."
_uuid_lock = threading.Lock()
_last_us = 0


def new_message_id() -> str:
    """Return a UUID (version 7) that grows with time, so that messages of one millisecond keep their order."""
    global _last_us  # noqa: PLW0603 - one clock for the process, under a lock
    with _uuid_lock:
        _last_us = us = max(_last_us + 1, time.time_ns() // 1000)
    ms, rest = divmod(us, 1000)
    # 48 bits of milliseconds, then the microseconds in the 12 bits that the standard leaves to the maker.
    # From the system: a receiver of many ids must not be able to predict those of others.
    number = (ms << 80) | (7 << 76) | ((rest * 4) << 64) | (2 << 62) | int.from_bytes(os.urandom(8)) >> 2
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def utc_now() -> str:
    """Return the time as envelopes write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Envelope(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=False):
    """What both envelopes share: unknown fields are kept."""

    extra: dict[str, Any] = {}

    @classmethod
    def parse(cls, raw: bytes | str) -> Self:
        """Read an envelope from JSON, or raise `UsageError`."""
        try:
            value = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{cls._what()} is not JSON: {error}", hint="Send UTF-8 JSON, an object") from error
        return cls.from_dict(value)

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """Read an envelope from a dict, or raise `UsageError`."""
        if not isinstance(value, dict):
            raise UsageError(f"{cls._what()} is {_kind(value)}, not an object", hint='Send {"action_type": …, …}')
        known = {name for name in cls.__struct_fields__ if name != "extra"}
        # Nulls and empty objects are kept as well, so that an envelope is written as it was read.
        fields = {name: item for name, item in value.items() if name in known and item is not None}
        extra = {name: item for name, item in value.items() if name not in fields or item == {}}
        cls._check_raw(value)
        fields = {**dict.fromkeys(cls._made_here() - fields.keys()), **fields}
        try:
            return msgspec.convert({**fields, "extra": extra}, cls)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"{cls._what()}: {_say(error)}", hint=f"Use only these fields: {', '.join(sorted(known))}"
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the envelope as it is written, unknown fields included."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "extra"}
        own = {n: item for n, item in fields.items() if item is not None and item != {}}
        # A null or an empty object is written as it was read; required fields are always written.
        always = {n: fields[n] for n in self._always()}
        return {**always, **self.extra, **own}

    def to_json(self) -> bytes:
        """Return the envelope as UTF-8 JSON."""
        try:
            return msgspec.json.encode(self.to_dict())
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise PayloadNotSerializable(
                f"{self._what()} cannot be written as JSON: {error}",
                hint="Put numbers, text, lists and dicts into data.",
            ) from error

    def replace(self, **changes: Any) -> Self:
        """Return the same envelope with other values, checked like a new one."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return _made(type(self), {**fields, **changes})

    @classmethod
    def _what(cls) -> str:
        return cls.__name__

    @classmethod
    def _always(cls) -> frozenset[str]:
        return frozenset()

    @classmethod
    def _made_here(cls) -> frozenset[str]:
        """Return the fields that only a new envelope gets: in one that was read they would have the wrong time."""
        return frozenset({"timestamp", "trace_id"} & set(cls.__struct_fields__))

    @classmethod
    def _check_raw(cls, value: dict[Any, Any]) -> None:
        return


E = TypeVar("E", bound=_Envelope)


def _made(kind: type[E], fields: dict[str, Any]) -> E:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{kind.__name__}: {_say(error)}", hint=_SEE) from error


def _say(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the path in front: `$.data` becomes `field data`."""
    text, path = invalid_value(error)
    return f"field {path.removeprefix('.')}: {text}" if path else text


def _kind(value: Any) -> str:
    names = {list: "an array", str: "text", int: "a number", float: "a number", bool: "a boolean", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _check_time(text: str | None, what: str) -> None:
    if text is not None:
        try:
            datetime.fromisoformat(text)
        except ValueError as error:
            raise UsageError(f"{what} {text!r} is not an ISO 8601 time", hint="Write 2026-01-31T08:00:00Z") from error


class ErrorDetail(_Envelope, kw_only=True, frozen=True):
    """Why an action failed."""

    error_type: str
    message: str
    error_code: str | None = None
    details: dict[str, Any] = {}

    @classmethod
    def of(cls, error: BaseException) -> ErrorDetail:
        """Return the detail of an exception, its text made fit for JSON."""
        try:
            text = str(error)
        except Exception as other:  # noqa: BLE001 - code of the application
            text = f"(its text is unavailable: str() raised {type(other).__name__})"
        return cls(error_type=type(error).__name__, message=text.encode("utf-8", "backslashreplace").decode()[:4000])


class DomainAction(_Envelope, kw_only=True, frozen=True):
    """A message that requests an action of a service, or calls one back.

    `action_type` is `service.entity.verb`; its first part names the service that takes it.
    """

    action_type: str
    action_id: str = msgspec.field(default_factory=new_message_id)
    timestamp: str | None = msgspec.field(default_factory=utc_now)
    tenant_id: str | None = None
    tenant_tier: str | None = None
    session_id: str | None = None
    task_id: str | None = None
    agent_id: str | None = None
    user_id: str | None = None
    origin_service: str | None = None
    correlation_id: str | None = None
    trace_id: str | None = msgspec.field(default_factory=new_message_id)
    callback_queue_name: str | None = None
    callback_action_type: str | None = None
    callback_queue: str | None = None
    data: dict[str, Any] = {}
    metadata: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, dict if name in _DICTS else str) and (name in _NEEDED or value is not None):
                what = "an object" if name in _DICTS else "text"
                raise UsageError(f"DomainAction: field {name}: {what} is expected, not {_kind(value)}", hint=_SEE)
        if not self.action_type.strip():
            raise UsageError("action_type is empty", hint="Write service.entity.verb.")
        if not self.action_id.strip():
            raise UsageError("action_id is empty", hint="Leave it out to get one.")
        _check_time(self.timestamp, "timestamp")

    @classmethod
    def _check_raw(cls, value: dict[Any, Any]) -> None:
        if not isinstance(value.get("action_id"), str):
            raise UsageError(
                "DomainAction: field action_id: text is required",
                hint="Without it, a message sent twice would run twice.",
            )
        if "data" not in value and not _EARLY & value.keys():
            raise UsageError(
                "DomainAction: Object missing required field `data`", hint='Send "data": {} when there is none'
            )

    @classmethod
    def _always(cls) -> frozenset[str]:
        return frozenset({"action_id", "action_type", "data"})

    @property
    def service(self) -> str:
        """The service that takes the action: the first part of its type."""
        return self.action_type.partition(".")[0]

    @property
    def reply_to(self) -> str | None:
        """The queue for the answer, in the envelope or in `data`, depending on the generation."""
        for found in (self.callback_queue_name, self.data.get("callback_queue_name"), self.callback_queue):
            if isinstance(found, str) and found:
                return found
        return None

    @property
    def correlation(self) -> str | None:
        """The correlation id of request and answer, or the task's id if that serves as one."""
        places = (self.correlation_id, self.data.get("correlation_id"), self.data.get("task_id"), self.task_id)
        return next((found for found in places if isinstance(found, str) and found), None)

    @property
    def task(self) -> str | None:
        """The task that the action belongs to, from the envelope or from `data`."""
        found = self.task_id or self.data.get("task_id")
        return found if isinstance(found, str) and found else None

    @property
    def tier(self) -> str | None:
        """The tenant's tier, from its field or from the metadata."""
        found = self.tenant_tier or self.metadata.get("tenant_tier")
        return found if isinstance(found, str) and found else None


class DomainActionResponse(_Envelope, kw_only=True, frozen=True):
    """The answer to a request. Only a failed one has an error."""

    success: bool
    correlation_id: str
    action_id: str = msgspec.field(default_factory=new_message_id)
    trace_id: str | None = None
    task_id: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    timestamp: str | None = msgspec.field(default_factory=utc_now)
    data: dict[str, Any] | None = None
    error: ErrorDetail | None = None

    def __post_init__(self) -> None:
        if self.success and self.error is not None:
            raise UsageError("success is true, so error must be null", hint="Leave the error out.")
        if not self.success and self.error is None:
            raise UsageError("success is false, so error is required", hint="Give an ErrorDetail.")
        _check_time(self.timestamp, "timestamp")

    def to_dict(self) -> dict[str, Any]:
        """Return the response as it is written."""
        found = super().to_dict()
        return found if self.error is None else {**found, "error": self.error.to_dict()}

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """Read a response; unknown fields of its error survive as well."""
        if isinstance(value, dict) and not isinstance(value.get("action_id"), str):
            raise UsageError("DomainActionResponse: field action_id: text is required", hint="Use any unique id.")
        if isinstance(value, dict) and isinstance(value.get("error"), dict):
            error = ErrorDetail.from_dict(value["error"])
            fields = {name: getattr(error, name) for name in error.__struct_fields__}
            value = {**value, "error": fields}
        return super().from_dict(value)

    @classmethod
    def _always(cls) -> frozenset[str]:
        return frozenset({"action_id", "success", "correlation_id", "data", "error"})


def response_to(
    action: DomainAction, *, data: dict[str, Any] | None = None, error: ErrorDetail | None = None
) -> DomainActionResponse:
    """Return the answer to an action, with its correlation."""
    return DomainActionResponse(
        success=error is None,
        correlation_id=action.correlation or action.action_id,
        trace_id=action.trace_id,
        task_id=action.task,
        tenant_id=action.tenant_id,
        session_id=action.session_id,
        data=data,
        error=error,
    )


def callback_to(
    action: DomainAction, origin: str, *, data: dict[str, Any] | None = None, error: ErrorDetail | None = None
) -> DomainAction:
    """Return the callback that an action requested: an action with the correlation id in `data` and in the envelope."""
    correlation = action.correlation or action.action_id
    content: dict[str, Any] = {**(data or {}), "correlation_id": correlation, "success": error is None}
    if action.task is not None:
        content.setdefault("task_id", action.task)
    if error is not None:
        content["error"] = error.to_dict()
    return DomainAction(
        action_type=action.callback_action_type or f"{action.action_type}.completed",
        tenant_id=action.tenant_id,
        tenant_tier=action.tenant_tier,
        session_id=action.session_id,
        task_id=action.task,
        agent_id=action.agent_id,
        user_id=action.user_id,
        origin_service=origin,
        correlation_id=correlation,
        trace_id=action.trace_id,
        data=content,
        metadata={"in_reply_to": action.action_id},
    )
