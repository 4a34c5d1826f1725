"""Dead letters in groups: those with the same error class and the same shape of message belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from qdeck._engine.signatures import MAX_PATTERN, MAX_READ, VARIABLE_PARTS, pattern_of
from qdeck._filter.fields import Record
from qdeck._model import payload
from qdeck._model.queue_ref import InQueue, QueueRef
from qdeck._model.values import NATIVE

MOST: Final = 1000  # groups; what is beyond them is counted as `other`
OTHER: Final = "other"
TREND: Final = 12  # parts of the last hour
PART_MS: Final = 300_000
_ANY: Final = re.compile(r"'…'|…@|#|…|\bN\b|(?<=[-_][a-z])N\b")  # what stands in a shape for what differs


def like(message: str | None) -> str:
    """Return the filter on messages of the same shape: a star for what differs or is not plain text.

    It is made from the message and not from its shape, which does not tell `N` from a number.
    """
    text = (message or "")[:MAX_READ]
    folded = re.sub(r" ?[^\S ][^\S]*| {2,}", "\0", VARIABLE_PARTS.sub(_starred, text))
    cut = len(message or "") > MAX_READ or len(folded) > MAX_PATTERN
    plain = "".join(char if char.isprintable() else "\0" for char in folded[:MAX_PATTERN]) + "\0" * cut
    escaped = _escaped(plain)
    return f'"{re.sub(chr(0) + "+", "*", escaped)}"'


def _starred(found: re.Match[str]) -> str:
    text = found[0]
    if found.lastgroup == "url":
        login, _, host = text.partition("/")[0].rpartition("@")
        return f"{chr(0) * bool(login)}{VARIABLE_PARTS.sub(_starred, host)}/\0"
    if found.lastgroup == "status":
        return text
    return f"{text[0]}\0{text[-1]}" if found.lastgroup == "quoted" else "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(InQueue):
    """Dead letters of one queue with the same error.

    `where` is a filter that finds them; `trend` says how many died in each part of the last hour, oldest first, where
    so few died that they could be read one by one.
    """

    error_class: str
    message_shape: str
    queue: str
    count: int
    first_ms: int
    last_ms: int
    newest_id: str | None = None
    where: str = ""
    trend: tuple[int, ...] = ()
    adapter: str = NATIVE
    is_permanent: bool = False
    """Whether its system would not try again after this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """All groups, the largest first. `exact` is true when they are the counts that the queues themselves keep.

    Then `first_ms` is when the first came into the group since it was empty last, though that one may be gone.
    """

    groups: tuple[Group, ...]
    total: int
    exact: bool
    unread: tuple[str, ...] = ()
    """Queues that could not be read, with why."""


class CountedGroup(NamedTuple):
    """A group as its queue counts it; `sample` is the dead letter that died last."""

    digest: bytes
    size: int
    first: int
    last: int
    sample: bytes
    error: str
    text: str


class _DeadLetter(Record, Protocol):
    """The part of a dead letter that a group needs."""

    @property
    def is_permanent(self) -> bool: ...


_Key = tuple[str, str, QueueRef]  # error class, shape of the message, queue


class Gathering:
    """Groups as they are found; memory is bounded by their number, not by that of the dead letters."""

    def __init__(self, most: int = MOST, now_ms: int = 0) -> None:
        self._most = most
        self._now_ms = now_ms
        self._found: dict[_Key, list[int]] = {}
        self._samples: dict[_Key, tuple[str | None, str]] = {}
        self._trends: dict[_Key, list[int]] = {}
        self._permanent: set[_Key] = set()
        self.total = 0
        self.unread: list[str] = []

    def add(self, row: _DeadLetter) -> None:
        """Count one dead letter."""
        at, error = row.since_ms or 0, row.error or "unknown"
        key = self._key((*signature_of(row), QueueRef(row.adapter, row.queue)))
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = [0, at, at]
            self._samples[key] = (row.id, "" if key[0] == OTHER else where_of(error, row.message))
            self._permanent |= {key} if row.is_permanent and key[0] != OTHER else set()
        self._sum(known, 1, at, at)
        ago = (self._now_ms - at) // PART_MS
        if 0 <= ago < TREND:
            self._trends.setdefault(key, [0] * TREND)[TREND - 1 - ago] += 1

    def put(self, group: CountedGroup, queue: QueueRef, row: _DeadLetter | None, trend: list[int] | None) -> None:
        """Add a group that the queue has counted; `row` is its sample, if it still exists."""
        if row is not None and signature_of(row) != (group.error, group.text):
            row = None  # it was retried, and died of something else
        # Of a group whose last one is gone the shape has to do.
        where = where_of(group.error, _ANY.sub("0", group.text) if row is None else row.message)
        key = self._key((group.error, group.text, queue))
        known = self._found.setdefault(key, [0, group.first, group.last])
        self._samples.setdefault(key, (None if row is None else row.id, "" if key[0] == OTHER else where))
        self._sum(known, group.size, group.first, group.last)
        if trend is not None:
            before = self._trends.get(key) or [0] * TREND
            self._trends[key] = [a + b for a, b in zip(before, trend, strict=True)]

    def _key(self, key: _Key) -> _Key:
        full = key not in self._found and len(self._found) >= self._most
        return (OTHER, "", key[2]) if full else key

    def _sum(self, known: list[int], count: int, first: int, last: int) -> None:
        self.total += count
        known[0] += count
        known[1], known[2] = min(known[1], first), max(known[2], last)

    def finish(self, *, exact: bool) -> Groups:
        """Return the groups."""
        groups = [
            Group(
                error_class=key[0], message_shape=key[1], queue=key[2].name, adapter=key[2].adapter, count=count,
                first_ms=first, last_ms=last, newest_id=self._samples[key][0], where=self._samples[key][1],
                trend=tuple(self._trends.get(key, ())), is_permanent=key in self._permanent,
            )
            for key, (count, first, last) in self._found.items()
        ]  # fmt: skip
        groups.sort(
            key=lambda group: (group.error_class == OTHER, -group.count, group.error_class, group.message_shape)
        )
        return Groups(
            groups=tuple(groups), total=self.total, exact=exact and not self.unread, unread=tuple(self.unread)
        )


def signature_of(row: _DeadLetter) -> tuple[str, str]:
    """Return the error class of a dead letter and the shape of its message."""
    error = row.error or "unknown"
    return error, payload.mask_text(pattern_of(error, row.message))


def where_of(error: str, message: str | None) -> str:
    """Return a filter that finds the dead letters of the same group."""
    return f"error:{_quoted(error)} message:{like(message)}"


def _quoted(error: str | None) -> str:
    return f'"{_escaped(error or "")}"'


def _escaped(text: str) -> str:
    return re.sub(r'(["*\\])', r"\\\1", text)
