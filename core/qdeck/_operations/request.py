"""What a plan is asked for, and what it comes to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import NATIVE, State
from qdeck._deck.reasons import Skip
from qdeck._operations.model import PLAN_LIFE_MS, PlanTail, PlanTotals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from qdeck._deck.model import QueueRef
    from qdeck._deck.reasons import SkipCode
    from qdeck._filter import Filter
    from qdeck._operations.model import PlanEntry, Verb

MOST_SKIPS: Final = 1000  # that are told one by one
# Those that wait for others come before these, so that they are acted on and do not die with them first; and the way
# goes with the stream, so that a job that moves on is met again rather than missed.
_ORDER: Final = (
    State.BLOCKED, State.DELAYED, State.READY, State.RUNNING, State.DEAD, State.CANCELLED, State.DONE,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a plan is asked for."""

    verb: Verb
    queues: tuple[str | QueueRef, ...]
    wanted: Filter | None = None
    ids: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    priority: int | str | None = None
    target: str | None = None
    stuck: bool = False
    reason: str = ""
    life_ms: int = PLAN_LIFE_MS
    path: Path | None = None

    def allowed(self) -> list[State]:
        """The states that are looked at."""
        if self.stuck:
            return [State.RUNNING]
        return [state for state in _ORDER if state in self.verb.states and state in (self.states or State)]


@dataclass(slots=True)
class Sums:
    """What a plan comes to so far."""

    scanned: int = 0
    bytes: int = 0
    states: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    by_queue: Counter[str] = field(default_factory=Counter)
    dependents: int = 0
    unique: int = 0
    unique_held: int = 0
    failure_handlers: int = 0
    skipped: list[Skip] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _met: set[str] = field(default_factory=set)
    _missed: dict[str, tuple[set[QueueRef], SkipCode, str]] = field(default_factory=dict)

    def add(self, entries: Sequence[PlanEntry]) -> None:
        """Counts entries that are all of one queue."""
        if not entries:
            return
        self.states.update(entry.state for entry in entries)
        self.by_queue[str(entries[0].ref)] += len(entries)
        self.bytes += sum(entry.bytes for entry in entries)
        self.rules.update(entry.rule for entry in entries if entry.rule is not None)

    def skip(self, queue: str, job_id: str, code: SkipCode, data: str = "", adapter: str = NATIVE) -> None:
        """Notes a job that was named and is left alone."""
        if len(self.skipped) < MOST_SKIPS:
            # A plan is a text: bytes of an id that are none are written out.
            shown = job_id.encode("utf-8", "backslashreplace").decode()
            self.skipped.append(Skip(id=shown, code=code, queue=queue, adapter=adapter, data=data))

    def meet(self, job_id: str) -> None:
        """Notes that a job that was named is in some queue."""
        self._met.add(job_id)

    def miss(self, queue: QueueRef, job_id: str, code: SkipCode, data: str = "") -> None:
        """Notes that a job that was named is not in this queue; it may be in another."""
        self._missed.setdefault(job_id, (set(), code, data))[0].add(queue)

    def close(self) -> None:
        """Skips what was named and found nowhere."""
        for job_id, (queues, code, data) in self._missed.items():
            if job_id not in self._met:
                adapter, name = next(iter(queues)) if len(queues) == 1 else (NATIVE, "")
                self.skip(name, job_id, code, data, adapter)

    def tail(self) -> PlanTail:
        """The last line of the plan."""
        return PlanTail(
            count=0,
            scanned=self.scanned,
            bytes=self.bytes,
            states=dict(self.states),
            rules=dict(self.rules),
            by_queue=dict(self.by_queue),
            totals=PlanTotals(
                dependents=self.dependents,
                unique=self.unique,
                unique_held=self.unique_held,
                running=self.states[State.RUNNING],
                failure_handlers=self.failure_handlers,
            ),
            skipped=tuple(self.skipped),
            warnings=tuple(self.warnings),
        )
