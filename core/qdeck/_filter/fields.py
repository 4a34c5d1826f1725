"""The fields of a filter, and what a record must have so that they can be read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
"""The states of a job: a filter that names another one is wrong, for it could only match nothing."""

NATIVE_STATES: Final = MappingProxyType(
    {
        "pending": ("ready", "delayed", "blocked", "running"), "requested": ("ready",), "queued": ("ready",),
        "priority": ("ready",), "prioritized": ("ready",), "wait": ("ready",), "waiting": ("ready",),
        "enqueued": ("ready",), "retry": ("ready", "delayed"), "scheduled": ("delayed",), "deferred": ("blocked",),
        "waiting-children": ("blocked",), "none": ("running",), "processing": ("running",), "migrating": ("running",),
        "started": ("running",), "active": ("running",), "unacked": ("running",), "completed": ("done",),
        "discovered": ("done",), "finished": ("done",), "success": ("done",), "fail": ("dead",), "failed": ("dead",),
        "lost": ("dead",), "dlq": ("dead",), "deleted": ("cancelled",), "canceled": ("cancelled",),
    }
)  # fmt: skip
"""The words of other systems for a state, and the states as which such jobs are listed."""


class Record(Protocol):
    """What a filter reads of a job; only the parts that its `fields` name are ever touched.

    The names are those of FIELDS. None (for texts also `""`) is a value that the job or its adapter does not have.
    Times are whole ms since the epoch.
    """

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def task(self) -> str | None: ...
    @property
    def queue(self) -> str: ...
    @property
    def adapter(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def error(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def worker(self) -> str | None: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def priority(self) -> float | None: ...
    @property
    def attempts(self) -> int | None: ...
    @property
    def crashes(self) -> int | None: ...
    @property
    def since_ms(self) -> int | None:
        """The moment from which the age counts: each adapter and state has its own."""

    @property
    def due_ms(self) -> int | None: ...
    @property
    def failed_ms(self) -> int | None: ...
    @property
    def enqueued_ms(self) -> int | None: ...

    def payload(self) -> object:
        """Return the decoded JSON value (`[args, kwargs]` for a call); a method, so that it is decoded only when
        needed.
        """

    def text(self) -> str:
        """Return all the text in which words and phrases are searched."""


class FieldKind(StrEnum):
    """How a field is compared."""

    TEXT = "text"
    STATE = "state"
    TAGS = "tags"
    NUMBER = "number"
    AGE = "age"
    TIME = "time"
    PAYLOAD = "payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field: its name in a filter, where a record has it, and a line for help and completion."""

    name: str
    kind: FieldKind
    attribute: str
    about: str


def _table(*rows: tuple[str, FieldKind, str, str]) -> Mapping[str, Field]:
    return MappingProxyType(
        {name: Field(name=name, kind=kind, attribute=attribute, about=about) for name, kind, attribute, about in rows}
    )


FIELDS: Final = _table(
    ("id", FieldKind.TEXT, "id", "the id of the job"),
    ("name", FieldKind.TEXT, "name", "the name given by the producer"),
    ("task", FieldKind.TEXT, "task", "what it runs"),
    ("queue", FieldKind.TEXT, "queue", "the queue it is in"),
    ("adapter", FieldKind.TEXT, "adapter", "the queue system it belongs to"),
    ("state", FieldKind.STATE, "state", f"{', '.join(STATES)}; or a word of its system, such as pending"),
    ("error", FieldKind.TEXT, "error", "the class of the last error, without its module"),
    ("message", FieldKind.TEXT, "message", "the message of the last error"),
    ("worker", FieldKind.TEXT, "worker", "the worker that has it"),
    ("tag", FieldKind.TAGS, "tags", "one of its tags"),
    ("priority", FieldKind.NUMBER, "priority", "lower goes first; CRITICAL, HIGH, NORMAL, LOW"),
    ("attempts", FieldKind.NUMBER, "attempts", "attempts that failed"),
    ("crashes", FieldKind.NUMBER, "crashes", "workers that died while they ran it"),
    ("age", FieldKind.AGE, "since_ms", "how long it has been in its state: 90s 15m 2h 7d"),
    ("due", FieldKind.TIME, "due_ms", "when it starts; due<5m: in less than five minutes"),
    ("failed", FieldKind.TIME, "failed_ms", "when it failed or died, also as died; failed>2h: more than two hours ago"),
    ("enqueued", FieldKind.TIME, "enqueued_ms", "when it was made; enqueued>2h: more than two hours ago"),
    ("payload", FieldKind.PAYLOAD, "payload", "a value inside the payload: payload.user.id:42"),
)
"""Every field of a filter by its name."""

SYNONYMS: Final = MappingProxyType(
    {
        "tags": "tag", "died": "failed", "failed_at": "failed", "error_class": "error", "error_message": "message",
        "vm": "id", "reason": "message", "jobId": "id", "failedAt": "failed", "workerId": "worker",
        "enqueue_time": "enqueued", "scheduled_time": "due", "action_id": "id", "action_type": "task",
    }
)  # fmt: skip
"""Other names of fields: those of VMPooler, the scheduler, IFDB and messages, too."""

TAG_FIELDS: Final = ("kind",)
"""Tags that are written `NAME:VALUE`: `kind:clone` is the same as `tag:"kind:clone"`."""

PAYLOAD_FIELDS: Final = (
    "pool", "pool_alias", "request_id", "queue_from", "retry_count", "correlation_id", "task_id", "tenant_id",
    "session_id", "tenant_tier", "callback_queue_name", "module", "function", "retries_left", "retry_minutes", "cron",
    "dependency", "pending", "success", "fail", "log", "start_time", "finish_time",
)  # fmt: skip
"""What entries of VMPooler, messages of services and tasks of IFDB have in their payloads: the same as
`payload.NAME`.
"""
_OTHER_WORDS: Final = MappingProxyType(
    {
        "status": "state", "class": "error", "exception": "error", "type": "task",
        "tries": "attempts", "retries": "attempts", "created": "enqueued", "at": "enqueued", "body": "payload",
        "args": "payload", "kwargs": "payload", "data": "payload", "owner": "worker", "msg": "message",
    }
)  # fmt: skip


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that is most similar, if there is one."""
    found = difflib.get_close_matches(word.lower()[:40], known, n=1, cutoff=0.6)
    return found[0] if found else None


def meant(name: str) -> str | None:
    """Return the field that an unknown name most likely means: other tools' words first, then the spelling."""
    return _OTHER_WORDS.get(name.lower()) or nearest(name, tuple(FIELDS))
