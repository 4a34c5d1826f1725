"""Names of lists that are queues: patterns that tell a queue from its companion lists.

A pattern is a name in which `{word}` is one segment that stays in the queue's name, `{word=a|b}` one of those words,
and `*` at the end is the rest, by which the lists of a queue differ: `execution:agent_run:free:*` is one queue of any
number of lists. Segments are joined by colons.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._errors import InvalidName, InvalidOption
from qdeck._queue_names import QueueName, QueueType
from qdeck._redis.commands import raw_of, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TIERS: Final = "free|advance|professional|enterprise"
BUILT_IN: Final = (f"{{domain}}:{{action_type}}:{{tier={TIERS}}}:*", f"{{domain}}:{{context}}:{{tier={TIERS}}}")
LONGEST: Final = 500  # bytes of a name
SUFFIX: Final = ":dead_letter"
LONGEST_SET_MS: Final = 86_400_000  # that the set of a task's lists lives
_WORD: Final = re.compile(r"\{(\w+)(?:=([^{}]+))?\}")
_TYPED: Final = re.compile(rb":(?:actions|responses|callbacks|notifications|dead_letter)(?::|$)")
_DEAD_TYPE: Final = re.compile(rf":{QueueType.DEAD_LETTER}(?::|$)")
_TASK: Final = re.compile(rf"[^:]+:[^:]+:(?P<tier>{TIERS}):(?P<task>.+)", re.DOTALL)
_GLOB: Final = re.compile(r"[\\*?\[\]]")


@dataclass(frozen=True, slots=True)
class ListNamePattern:
    """A pattern of names, ready to match."""

    text: str
    regex: re.Pattern[str]
    groups: bool

    @classmethod
    def parse(cls, text: str) -> ListNamePattern:
        """Read a pattern, or raise InvalidOption."""
        body, star, rest = text.partition("*")
        if rest or not body or (star and not body.endswith(":")):
            hint = "Write a name such as {service}:jobs, or {service}:jobs:* for lists that differ only at the end."
            raise InvalidOption(f"{text!r} is not a pattern for lists", hint=hint)
        out, at = [], 0
        for found in _WORD.finditer(body):
            words = "|".join(map(re.escape, found[2].split("|"))) if found[2] else "[^:]+"
            out += [re.escape(body[at : found.start()]), f"(?:{words})"]
            at = found.end()
        out.append(re.escape(body[at:]))
        if "{" in body[at:] or "}" in body[at:]:
            raise InvalidOption(f"{text!r} is not a pattern for lists", hint="Close each brace: {service}")
        regex = re.compile(f"({''.join(out)})" + (".+" if star else ""), re.DOTALL)
        return cls(text, regex, bool(star))

    def queue_of(self, name: str) -> str | None:
        """Return the queue of a list of this name."""
        found = self.regex.fullmatch(name)
        if found is None:
            return None
        return f"{found[1]}*" if self.groups else name


class ListNames:
    """The patterns in use: the user's first, then the built-in ones, then the names of qdeck itself."""

    def __init__(self, patterns: Sequence[str] = (), suffix: str = SUFFIX) -> None:
        self.patterns = tuple(ListNamePattern.parse(text) for text in (*patterns, *BUILT_IN))
        self.suffix = suffix

    def queue_of(self, raw: bytes) -> tuple[str, bool] | None:
        """Return the queue of a list, and whether it holds its dead letters; None for other lists."""
        if raw.startswith((b"{", b"qdeck:")) or len(raw) > LONGEST:
            return None  # of the native adapter
        name = text_of(raw)
        stem = self.live_of(name)
        dead = stem != name
        for pattern in self.patterns:
            if (queue := pattern.queue_of(stem)) is not None:
                return queue, dead
        if _TYPED.search(raw) is None:
            return None  # most lists: to parse their names would take long
        try:
            known = QueueName.parse(stem)
        except InvalidName:
            return None
        if known.is_temporary and ":" in known.detail and not dead:
            return f"{name.rpartition(':')[0]}:*", False
        return str(known.canonical), dead

    def live_of(self, name: str) -> str:
        """Return the list to which the dead letters of a list belong; of a list that holds none, its own name.

        `…:dead_letter` in the place of a type has those of the actions of its service.
        """
        stem = name.removesuffix(self.suffix) or name
        if not _DEAD_TYPE.search(name) or any(pattern.queue_of(stem) is not None for pattern in self.patterns):
            return stem
        try:
            known = QueueName.parse(name)
        except InvalidName:
            return stem
        return str(known.actions()) if known.type is QueueType.DEAD_LETTER else stem

    def groups(self, raw: bytes) -> bool:
        """Return whether a pattern makes this list one of many, whatever its last segment is."""
        name = text_of(raw)
        first = next((pattern for pattern in self.patterns if pattern.queue_of(name) is not None), None)
        return first is not None and first.groups


def tags_of(name: str) -> dict[str, str]:
    """Return what a list `{domain}:{action_type}:{tier}:{task_id}` says of its entries."""
    found = _TASK.fullmatch(name)
    return {} if found is None else {"tier": found["tier"], "task_id": found["task"]}


def why_orphaned(task: str, ttl_ms: int) -> str:
    """Return why the lists of a task have no owner, by the time to live of the set of their names (-1: none, -2: no
    set); empty while it ends in time. The document gives a set an hour, a day at most.
    """
    if ttl_ms == -2:
        return f"task_queues:{task} expired, or was never made"
    if ttl_ms == -1:
        return f"task_queues:{task} has no time to live"
    return f"task_queues:{task} lives for more than 24 h" if ttl_ms > LONGEST_SET_MS else ""


def glob_of(queue: str, suffix: str = "") -> bytes:
    """Return the glob of a queue's lists."""
    stem = queue.removesuffix("*")
    text = _GLOB.sub(lambda found: f"\\{found[0]}", stem) + ("*" if queue.endswith("*") else "") + suffix
    return raw_of(text)
