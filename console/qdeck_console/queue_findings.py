"""The queues of a snapshot, each with its findings from the core, in the words of a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import Code, Feature, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck.admin import Finding, QueueRef, QueueRow, Snapshot

STEP: Final = 2_000  # units of work per step: about a ms
HEARD: Final = 1_000  # findings, likewise


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQueue:
    """A queue as the list shows it."""

    row: QueueRow
    severity: Severity
    reasons: tuple[RowReason, ...] = ()
    told: Sequence[Finding] = ()  # what health reports of it
    severities: Mapping[Code, Status] = field(default_factory=lambda: MappingProxyType({}))  # of the whole verdict

    def worst(self, code: Code) -> Severity:
        """The severity of what is said with this code."""
        return min((reason.severity for reason in self.reasons if reason.code is code), default=Severity.FINE)

    def role(self, code: Code, well: str = "text") -> str:
        """The role of what a finding of this code is about, for words that stand out where there is one."""
        worst = self.worst(code)
        return well if worst is Severity.FINE else f"{worst.role} bold"

    @property
    def glyph(self) -> str:
        """The sign of its state."""
        if self.row.paused and self.severity is not Severity.ACT:
            return "║"
        return ("✗", "▲", "•")[self.severity]


@dataclass(frozen=True, slots=True)
class Judged:
    """The queues of a snapshot as a list shows them; `before` has the previous rows of those that changed."""

    entries: tuple[JudgedQueue, ...] = ()
    before: Mapping[QueueRef, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    by_ref: Mapping[QueueRef, JudgedQueue] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, queue: QueueRef) -> JudgedQueue | None:
        """Return one of the queues."""
        return self.by_ref.get(queue)


class Judge:
    """Gathers the findings on each queue, snapshot after snapshot; a queue that did not change keeps its entry."""

    def __init__(self) -> None:
        self._entries: dict[QueueRef, JudgedQueue] = {}
        self._findings: tuple[Finding, ...] = ()
        self._told: dict[QueueRef, list[Finding]] = {}
        self._severities: Mapping[Code, Status] = {}
        self.judged = Judged()

    def steps(self, snapshot: Snapshot) -> Iterator[None]:
        """Gather the findings in steps, so that keys are answered in between; `judged` has the result."""
        if snapshot.findings is not self._findings:
            yield from self._hear(snapshot.findings)
        if self._severities != snapshot.severities:
            self._severities = snapshot.severities
        severities = self._severities
        known, told = self._entries, self._told
        changed: dict[QueueRef, QueueRow] = {}
        nothing: list[Finding] = []
        entries: dict[QueueRef, JudgedQueue] = {}
        work = 0
        for row in snapshot.queues:
            ref = row.ref
            entry, of_queue = known.get(ref), told.get(ref, nothing)
            if (
                entry is None
                or entry.row is not row
                or entry.told != of_queue
                or (entry.severities is not severities and (row.stuck or row.late or row.dead))
            ):
                if entry is not None and entry.row is not row:
                    changed[ref] = entry.row
                entry = _judged(row, of_queue, severities)
                work += 20
            entries[ref] = entry
            work += 1
            if work >= STEP:
                work = 0
                yield
        self._entries = entries
        self.judged = Judged(tuple(entries.values()), changed, entries)

    def _hear(self, findings: tuple[Finding, ...]) -> Iterator[None]:
        told: dict[QueueRef, list[Finding]] = {}
        for at, finding in enumerate(findings):
            if finding.queue is not None:
                told.setdefault(finding.queue, []).append(finding)
            if at % HEARD == HEARD - 1:
                yield
        self._findings, self._told = findings, told
        yield


def _judged(row: QueueRow, told: Sequence[Finding], severities: Mapping[Code, Status]) -> JudgedQueue:
    from qdeck.admin import finding_rank, findings_of  # not before the first frame

    reasons = tuple(
        RowReason(Severity.of(finding.severity), _words(finding, row), finding.code, finding_rank(finding, row))
        for finding in findings_of(row, told, severities)
    )
    severity = reasons[0].severity if reasons else Severity.FINE
    return JudgedQueue(row=row, severity=severity, reasons=reasons, told=told, severities=severities)


def _words(finding: Finding, row: QueueRow) -> str:
    """Return what a row says of a finding: of a part of what was found together, where to read more."""
    if finding.code is Code.STUCK:
        return f"{finding.count:,} stuck{_stuck_reason(finding.count or 0, row)}"
    if finding.code is Code.LATE:
        return f"{finding.count:,} waiting too long"
    return finding.row_text


def _stuck_reason(count: int, row: QueueRow) -> str:
    """Return why jobs of a queue are stuck, or the key of the list that has the reasons."""
    if not row.has(Feature.LEASES):
        return " (press 3)"
    if not row.over_limit:
        return ": lease expired"
    expired = count - row.over_limit
    return (f": {expired:,} lease expired, {row.over_limit:,}" if expired else ":") + " over the time limit"
