"""Names of queues: `{prefix}:{env}:{service}:{context…}:{type}:{detail…}`.

How a text is read, left to right:

1. Segments are `[A-Za-z0-9._-]+`, joined by colons. Braces are out because the engine's keys are `{name}:part`, and
   glob characters because the consoles of a server would take them for patterns.
2. Prefix and environment are each optional. A configured prefix in front is the prefix, and a known or configured
   environment after it the environment. Without one, a known environment as the second segment makes the first two
   prefix and environment, and a configured environment in front stands alone. Otherwise there are none.
3. The next segment is the service, whatever it is called.
4. The leftmost type word after the service is the type; what stands between is the context, what follows the detail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

from qdeck._errors import InvalidName, InvalidOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_LENGTH: Final = 200
"""Characters of the longest name: room for two UUIDs, and still short enough for one row of a screen."""

KNOWN_ENVIRONMENTS: Final = frozenset({"dev", "development", "staging", "test", "prod", "production"})
"""Words that mark the second segment as an environment; a caller may add more."""

_SEGMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


class QueueType(StrEnum):
    """What a queue carries; the leftmost of these words after the service is the type of a name."""

    ACTIONS = "actions"
    RESPONSES = "responses"
    CALLBACKS = "callbacks"
    NOTIFICATIONS = "notifications"
    DEAD_LETTER = "dead_letter"


_TYPES: Final = frozenset(kind.value for kind in QueueType)
_TYPE_LIST: Final = ", ".join(QueueType)


@dataclass(frozen=True, slots=True, init=False)
class QueueName:
    """A valid queue name, taken apart; a value, so that two spellings of a name never get mixed up.

    `context` and `detail` are text, several segments joined by colons, `""` when absent, so that each field reads as
    it stands in the name. `prefix` and `env` are None when absent; one alone has to be configured, in `prefixes` or
    `environments`, because nothing else tells it from a service. The constructor also takes context and detail as a
    sequence of segments.
    """

    prefix: str | None
    env: str | None
    service: str
    context: str
    type: QueueType
    detail: str

    def __init__(
        self,
        *,
        service: str,
        type: str = QueueType.ACTIONS,
        context: str | Iterable[str] | None = None,
        detail: str | Iterable[str] | None = None,
        prefix: str | None = None,
        env: str | None = None,
        environments: Iterable[str] = (),
        prefixes: Iterable[str] = (),
    ) -> None:
        contexts, details = _segments(context), _segments(detail)
        owner = [part for part in (prefix, env) if part is not None]
        parts = [str(part) for part in (*owner, service, *contexts, type, *details)]
        text = ":".join(parts)
        read = _Reading.of(environments, prefixes)
        _check_owner(text, prefix, env, read)
        for part in (*owner, service, *contexts, *details):
            _check_segment(text, part)
        if type not in _TYPES:
            raise InvalidName(f"queue name {_show(text)}: {type!r} is not a type", hint=f"The types are {_TYPE_LIST}.")
        _check_context(text, contexts, read.known if not owner else frozenset())
        if (found := read.owner(parts)) != (prefix, env):
            raise InvalidName(
                f"queue name {_show(text)} would be read with prefix {found[0]!r} and environment {found[1]!r}",
                hint="Use another word for the service, or pass the prefix and the environment.",
            )
        _check_length(text)
        for field, value in (
            ("prefix", prefix), ("env", env), ("service", str(service)),
            ("context", ":".join(contexts)), ("type", QueueType(type)), ("detail", ":".join(details)),
        ):  # fmt: skip
            object.__setattr__(self, field, value)

    @classmethod
    def parse(cls, text: str, *, environments: Iterable[str] = (), prefixes: Iterable[str] = ()) -> Self:
        """Read a name, or raise InvalidName: `str(QueueName.parse(text)) == text` for every text that is valid.

        `environments` and `prefixes` are those that are configured.
        """
        _check_text(text)
        parts = text.split(":")
        _check_parts(text, parts)
        environments, prefixes = _words(environments), _words(prefixes)
        prefix, env = _Reading.of(environments, prefixes).owner(parts)
        start = (prefix is not None) + (env is not None)
        at = next((i for i in range(start + 1, len(parts)) if parts[i] in _TYPES), None)
        if at is None:
            raise _no_type(text, parts, start)
        return cls(
            service=parts[start],
            type=parts[at],
            context=parts[start + 1 : at],
            detail=parts[at + 1 :],
            prefix=prefix,
            env=env,
            environments=environments,
            prefixes=prefixes,
        )

    def __str__(self) -> str:
        parts = (self.prefix, self.env, self.service, self.context, self.type, self.detail)
        return ":".join(part for part in parts if part)

    @property
    def canonical(self) -> Self:
        """The same queue without a `default` context: both spellings are in use, so comparing needs one."""
        return self._sibling(self.type, self.detail, context="") if self.context == "default" else self

    @property
    def spellings(self) -> tuple[Self, ...]:
        """The names of the same queue, the canonical one first."""
        plain = self.canonical
        return (plain,) if plain.context else (plain, plain._sibling(self.type, self.detail, context="default"))

    @property
    def is_dead_letter(self) -> bool:
        """Return whether dead letters go here, by the suffix, or by the type of a name."""
        return self.type is QueueType.DEAD_LETTER or self.detail.rpartition(":")[2] == QueueType.DEAD_LETTER

    @property
    def is_temporary(self) -> bool:
        """Whether the queue serves one exchange and must go with it: responses and callbacks."""
        return self.type in (QueueType.RESPONSES, QueueType.CALLBACKS) and not self.is_dead_letter

    def actions(self, *detail: str) -> Self:
        """Return the queue where this service takes its actions."""
        return self._sibling(QueueType.ACTIONS, detail)

    def responses(self, action: str, correlation_id: str) -> Self:
        """Return the queue where this service, as the client, waits for one reply: the owner is the one who listens."""
        return self._sibling(QueueType.RESPONSES, (action, correlation_id))

    def callbacks(self, sender: str, event: str) -> Self:
        """Return the queue where this service is called back by `sender`, for an event or a task."""
        return self._sibling(QueueType.CALLBACKS, (sender, event))

    def notifications(self, topic: str) -> Self:
        """Return the queue where this service announces what happened; subscribers know it by the topic."""
        return self._sibling(QueueType.NOTIFICATIONS, (topic,))

    def dead_letter(self) -> Self:
        """Return where the dead letters of this queue go: its own name and one segment more, so the origin is
        readable.
        """
        if self.is_dead_letter:
            return self
        return self._sibling(self.type, f"{self.detail}:{QueueType.DEAD_LETTER}".lstrip(":"))

    def _sibling(self, kind: QueueType, detail: str | Iterable[str], *, context: str | None = None) -> Self:
        return type(self)(
            prefix=self.prefix,
            env=self.env,
            service=self.service,
            context=self.context if context is None else context,
            type=kind,
            detail=detail,
            # Both were accepted when this name was made.
            environments=() if self.env is None else (self.env,),
            prefixes=() if self.prefix is None else (self.prefix,),
        )


def _segments(value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    return tuple(value.split(":")) if isinstance(value, str) else tuple(value)


def _words(given: Iterable[str]) -> frozenset[str]:
    return frozenset((given,) if isinstance(given, str) else given)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The words by which prefix and environment are recognised."""

    configured: frozenset[str]
    prefixes: frozenset[str]
    known: frozenset[str]

    @classmethod
    def of(cls, environments: Iterable[str], prefixes: Iterable[str]) -> Self:
        more, first = _words(environments), _words(prefixes)
        for what, words in (("an environment", more), ("a prefix", first)):
            if wrong := words & _TYPES:
                raise InvalidOption(
                    f"{min(wrong)!r} cannot be {what}: it is a type of queue", hint=f"The types are {_TYPE_LIST}."
                )
        return cls(more, first, KNOWN_ENVIRONMENTS | more if more else KNOWN_ENVIRONMENTS)

    def owner(self, parts: Sequence[str]) -> tuple[str | None, str | None]:
        """Return prefix and environment of a name, None for what is absent."""
        first, second = parts[0], parts[1] if len(parts) > 1 else ""
        if second in self.known:
            return first, second
        if not second or second in _TYPES:
            return None, None
        if first in self.prefixes:
            return first, None
        return None, first if first in self.configured else None


