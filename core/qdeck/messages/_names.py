"""Names of the queues that messages go through, all built by `QueueName`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

from qdeck._errors import InvalidName, InvalidOption
from qdeck._queue_names import KNOWN_ENVIRONMENTS, MAX_LENGTH, QueueName, QueueType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIERS: Final[dict[str, int]] = {"enterprise": 25, "professional": 50, "advance": 75, "free": 100}
"""Tiers of tenants and the priority that their actions get: one queue for all, in this order."""

_STRANGE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 64
_MAY_BE_TEMPORARY: Final = re.compile(rb":(?:responses|callbacks):|:(?:enterprise|professional|advance|free):")
_WORDS: Final = frozenset(kind.value for kind in QueueType)


def segment(text: str) -> str:
    """Return text as one segment of a name. Invalid characters are replaced, and a digest makes it distinct."""
    if isinstance(text, str) and text and len(text) <= _LONGEST and not _STRANGE.search(text):
        return text
    if not isinstance(text, str) or not text:
        raise InvalidName(f"{text!r} cannot be part of a queue name", hint="Give an id of at least one character.")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{_STRANGE.sub('_', text)[:40]}-{digest}"


@dataclass(frozen=True, slots=True)
class Names:
    """All names that a service uses, from the name of its own actions queue."""

    own: QueueName
    services: Mapping[str, str]
    environments: tuple[str, ...] = ()

    @property
    def service(self) -> str:
        """This service."""
        return self.own.service

    def actions(self, service: str, context: str | Sequence[str] = ()) -> QueueName:
        """Return where a service takes its actions. `services` maps short names (`query`) to those in use."""
        return self._of(self.services.get(service, service), context).canonical.actions()

    def responses(self, action_type: str, correlation_id: str) -> QueueName:
        """Return where this service waits for one answer: the owner is the service that waits."""
        return self.own.responses(_action_name(action_type), segment(correlation_id))

    def response_queue(self, action_type: str, correlation_id: str) -> str:
        """Return the same as text, in a fraction of the time."""
        name = _responses_stem(self.own, action_type) + segment(correlation_id)
        return name if len(name) <= MAX_LENGTH else str(self.responses(action_type, correlation_id))

    def callbacks(self, sender: str, event: str = "") -> QueueName:
        """Return where another service calls this one back, for an event or a task; without one, for all of them."""
        if event:
            return self.own.callbacks(segment(sender), segment(event))
        return self._of(self.own.service, self.own.context, QueueType.CALLBACKS, segment(sender))

    def notifications(self, topic: str, service: str | None = None) -> QueueName:
        """Return where a service announces events."""
        owner = self.own if service is None else self._of(self.services.get(service, service), ())
        return owner.notifications(segment(topic))

    def inbox(self, emitter: str, topic: str) -> QueueName:
        """Return where the events of a topic wait for this service's handlers."""
        detail = (segment(self.services.get(emitter, emitter)), segment(topic))
        return self._of(self.own.service, self.own.context, QueueType.NOTIFICATIONS, *detail)

    def parse(self, text: str) -> QueueName:
        """Read a name that came in a message: what this service is configured with is recognised in it."""
        own = self.own
        more = self.environments if own.env is None else (*self.environments, own.env)
        return QueueName.parse(text, environments=more, prefixes=() if own.prefix is None else (own.prefix,))

    def shape(self, text: str) -> QueueName:
        """Return a checked name that differs from this one in its last segment only, from memory where possible."""
        stem = _stem(text)
        return self.parse(text) if stem is None else _shape(stem, self.own, self.environments)

    def holds(self, text: str) -> bool:
        """Return whether a queue is within the prefix and the environment of this service."""
        try:
            found = self.shape(text)
        except InvalidName:
            return False
        return is_within(found, self.own) and not may_be_elsewhere(found, self.own)

    def _of(
        self, service: str, context: str | Sequence[str], kind: QueueType = QueueType.ACTIONS, *detail: str
    ) -> QueueName:
        own = self.own
        return QueueName(
            service=service,
            context=context,
            type=kind,
            detail=detail,
            prefix=own.prefix,
            env=own.env,
            environments=() if own.env is None else (own.env,),
            prefixes=() if own.prefix is None else (own.prefix,),
        )


def is_within(found: QueueName, place: QueueName) -> bool:
    """Return whether two names have the same prefix and environment."""
    return (found.prefix, found.env) == (place.prefix, place.env)


def may_be_elsewhere(found: QueueName, place: QueueName) -> bool:
    """Return whether the service of a name may be the prefix or the environment of another name.

    Without an environment a context looks like a service. What a place has itself is its own.
    """
    bare = found.env is None and found.context not in ("", "default")
    return bare and (found.service, found.context) != (place.service, place.context)


