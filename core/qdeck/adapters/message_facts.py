"""The facts of a message between services, from the JSON that its sender wrote: its id, task, times and error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import whole
from qdeck._model import payload
from qdeck.adapters.times import read_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IDS: Final = ("action_id", "id", "job_id", "task_id", "correlation_id")
_TIMES: Final = ("timestamp", "enqueued_at", "created_at")
_TASKS: Final = ("action_type", "task", "name", "type")
_TAGS: Final = {"task_id": "task_id", "correlation_id": "correlation_id", "tenant_tier": "tier"}


class MessageFacts(NamedTuple):
    """What a message says about itself; None is what it does not say."""

    id: str | None
    task: str | None
    tags: tuple[str, ...]
    since_ms: int | None
    failed_ms: int | None
    error: str | None
    message: str | None
    attempts: int | None


def read(raw: bytes, *, is_dead: bool = False) -> MessageFacts:
    """Return the facts of a message, empty unless it is a JSON object.

    Of a dead letter, the details of an error may be in the data, too; in another message they are those of a request.
    """
    facts = _json(raw)
    data = facts.get("data")
    inner = data if isinstance(data, dict) else {}
    named = {**inner, **facts}  # the first services put both ids into the data
    kind, message = _failure(facts)
    if is_dead and kind is None and message is None:
        kind, message = _failure(inner)
    return MessageFacts(
        id=_word(facts, _IDS),
        task=_word(facts, _TASKS),
        tags=tuple(f"{tag}:{named[name]}" for name, tag in _TAGS.items() if isinstance(named.get(name), str)),
        since_ms=read_ms(_word(facts, _TIMES)),
        failed_ms=read_ms(_word(facts, ("failed_at",))),
        error=kind,
        message=None if message is None else payload.mask_text(message),
        attempts=whole(next((facts[name] for name in ("attempts", "retry_count") if name in facts), None)),
    )


def _failure(facts: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the class and the message of an error."""
    error = facts.get("error")
    if isinstance(error, dict):
        return _word(error, ("error_type", "class", "type")), _word(error, ("message", "reason"))
    told = error if isinstance(error, str) and error else _word(facts, ("error_message", "reason"))
    return _word(facts, ("error_type", "error_class")), told


def _json(raw: bytes) -> dict[str, Any]:
    if raw.lstrip()[:1] != b"{":
        return {}
    try:
        value = codec.decode_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _word(facts: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((value for name in names if isinstance(value := facts.get(name), str) and value), None)
