"""Dead letters in groups: those with the same error class and the same shape of message belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck import reads
from qdeck._deck.model import NATIVE, State
from qdeck._operations.scan import Needs, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._engine.ops import Program
    from qdeck._filter import Filter
    from qdeck._layouts.base import Entry
    from qdeck._operations.rows import Row

MOST: Final = 1000  # groups; what is beyond them is counted as `other`
LONGEST: Final = 120
OTHER: Final = "other"
TREND: Final = 12  # parts of the last hour
PART_MS: Final = 300_000
_LOOKED_AT: Final = 1000  # characters of a message

# What differs from one message to the next of the same kind: quoted text, ids, addresses in memory, numbers.
_VARIES: Final = re.compile(
    r"""(?P<quoted>'[^'\n]*'|"[^"\n]*"|`[^`\n]*`|«[^»\n]*»|“[^”\n]*”)"""
    r"""|(?P<id>\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"""
    r"""|\b0[xX][0-9a-fA-F]+\b"""
    r"""|(?<![A-Za-z0-9])(?=[a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}(?![A-Za-z0-9])"""
    r"""|(?<![A-Za-z0-9])(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{12,}(?![A-Za-z0-9]))"""
    r"""|(?P<number>(?<![A-Za-z0-9])[+-]?[0-9]+(?:[.,:][0-9]+)*)"""
)


def shape(message: str | None) -> str:
    """The message without what differs from case to case: quoted text becomes `'…'`, ids `#`, numbers `N`."""
    if not message:
        return ""
    folded = _VARIES.sub(_fold, message[:_LOOKED_AT])
    folded = " ".join(folded.split())
    return folded if len(folded) <= LONGEST else folded[: LONGEST - 1] + "…"


def like(message: str | None) -> str:
    """What a filter on messages takes to find those of the same shape: a star for whatever differs or is no plain text.

    It is made from the message and not from its shape, which does not tell `N` from a number.
    """
    text = (message or "")[:_LOOKED_AT]
    folded = re.sub(r" ?[^\S ][^\S]*| {2,}", "\0", _VARIES.sub(_starred, text))
    cut = len(message or "") > _LOOKED_AT or len(folded) > LONGEST
    plain = "".join(char if char.isprintable() else "\0" for char in folded[:LONGEST]) + "\0" * cut
    escaped = _escaped(plain)
    return f'"{re.sub(chr(0) + "+", "*", escaped)}"'


def _starred(found: re.Match[str]) -> str:
    text = found[0]
    return f"{text[0]}\0{text[-1]}" if found.lastgroup == "quoted" else "\0"


def _fold(found: re.Match[str]) -> str:
    match found.lastgroup:
        case "quoted":
            return "'…'"
        case "id":
            return "#"
        case _:
            return "N"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Dead letters of one queue that died of the same.

    `where` is a filter that finds them; `trend` says how many died in each part of the last hour, oldest first.
    """

    error_class: str
    message_shape: str
    queue: str
    count: int
    first_ms: int
    last_ms: int
    sample_id: str | None = None
    where: str = ""
    trend: tuple[int, ...] = ()
    layout: str = NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """All groups, the largest first. `exact` is true when every dead letter was read to the end."""

    groups: tuple[Group, ...]
    total: int
    exact: bool


class Gathering:
    """Groups as they are found; memory is bounded by their number, not by that of the dead letters."""

    def __init__(self, most: int = MOST, now_ms: int = 0) -> None:
        self._most = most
        self._now_ms = now_ms
        self._found: dict[tuple[str, str, str], list[int]] = {}
        self._samples: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._trends: dict[tuple[str, str, str], list[int]] = {}
        self.total = 0

    def add(self, row: Row | Entry) -> None:
        """Counts one dead letter."""
        self.total += 1
        at = row.since_ms or 0
        key = (row.error or "unknown", shape(row.message), row.queue)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= self._most:
                key = (OTHER, "", row.queue)
                known = self._found.get(key)
            if known is None:
                known = self._found[key] = [0, at, at]
                where = "" if key[0] == OTHER else f"error:{_quoted(row.error)} message:{like(row.message)}"
                self._samples[key] = (row.id, where)
        known[0] += 1
        known[1], known[2] = min(known[1], at), max(known[2], at)
        ago = (self._now_ms - at) // PART_MS
        if 0 <= ago < TREND:
            self._trends.setdefault(key, [0] * TREND)[TREND - 1 - ago] += 1

    def finish(self, *, exact: bool) -> Groups:
        """What was found."""
        groups = [
            Group(
                error_class=error, message_shape=text, queue=queue, count=count, first_ms=first, last_ms=last,
                sample_id=self._samples[error, text, queue][0], where=self._samples[error, text, queue][1],
                trend=tuple(self._trends.get((error, text, queue), ())),
            )
            for (error, text, queue), (count, first, last) in self._found.items()
        ]  # fmt: skip
        groups.sort(
            key=lambda group: (group.error_class == OTHER, -group.count, group.error_class, group.message_shape)
        )
        return Groups(groups=tuple(groups), total=self.total, exact=exact)


def _quoted(error: str | None) -> str:
    return f'"{_escaped(error or "")}"'


def _escaped(text: str) -> str:
    return re.sub(r'(["*\\])', r"\\\1", text)


class GroupWalk:
    """A walk over the dead letters of one queue, page by page, for whoever shows what was found so far."""

    def __init__(self, queue: str, now_ms: int, gathering: Gathering, wanted: Filter | None = None) -> None:
        needs = Needs.of(wanted, now_ms, State.DEAD, always=("error",))
        self.gathering = gathering
        self.over = False
        self._walk = Walk(queue, State.DEAD, needs, now_ms, highest=now_ms)

    @property
    def scanned(self) -> int:
        """How many were looked at."""
        return self._walk.scanned

    def page(self) -> Program[None]:
        """Counts the next page; afterwards `over` tells whether it was the last."""
        rows = yield from self._walk.page()
        self.over = rows is None
        for row in rows or ():
            self.gathering.add(row)


def read_groups(
    queues: Sequence[str],
    *,
    wanted: Filter | None = None,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Groups]:
    """The groups of the dead letters of these queues, read in slices; what dies meanwhile is not in them."""
    now = yield from reads.clock()
    gathering = Gathering(now_ms=now)
    limits = None if wanted is None else wanted.pushdown(now)
    for queue in queues:
        if limits is not None and limits.queues is not None and queue not in limits.queues:
            continue
        walk = GroupWalk(queue, now, gathering, wanted)
        while not walk.over:
            yield from walk.page()
            if (most_read is not None and gathering.total >= most_read) or (cancelled is not None and cancelled()):
                return gathering.finish(exact=False)
    return gathering.finish(exact=True)
