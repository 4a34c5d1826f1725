"""Messages of Celery: the task in the envelope. A body is decoded only if it is JSON."""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._model.payload import shown_text
from qdeck.adapters.stored_values import decode_json

if TYPE_CHECKING:
    from qdeck._redis.commands import Command

_STATUS: Final = re.compile(rb'\{"status": ?"([A-Z]+)"')
_HEAD: Final = 40  # bytes of a result that show its status
_SENT: Final = uuid.UUID("2f6f0e5c-2d0f-5a0e-9a55-0f6b3c1f6d11")  # the namespace of the ids that retries give


class Message(msgspec.Struct, frozen=True):
    """A task, as its envelope describes it."""

    value: dict[str, Any]

    @property
    def headers(self) -> dict[str, Any]:
        """Its headers."""
        return _table(self.value.get("headers"))

    @property
    def properties(self) -> dict[str, Any]:
        """Its properties."""
        return _table(self.value.get("properties"))

    @property
    def id(self) -> str:
        """The id of the task."""
        return shown_text(self.headers.get("id")) or shown_text(self.properties.get("correlation_id")) or ""

    def marks(self) -> tuple[str, ...]:
        """Return tags for its group, the task that sent it, and a chord that it is part of."""
        body = _decoded(self.value)
        embedded = _table(body[2]) if isinstance(body, list) and len(body) == 3 else {}
        found = marks(self.headers.get("group"), self.headers.get("parent_id"))
        return (*found, "chord") if embedded.get("chord") else found

    def call(self) -> Any:
        """Return the arguments of the task, as far as they may be read."""
        found = _decoded(self.value)
        if isinstance(found, list) and len(found) >= 2:
            return {"args": found[0], "kwargs": found[1]}
        shown = {name: self.headers.get(f"{name}repr") for name in ("args", "kwargs")}
        return {name: value for name, value in shown.items() if isinstance(value, str)} or None


def marks(group: Any, parent: Any) -> tuple[str, ...]:
    """Return the tags of a task that belongs to a group, or was sent by another task."""
    ids = {"group": shown_text(group), "parent": shown_text(parent)}
    return tuple(f"{name}:{task}" for name, task in ids.items() if task)


def read(raw: bytes | None) -> Message | None:
    """Return a message; None if it cannot be read."""
    value = decode_json(raw)
    return Message(value) if isinstance(value, dict) else None


def _decoded(value: dict[str, Any]) -> Any:
    """Return the body if its content type is JSON."""
    body = value.get("body")
    if not isinstance(body, str) or value.get("content-type") != "application/json":
        return None
    if _table(value.get("properties")).get("body_encoding") != "base64":
        return decode_json(body.encode("utf-8", "replace"))
    try:
        return decode_json(base64.b64decode(body))
    except ValueError:
        return None


def head_of(result: bytes) -> Command:
    """Return the command that reads the first bytes of a result, which show its status."""
    return (b"GETRANGE", result, 0, _HEAD)


def status_in(head: bytes) -> str | None:
    """Return the status in the first bytes of a result; None where there is no status."""
    found = _STATUS.match(head)
    return None if found is None else found[1].decode()


def redelivered(message: Message) -> bytes:
    """Return a message as kombu writes it when it requeues it."""
    value = dict(message.value)
    value["headers"] = {**message.headers, "redelivered": True}
    delivery = {**_table(message.properties.get("delivery_info")), "redelivered": True}
    value["properties"] = {**message.properties, "delivery_info": delivery}
    return json.dumps(value).encode()


def sent_id(task: str) -> str:
    """Return the id that a failed task gets when it is sent again; it is always the same, so the task is sent once."""
    return str(uuid.uuid5(_SENT, task))


def new_message(result: dict[str, Any], queue: str) -> bytes | None:
    """Return the message that sends a task again; None if the result does not contain the call."""
    name, args, kwargs, old = (result.get(key) for key in ("name", "args", "kwargs", "task_id"))
    if (
        not isinstance(name, str)
        or not isinstance(old, str)
        or not isinstance(args, list)
        or not isinstance(kwargs, dict)
    ):
        return None
    task = sent_id(old)
    options = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    headers: dict[str, Any] = {
        "lang": "py", "task": name, "id": task, "shadow": None, "eta": None, "expires": None, "group": None,
        "group_index": None, "retries": 0, "timelimit": [None, None], "root_id": task, "parent_id": None,
        "argsrepr": repr(tuple(args)), "kwargsrepr": repr(kwargs), "origin": "qdeck", "ignore_result": False,
        "replaced_task_nesting": 0, "stamped_headers": None, "stamps": {},
    }  # fmt: skip
    properties = {
        "correlation_id": task, "reply_to": str(uuid.uuid5(_SENT, f"reply {old}")), "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue}, "priority": 0, "body_encoding": "base64",
        "delivery_tag": str(uuid.uuid5(_SENT, f"tag {old}")),
    }  # fmt: skip
    envelope = {
        "body": base64.b64encode(json.dumps([args, kwargs, options]).encode()).decode(), "content-encoding": "utf-8",
        "content-type": "application/json", "headers": headers, "properties": properties,
    }  # fmt: skip
    return json.dumps(envelope).encode()


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
