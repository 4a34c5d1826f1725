"""The queues of a snapshot, each with its findings from the core, in the words of a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import Code, Feature, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck.admin import Answer, Cause, Finding, QueueRef, QueueRow, Snapshot

STEP: Final = 2_000  # units of work per step: about a ms
HEARD: Final = 1_000  # findings, likewise
_MOST_SHARED: Final = 1_000
_NO_CAUSES: Final[Mapping[Code, Cause]] = MappingProxyType({})


class Severity(IntEnum):
    """How urgent a queue is."""

    ACT = 0
    WATCH = 1
    FINE = 2

    @classmethod
    def of(cls, status: Status | None) -> Severity:
        """Return how urgent a queue with a finding of this severity is."""
        if status is Status.UNHEALTHY:
            return cls.ACT
        return cls.WATCH if status is Status.DEGRADED else cls.FINE

    @property
    def label(self) -> str:
        """The word for it, on every screen."""
        return ("act now", "watch", "fine")[self]

    @property
    def role(self) -> str:
        """The role of its words and marks."""
        return ("bad", "warn", "muted")[self]


class RowReason(NamedTuple):
    """A reason why a queue is not fine."""

    severity: Severity
    text: str
    code: Code
    rank: tuple[int, int] = (0, 0)  # its place among those of all queues
    next: tuple[str, str] = ("", "")  # the key that acts on it, and its label


_reason: Final = lru_cache(_MOST_SHARED)(RowReason)
"""Returns a reason; one stands for many equal ones, because thousands of queues have the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedQueue:
    """A queue as the list shows it."""

    row: QueueRow
    severity: Severity
    reasons: tuple[RowReason, ...] = ()
    told: Sequence[Finding] = ()  # what health reports of it
    severities: Mapping[Code, Status] = field(default_factory=lambda: MappingProxyType({}))  # of the whole verdict
    causes: Mapping[Code, Cause] = field(default_factory=lambda: MappingProxyType({}))

    def worst(self, code: Code) -> Severity:
        """The severity of what is said with this code."""
        return min((reason.severity for reason in self.reasons if reason.code is code), default=Severity.FINE)

    def role(self, code: Code, well: str = "text") -> str:
        """The role of what a finding of this code is about, for words that stand out where there is one."""
        worst = self.worst(code)
        return well if worst is Severity.FINE else f"{worst.role} bold"

    # Made again where one queue is looked at: thousands would keep them.

    @property
    def findings(self) -> list[Finding]:
        """The findings on this queue, the worst first."""
        from qdeck.admin import findings_of  # not before the first frame

        return findings_of(self.row, self.told, self.severities)

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The answers to the three questions."""
        from qdeck.admin import answers

        return answers(self.findings)

    @property
    def remedy(self) -> Finding | None:
        """The worst of what can be repaired by a command."""
        return next((one for one in self.findings if one.command), None)

    @property
    def glyph(self) -> str:
        """The sign of its state."""
        if self.row.paused and self.severity is not Severity.ACT:
            return "║"
        return ("✗", "▲", "•")[self.severity]


@dataclass(frozen=True, slots=True)
class ListedQueues:
    """The queues of a snapshot as a list shows them; `before` has the previous rows of those that changed."""

    entries: tuple[ListedQueue, ...] = ()
    before: Mapping[QueueRef, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    by_ref: Mapping[QueueRef, ListedQueue] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, queue: QueueRef) -> ListedQueue | None:
        """Return one of the queues."""
        return self.by_ref.get(queue)


class FindingsByQueue:
    """Gathers the findings on each queue, snapshot after snapshot; a queue that did not change keeps its entry."""

    def __init__(self) -> None:
        self._entries: dict[QueueRef, ListedQueue] = {}
        self._findings: tuple[Finding, ...] = ()
        self._findings_of: dict[QueueRef, list[Finding]] = {}
        self._severities: Mapping[Code, Status] = {}
        self.listed = ListedQueues()

    def steps(self, snapshot: Snapshot) -> Iterator[None]:
        """Gather the findings in steps, so that keys are answered in between; `judged` has the result."""
        if snapshot.findings is not self._findings:
            yield from self._group_findings(snapshot.findings)
        if self._severities != snapshot.severities:
            self._severities = snapshot.severities
        severities = self._severities
        known, told, causes = self._entries, self._findings_of, snapshot.causes
        changed: dict[QueueRef, QueueRow] = {}
        nothing: list[Finding] = []
        entries: dict[QueueRef, ListedQueue] = {}
        work = 0
        for row in snapshot.queues:
            ref = row.ref
            entry, of_queue = known.get(ref), told.get(ref, nothing)
            if (
                entry is None
                or entry.row is not row
                or entry.told != of_queue
                or entry.causes != causes.get(ref, _NO_CAUSES)
                or (entry.severities is not severities and (row.stuck or row.late or row.dead))
            ):
                if entry is not None and entry.row is not row:
                    changed[ref] = entry.row
                entry = _listed(row, of_queue, severities, causes.get(ref, _NO_CAUSES))
                work += 20
            entries[ref] = entry
            work += 1
            if work >= STEP:
                work = 0
                yield
        self._entries = entries
        self.listed = ListedQueues(tuple(entries.values()), changed, entries)

    def _group_findings(self, findings: tuple[Finding, ...]) -> Iterator[None]:
        told: dict[QueueRef, list[Finding]] = {}
        for at, finding in enumerate(findings):
            if finding.queue is not None:
                told.setdefault(finding.queue, []).append(finding)
            if at % HEARD == HEARD - 1:
                yield
        self._findings, self._findings_of = findings, told
        yield


def _listed(
    row: QueueRow, told: Sequence[Finding], severities: Mapping[Code, Status], causes: Mapping[Code, Cause]
) -> ListedQueue:
    from qdeck.admin import finding_rank, findings_of  # not before the first frame

    found = findings_of(row, told, severities)
    reasons = [
        _reason(
            Severity.of(one.severity), _words(one, row, causes.get(one.code)), one.code, finding_rank(one, row),
            _next(one.code, causes.get(one.code)),
        )
        for one in found
    ]  # fmt: skip
    if row.paused and row.pause is not None and not any(one.code is Code.PAUSED for one in found):
        reasons.append(_reason(Severity.FINE, _pause_words(row), Code.PAUSED))
    severity = reasons[0].severity if reasons else Severity.FINE
    return ListedQueue(
        row=row,
        severity=severity,
        reasons=tuple(reasons),
        told=told,
        severities=severities,
        causes=causes,
    )


def _next(code: Code, cause: Cause | None) -> tuple[str, str]:
    """Return the key that acts on a problem, and its label."""
    if code is Code.STUCK:
        verb = None if cause is None or cause.verb is None else cause.verb.value
        return ("b", "bury") if verb == "bury" else ("enter, r", "requeue") if verb else ("enter", "stuck jobs")
    if code in (Code.DEAD, Code.DEAD_GROWING):
        return ("enter", "dead letters") if cause is not None and cause.verb is None else ("R", "redrive")
    return _NEXT.get(code, ("", ""))


_NEXT: Final = {
    Code.PAUSED: ("p", "resume"), Code.NO_WORKER: ("enter", "what now"), Code.UNKNOWN_TASK: ("enter", "what now"),
    Code.LATE: ("enter", "jobs"), Code.BACKLOG: ("enter", "jobs"), Code.OVERDUE: ("enter", "jobs"),
    Code.FILLING: ("enter", "jobs"), Code.FAILING: ("enter", "queue"),
}  # fmt: skip


def _words(finding: Finding, row: QueueRow, cause: Cause | None) -> str:
    """Return what a row says of a finding: its evidence, and no number that stands in the row."""
    if finding.code is Code.PAUSED:
        return _pause_words(row)
    if finding.code is Code.STUCK:
        return cause.text if cause is not None else _stuck_reason(finding.count or 0, row)
    if finding.code is Code.NO_WORKER:
        return "no live worker" + (f": {cause.text}" if cause is not None else "")
    if finding.code is Code.LATE:
        return f"{finding.count:,} waiting too long"
    if cause is not None:
        return cause.text if finding.code is Code.DEAD else f"{finding.row_text}: {cause.text}"
    return finding.row_text


def _pause_words(row: QueueRow) -> str:
    """Return who paused a queue, since when and why."""
    from qdeck_console.format import clock

    pause = row.pause
    if pause is None or not (pause.who or pause.reason or pause.at_ms):
        return "paused"
    since = "" if pause.at_ms is None else f" at {clock(pause.at_ms)}"
    return f"paused by {pause.who or 'an unknown operator'}{since}" + (f": {pause.reason}" if pause.reason else "")


def _stuck_reason(count: int, row: QueueRow) -> str:
    """Return why jobs of a queue are stuck, as far as its row says."""
    if not row.has(Feature.LEASES):
        return "jobs stuck"
    if not row.over_limit:
        return "lease expired"
    expired = count - row.over_limit
    return (f"{expired:,} lease expired, {row.over_limit:,} " if expired else "") + "over the time limit"
