"""The list of queues of a snapshot: their order, group and line. Made in steps, because ten thousand
queues at once are more than a key should wait for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from qdeck_console.presenters.line_parts import section
from qdeck_console.queue_findings import FindingsByQueue, ListedQueue, ListedQueues, RowReason, Severity
from qdeck_console.widgets.list_items import Item

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from qdeck.admin import QueueRef, Snapshot

T = TypeVar("T")

TWO_LINES_AT_MOST: Final = 200  # troubled queues; more than that, and reasons are for the detail only
STEP: Final = 2_000  # queues per step: less than a ms
_RESORT_S: Final = 10.0
_QUIET_S: Final = 3.0
_POLLS: Final = 2


class Sort(IntEnum):
    """What the list is sorted by; the first is the default and makes the groups."""

    WORST = 0
    NAME = 1
    READY = 2
    DEAD = 3
    OLDEST = 4
    RATE = 5

    @property
    def label(self) -> str:
        """What the footer and the head say."""
        return ("worst first", "by name", "by ready", "by dead", "by oldest", "by in/s")[self]


def _by_name(entry: ListedQueue) -> tuple[str, str]:
    return entry.row.name, entry.row.adapter


def _sort_key(sort: Sort) -> Callable[[ListedQueue], tuple[float | str, ...]]:
    def worst(e: ListedQueue) -> tuple[float | str, ...]:
        rank = e.reasons[0].rank if e.reasons else (0, 0)
        return (e.severity, *rank, -(e.row.stuck or 0), -(e.row.dead or 0), -(e.row.ready or 0), *_by_name(e))

    keys: Mapping[Sort, Callable[[ListedQueue], tuple[float | str, ...]]] = {
        Sort.WORST: worst,
        Sort.NAME: _by_name,
        Sort.READY: lambda e: (-(e.row.ready or 0), *_by_name(e)),
        Sort.DEAD: lambda e: (-(e.row.dead or 0), *_by_name(e)),
        Sort.OLDEST: lambda e: (-(e.row.oldest_s or 0), *_by_name(e)),
        Sort.RATE: lambda e: (-(e.row.in_per_s or 0), *_by_name(e)),
    }
    return keys[sort]


_severity: Final = attrgetter("severity")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How the operator wants the list."""

    sort: Sort = Sort.WORST
    filter: str = ""
    is_tall: bool = False  # whether there is room for blank lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """The list: its queues in their order, the lines of each, and where each line is."""

    listed: ListedQueues = field(default_factory=ListedQueues)
    asked: Asked = field(default_factory=Asked)
    entries: Sequence[ListedQueue] = ()
    counts: Mapping[Severity, int] = field(default_factory=lambda: MappingProxyType({}))
    reasons_shown: bool = True
    items: Sequence[Item] = ()
    tops: Sequence[int] = (0,)
    where: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