def own_name(text: str, service: str | None, environments: tuple[str, ...]) -> QueueName:
    """Return the name of a service's own queue, without the context `default`: both spellings are one queue.

    `service` says which segment the service is.
    """
    return _own_name(text, service, environments).canonical


def _own_name(text: str, service: str | None, environments: tuple[str, ...]) -> QueueName:
    read = QueueName.parse(text, environments=environments)
    before = [part for part in (read.prefix, read.env, read.service, *read.context.split(":")) if part]
    if service is None:
        if read.prefix is None and read.env is None and read.context not in ("", "default"):
            raise InvalidOption(
                f"queue {text!r} can be read in more than one way: {read.service!r} is its service or its prefix",
                hint=f"Say which segment is the service, such as service={before[-1]!r} or service={before[0]!r}.",
            )
        return read
    if service not in before[:3]:
        raise InvalidOption(
            f"queue {text!r} does not have the service {service!r} after a prefix and an environment",
            hint=f"Use one of: {', '.join(before[:3])}.",
        )
    if before[:3].count(service) > 1:
        if read.service == service and read.env is not None:
            return read
        raise InvalidOption(
            f"queue {text!r} can be read in more than one way: {service!r} stands there more than once",
            hint="Use another word for the service, or an environment after the prefix.",
        )
    at = before.index(service)
    known = KNOWN_ENVIRONMENTS.union(environments)
    owner = {0: (None, None), 1: (None, before[0]) if before[0] in known else (before[0], None)}
    prefix, env = owner[at] if at in owner else (before[0], before[1])
    return QueueName(
        prefix=prefix,
        env=env,
        service=service,
        context=before[at + 1 :],
        type=read.type,
        detail=read.detail,
        environments=environments if env is None else (*environments, env),
        prefixes=() if prefix is None else (prefix,),
    )


def _stem(name: str) -> str | None:
    """Return all but the last segment; None where that may be the type or the environment."""
    stem, _, last = name.rpartition(":")
    if stem.count(":") < 2 or not last or last in _WORDS or _STRANGE.search(last) or len(name) > MAX_LENGTH:
        return None
    return stem


@lru_cache(maxsize=1024)
def _shape(stem: str, own: QueueName, environments: tuple[str, ...]) -> QueueName:
    return Names(own, {}, environments).parse(f"{stem}:x")


@lru_cache(maxsize=1024)
def _responses_stem(own: QueueName, action_type: str) -> str:
    return str(own.responses(_action_name(action_type), "x"))[:-1]


def _action_name(action_type: str) -> str:
    """Return `get_agent_config` for `management.get_agent_config`: the type of an action without its service."""
    service, _, name = action_type.partition(".")
    return segment((name or service).replace(".", "_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueName:
    """A queue of the first generation, `{domain}:{action_type}:{tier}:{task_id}`: known so that it can be cleaned."""

    domain: str
    action_type: str
    tier: str
    task_id: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name; the task's id may hold colons."""
        parts: list[Any] = text.split(":", 3) if isinstance(text, str) else []
        if len(parts) < 4 or parts[2] not in TIERS or not all(parts):
            raise InvalidName(
                f"{text!r} is not {{domain}}:{{action_type}}:{{tier}}:{{task_id}}",
                hint=f"Use one of: {', '.join(TIERS)}",
            )
        return cls(domain=parts[0], action_type=parts[1], tier=parts[2], task_id=parts[3])

    def __str__(self) -> str:
        return f"{self.domain}:{self.action_type}:{self.tier}:{self.task_id}"


def task_of(name: str) -> str | None:
    """Return the task in the name of a queue of the first generation; None in any other name."""
    try:
        return TaskQueueName.parse(name).task_id
    except InvalidName:
        return None


def family_of(name: str) -> str:
    """Return what temporary queues of one service and type have in common: a name up to its type, or its tier."""
    found = _MAY_BE_TEMPORARY.search(name.encode())
    return name[: found.end() - 1] if found is not None and found.end() <= MAX_LENGTH else ""


def temporary_name(key: bytes) -> str | None:
    """Return the name, when a key is called like a temporary queue of any generation."""
    if not _MAY_BE_TEMPORARY.search(key) or b"{" in key or b"}" in key or len(key) > 400:
        return None
    try:
        text = key.decode("ascii")
    except UnicodeDecodeError:
        return None
    try:
        return text if QueueName.parse(text).is_temporary else None
    except InvalidName:
        pass
    try:
        return str(TaskQueueName.parse(text))
    except InvalidName:
        return None
