"""Plan requests, and the totals of a plan in the making."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._model.payload import whole_text
from qdeck._model.reasons import Skip
from qdeck._model.values import NATIVE, QueueRef, State
from qdeck._model.words import Verb
from qdeck._operations.model import PLAN_LIFE_MS, PlanTail
from qdeck._settings.limits import Limits
from qdeck.adapters.model import NO_QUEUE
from qdeck.adapters.plans import PlanTotals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from qdeck._filter import Filter
    from qdeck._model.reasons import Caution, SkipCode
    from qdeck.adapters.plans import Pages, PlanEntry, Weighed

MOST_SKIPS: Final = 1000  # that are reported one by one
_KEPT: Final = 1.25  # bytes kept for undo for each of an entry that is removed
_KEPT_EACH: Final = 64  # and for any entry: its id, its score and its place
# Of a purge: queue, rule, how many were read, the entries of a page, and whether it was the last.
Watch = Callable[["QueueRef", str, int, "Sequence[PlanEntry]", bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A request for a plan."""

    verb: Verb
    queues: tuple[str | QueueRef, ...]
    wanted: Filter | None = None
    ids: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    priority: int | str | None = None
    target: str | None = None
    ignore_dependencies: bool = False
    stuck: bool = False
    reason: str = ""
    life_ms: int = PLAN_LIFE_MS
    path: Path | None = None
    rules: tuple[str, ...] = ()
    """Of a purge; `limits` are their thresholds."""
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True)
class PlanTally:
    """The totals of a plan in the making."""

    scanned: int = 0
    bytes: int = 0
    states: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    by_queue: Counter[str] = field(default_factory=Counter)
    totals: PlanTotals = field(default_factory=PlanTotals)
    skipped: list[Skip] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)
    undo_room: float = math.inf  # bytes that are left for undo
    undoable: int = 0
    _met: set[str] = field(default_factory=set)
    _missed: dict[str, tuple[set[QueueRef], SkipCode, str]] = field(default_factory=dict)

    def add(self, entries: Sequence[PlanEntry], queue: str) -> None:
        """Count entries of one queue, or of several (`NO_QUEUE`), by one rule or none."""
        if not entries:
            return
        self.states.update(entry.state for entry in entries)
        if queue == NO_QUEUE:
            self.by_queue.update(str(entry.ref) for entry in entries)
        else:
            self.by_queue[str(entries[0].ref)] += len(entries)
        self.bytes += sum(entry.bytes for entry in entries)
        self._count_undoable(entries)
        if (rule := entries[0].rule) is not None:
            self.rules[rule] += len(entries)

    def _count_undoable(self, entries: Sequence[PlanEntry]) -> None:
        """Count how many of these, which have the same adapter and verb, fit into what is left for undo."""
        stays = entries[0].adapter == NATIVE and entries[0].verb != Verb.DISCARD  # only its id and its place are kept
        sizes = [_KEPT_EACH + (0 if stays else _KEPT * entry.bytes) for entry in entries]
        self.undoable += sum(used <= self.undo_room for used in accumulate(sizes))
        self.undo_room -= sum(sizes)

    def reach(self, weighed: Weighed) -> None:
        """Count what else an action reaches."""
        self.totals.add(weighed.totals)
        self.cautions += [caution for caution in weighed.cautions if caution not in self.cautions]

    def skip(self, queue: QueueRef, job_id: str, code: SkipCode, data: str = "") -> None:
        """Record a job that was named and is skipped."""
        if len(self.skipped) < MOST_SKIPS:
            # A plan is text: bytes of an id that are not text are escaped.
            skip = Skip(
                id=whole_text(job_id), code=code, queue=whole_text(queue.name), adapter=queue.adapter,
                data=whole_text(data),
            )  # fmt: skip
            self.skipped.append(skip)

    def name(self, queue: QueueRef, pages: Pages) -> None:
        """Record where named jobs are: one that is not in this queue may be in another."""
        self._met.update(pages.met)
        for job_id, code, data in pages.missing:
            self._missed.setdefault(job_id, (set(), code, data))[0].add(queue)
        for job_id, code, data in pages.left_out:
            self.skip(queue, job_id, code, data)

    def close(self) -> None:
        """Skips what was named and found nowhere."""
        for job_id, (queues, code, data) in self._missed.items():
            if job_id not in self._met:
                self.skip(next(iter(queues)) if len(queues) == 1 else QueueRef(NATIVE, ""), job_id, code, data)

    def tail(self) -> PlanTail:
        """Return the last line of the plan."""
        count = self.states.total()
        return PlanTail(
            count=0,
            undoable=None if self.undoable == count else self.undoable,
            scanned=self.scanned,
            bytes=self.bytes,
            states=dict(self.states),
            rules=dict(self.rules),
            by_queue=dict(self.by_queue),
            totals=msgspec.structs.replace(self.totals, running=self.states[State.RUNNING]),
            skipped=tuple(self.skipped),
            cautions=tuple(self.cautions),
        )