class Arranger:
    """Keeps the order calm: rows are sorted anew every ten seconds at most, never while someone presses keys, and a
    queue changes its group only when its state held for two pictures.
    """

    def __init__(self) -> None:
        self.arranged = Arranged()
        self._order: Sequence[QueueRef] = ()
        self._shown: dict[QueueRef, Severity] = {}
        self._next: dict[QueueRef, tuple[Severity, int]] = {}
        self._counted: ListedQueues | None = (
            None  # the last snapshot that was checked for queues that change their group
        )
        self._begun = 0  # lists; one that is made in steps is given up when a key asks for another meanwhile
        self._sorted_at = float("-inf")
        self._sort = Sort.WORST

    def rest(self) -> None:
        """Drop the rows until they are sorted again: their order stays."""
        self._begun += 1
        self.arranged, self._counted = Arranged(), None

    def holds(self, listed: ListedQueues, asked: Asked) -> bool:
        """Return whether what is arranged is just this."""
        return self.arranged.listed is listed and self.arranged.asked == asked

    def arrange(self, listed: ListedQueues, asked: Asked, now: float, last_key_at: float = float("-inf")) -> Arranged:
        """Return the list of a snapshot, at once."""
        for _ in self.steps(listed, asked, now, last_key_at):
            pass
        return self.arranged

    def steps(self, listed: ListedQueues, asked: Asked, now: float, last_key_at: float) -> Iterator[None]:
        """Arrange the queues in steps, so that keys are answered in between; `arranged` has the result.
        When another list was begun in between, this one ends unfinished: it would bring back the order of before.
        """
        self._begun += 1
        mine = self._begun
        for _ in self._steps(listed, asked, now, last_key_at):
            yield
            if mine != self._begun:
                return

    def _steps(self, listed: ListedQueues, asked: Asked, now: float, last_key_at: float) -> Iterator[None]:
        entries: list[ListedQueue] = []
        yield from self._steady(listed, entries)
        ordered: list[ListedQueue] = []
        is_due = now - self._sorted_at >= _RESORT_S and now - last_key_at >= _QUIET_S
        if is_due or asked.sort is not self._sort or not self._order:
            self._sort, self._sorted_at = asked.sort, now
            ordered = sorted(entries, key=_sort_key(asked.sort))
            yield
        else:
            yield from self._as_before(entries, ordered)
        if asked.sort is Sort.WORST:
            ordered.sort(key=_severity)
        self._order = [entry.row.ref for entry in ordered]
        yield
        if asked.filter:
            ordered = [entry for entry in ordered if entry.row.ref.has(asked.filter)]
            yield
        yield from self._lay(listed, asked, ordered)

    def _steady(self, listed: ListedQueues, out: list[ListedQueue]) -> Iterator[None]:
        """The entries with the severity to be shown."""
        shown, following = self._shown, self._next
        is_fresh = listed is not self._counted and listed is not self.arranged.listed
        self._counted = listed
        for part in _parts(listed.entries):
            out += [
                entry
                if entry.severity is shown.get(entry.row.ref) and entry.row.ref not in following
                else self._held(entry, is_fresh=is_fresh)
                for entry in part
            ]
            yield

    def _held(self, entry: ListedQueue, *, is_fresh: bool) -> ListedQueue:
        ref, severity = entry.row.ref, entry.severity
        shown = self._shown.setdefault(ref, severity)
        if severity == shown:
            self._next.pop(ref, None)
            return entry
        candidate, polls = self._next.get(ref, (severity, 0))
        polls = polls + int(is_fresh) if candidate == severity else int(is_fresh)
        if polls >= _POLLS:
            self._shown[ref] = severity
            self._next.pop(ref, None)
            return entry
        self._next[ref] = (severity, polls)
        reasons = entry.reasons if shown is not Severity.FINE else ()
        return replace(entry, severity=shown, reasons=reasons or self._said(ref, shown))

    def _said(self, ref: QueueRef, severity: Severity) -> tuple[RowReason, ...]:
        """What was said of a queue that is calmer now: a row whose state is shown a moment longer keeps its reason."""
        at = self.arranged.where.get(str(ref))
        row = None if at is None or severity is Severity.FINE else self.arranged.items[at].row
        return row.reasons if isinstance(row, ListedQueue) else ()

    def _as_before(self, entries: Sequence[ListedQueue], out: list[ListedQueue]) -> Iterator[None]:
        left = {entry.row.ref: entry for entry in entries}
        yield
        for part in _parts(self._order):
            out += [entry for ref in part if (entry := left.pop(ref, None)) is not None]
            yield
        out += left.values()  # new ones

    def _lay(self, listed: ListedQueues, asked: Asked, entries: Sequence[ListedQueue]) -> Iterator[None]:
        """Put them into lines."""
        severities = [entry.severity for entry in entries]
        counts = {severity: severities.count(severity) for severity in Severity}
        reasons_shown = len(entries) - counts[Severity.FINE] <= TWO_LINES_AT_MOST
        yield
        items: list[Item] = []
        tops, where, top = [0], {}, 0
        before, was, last = self.arranged.items, self.arranged.where, None
        for part in _parts(entries):
            for entry in part:
                if asked.sort is Sort.WORST and entry.severity is not last:
                    last = entry.severity
                    head = partial(section, last.label, "", last.role, count=counts[last])
                    for line in ((),) * (asked.is_tall and bool(items)) + (head,):
                        items.append(Item("", 1, line))
                        tops.append(top := top + 1)
                key, height = str(entry.row.ref), 2 if reasons_shown and entry.reasons else 1
                at = was.get(key)
                item = None if at is None else before[at]
                if item is None or item.row is not entry or item.height != height:
                    item = Item(key, height, entry)
                where[key] = len(items)
                items.append(item)
                tops.append(top := top + height)
            yield
        self.arranged = Arranged(
            listed=listed, asked=asked, entries=entries, counts=counts, reasons_shown=reasons_shown,
            items=items, tops=tops, where=where,
        )  # fmt: skip


def _parts(of: Sequence[T]) -> Iterator[Sequence[T]]:
    return (of[at : at + STEP] for at in range(0, len(of), STEP))


def worst_first(seen: Snapshot) -> list[ListedQueue]:
    """Return the queues of a snapshot with their findings, in the order of the list."""
    judge = FindingsByQueue()
    for _ in judge.steps(seen):
        pass
    return sorted(judge.listed.entries, key=_sort_key(Sort.WORST))
