"""Dead letters in groups: those with the same error class and the same shape of message belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck import reads
from qdeck._deck.model import State
from qdeck._operations.scan import Needs, Walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._engine.ops import Program
    from qdeck._filter import Filter
    from qdeck._operations.rows import Row

MOST: Final = 1000  # groups; what is beyond them is counted as `other`
LONGEST: Final = 120
OTHER: Final = "other"
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
    """Dead letters of one queue that died of the same."""

    error_class: str
    message_shape: str
    queue: str
    count: int
    first_ms: int
    last_ms: int
    sample_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """All groups, the largest first. `exact` is true when every dead letter was read to the end."""

    groups: tuple[Group, ...]
    total: int
    exact: bool


class Gathering:
    """Groups as they are found; memory is bounded by their number, not by that of the dead letters."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._found: dict[tuple[str, str, str], list[int]] = {}
        self._samples: dict[tuple[str, str, str], str] = {}
        self.total = 0

    def add(self, row: Row) -> None:
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
                self._found[key] = [1, at, at]
                self._samples[key] = row.id
                return
        known[0] += 1
        known[1], known[2] = min(known[1], at), max(known[2], at)

    def finish(self, *, exact: bool) -> Groups:
        """What was found."""
        groups = [
            Group(
                error_class=error, message_shape=text, queue=queue, count=count, first_ms=first, last_ms=last,
                sample_id=self._samples[error, text, queue],
            )
            for (error, text, queue), (count, first, last) in self._found.items()
        ]  # fmt: skip
        groups.sort(
            key=lambda group: (group.error_class == OTHER, -group.count, group.error_class, group.message_shape)
        )
        return Groups(groups=tuple(groups), total=self.total, exact=exact)


def read_groups(
    queues: Sequence[str],
    *,
    wanted: Filter | None = None,
    most_read: int | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Program[Groups]:
    """The groups of the dead letters of these queues, read in slices; what dies meanwhile is not in them."""
    now = yield from reads.clock()
    gathering = Gathering()
    limits = None if wanted is None else wanted.pushdown(now)
    for queue in queues:
        if limits is not None and limits.queues is not None and queue not in limits.queues:
            continue
        needs = Needs.of(wanted, now, State.DEAD, always=("error",))
        walk = Walk(queue, State.DEAD, needs, now, highest=now)
        while (rows := (yield from walk.page())) is not None:
            for row in rows:
                gathering.add(row)
            if (most_read is not None and gathering.total >= most_read) or (cancelled is not None and cancelled()):
                return gathering.finish(exact=False)
    return gathering.finish(exact=True)
