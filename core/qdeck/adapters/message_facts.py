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


def read(raw: bytes) -> MessageFacts:
    """Return the facts of a message, empty unless it is a JSON object."""
    facts = _json(raw)
    error, data = facts.get("error"), facts.get("data")
    named = {**data, **facts} if isinstance(data, dict) else facts  # the first services put both ids into the data
    kind, message = None, None
    if isinstance(error, dict):
        kind, message = _word(error, ("error_type", "class", "type")), _word(error, ("message",))
    elif isinstance(error, str):
        message = error
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