def _show(text: str) -> str:
    return repr(text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 1] + "…")


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidName(f"queue name {text!r} is not text", hint="Pass a str such as 'billing:actions'.")
    if not text.strip():
        raise InvalidName(
            f"queue name {text!r} is {'blank' if text else 'empty'}",
            hint="The smallest name is a service and a type, such as 'billing:actions'.",
        )
    _check_length(text)


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise InvalidName(
            f"queue name {_show(text)}: {len(text)} characters, {len(text) - MAX_LENGTH} too many",
            hint=f"A name has at most {MAX_LENGTH} characters; put what is long into the message.",
        )


def _check_parts(text: str, parts: list[str]) -> None:
    start = 0
    for number, part in enumerate(parts, 1):
        _check_segment(text, part, f"segment {number}", start)
        start += len(part) + 1


def _check_segment(text: str, part: object, place: str = "a segment", start: int | None = None) -> None:
    where = f"queue name {_show(text)}: "
    if not isinstance(part, str):
        raise InvalidName(f"{where}{place} is {part!r}, not text", hint="Pass each segment as a str.")
    if _SEGMENT.fullmatch(part):
        return
    if not part.strip():
        at = "" if start is None else f", at character {start + 1}"
        raise InvalidName(
            f"{where}{place} is {'blank' if part else 'empty'}{at}",
            hint="Remove the colon that is too many, or fill the segment.",
        )
    offset, character = next((i, c) for i, c in enumerate(part) if not _SEGMENT.fullmatch(c))
    at = "" if start is None else f" at character {start + offset + 1}"
    raise InvalidName(f"{where}{place} {part!r} has {character!r}{at}", hint=_segment_hint(character))


def _segment_hint(character: str) -> str:
    allowed = "A segment is made of the letters A-Z and a-z, digits, '.', '_' and '-'"
    if character in "{}":
        return f"{allowed}; braces mark the queue in the keys on the server."
    if character in "*?[]":
        return f"{allowed}; a name is not a pattern."
    if character == ":":
        return f"{allowed}; pass several segments one by one."
    return f"{allowed}."


def _check_owner(text: str, prefix: str | None, env: str | None, read: _Reading) -> None:
    if env is None and prefix is not None and prefix not in read.prefixes:
        raise InvalidName(
            f"queue name {_show(text)}: prefix without env",
            hint=f"Pass both of them or neither, or configure the prefix with prefixes=[{prefix!r}].",
        )
    if prefix is None and env is not None and env not in read.configured:
        raise InvalidName(
            f"queue name {_show(text)}: env without prefix",
            hint=f"Pass both of them or neither, or configure the environment with environments=[{env!r}].",
        )
    if env is not None and env not in read.known:
        raise InvalidName(
            f"queue name {_show(text)}: {env!r} is not a known environment",
            hint=f"Known are {', '.join(sorted(read.known))}; add another with environments=[{env!r}].",
        )


def _check_context(text: str, contexts: tuple[str, ...], environments: frozenset[str]) -> None:
    for part in contexts:
        if part in _TYPES:
            raise InvalidName(
                f"queue name {_show(text)}: the context segment {part!r} is a type of queue",
                hint="The leftmost type word is the type; use another word in the context.",
            )
    if contexts and contexts[0] in environments:
        raise InvalidName(
            f"queue name {_show(text)}: the context starts with the environment {contexts[0]!r}",
            hint="As the second segment it would be read as the environment; pass prefix and env, or use another word.",
        )


def _no_type(text: str, parts: list[str], start: int) -> InvalidName:
    where = f"queue name {_show(text)}: "
    if len(parts) == 1:
        return InvalidName(
            f"{where}only one segment, so no type", hint=f"Add a type: {parts[0]}:actions. The types are {_TYPE_LIST}."
        )
    if start == len(parts):
        return InvalidName(
            f"{where}nothing follows the environment {parts[-1]!r}",
            hint=f"Add a service and a type: {text}:billing:actions.",
        )
    read = f" (read as prefix {parts[0]!r}, environment {parts[1]!r})" if start == 2 else ""
    return InvalidName(
        f"{where}no type after the service {parts[start]!r}{read}",
        hint=f"Add one of {_TYPE_LIST} after the service, such as {text}:actions.",
    )
