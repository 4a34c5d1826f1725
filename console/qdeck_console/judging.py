"""Which queues are in trouble and why: each queue of a picture with its severity and its reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import Code, Feature, Status
from qdeck_console.history import Rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck.admin import Finding, QueueRef, QueueRow, Snapshot

STEP: Final = 2_000  # of work between two breaths: about a ms
HEARD: Final = 1_000  # findings, likewise
DEAD_WATCH: Final = 10  # dead letters of a queue that count where all together are too many
_OF_ROWS: Final = (Code.STUCK, Code.LATE)  # of all queues together: each row has its own number
_LEVELS: Final = (Code.STUCK, Code.LATE, Code.DEAD)  # whose severity is that of all queues together
_GROWS: Final = 0.5  # ready jobs a second more in than out before it is worth a word
_STILL_GROWS: Final = 0.1  # as long as it is so many, the word stays: else a row would come and go with each picture


class Severity(IntEnum):
    """How urgent a queue is."""

    ACT = 0
    WATCH = 1
    FINE = 2

    @classmethod
    def of(cls, status: Status | None) -> Severity:
        """How urgent a queue with a finding of this severity is."""
        if status is Status.UNHEALTHY:
            return cls.ACT
        return cls.WATCH if status is Status.DEGRADED else cls.FINE

    @property
    def label(self) -> str:
        """The head of its section."""
        return ("act now", "watch", "fine")[self]

    @property
    def role(self) -> str:
        """The role of its words and marks."""
        return ("bad", "warn", "muted")[self]

    @property
    def word(self) -> str:
        """The state of one queue."""
        return ("failing", "watch", "fine")[self]


class RowReason(NamedTuple):
    """Why a queue is not fine."""

    severity: Severity
    text: str
    code: Code


Levels = tuple[Severity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A queue as the list shows it."""

    row: QueueRow
    severity: Severity
    reasons: tuple[RowReason, ...] = ()
    rates: Rates = field(default_factory=Rates)
    told: Sequence[Finding] = ()  # what health reports of it
    levels: Levels = ()  # the severities of `_LEVELS` when it was judged

    def worst(self, code: Code) -> Severity:
        """The severity of what is said with this code."""
        return min((reason.severity for reason in self.reasons if reason.code is code), default=Severity.FINE)

    @property
    def glyph(self) -> str:
        """The sign of its state."""
        if self.row.paused and self.severity is Severity.WATCH:
            return "║"
        return ("✗", "▲", "•")[self.severity]


@dataclass(frozen=True, slots=True)
class Judged:
    """The queues of a picture as a list shows them; `before` has the rows that were others in the picture before."""

    entries: tuple[Entry, ...] = ()
    before: Mapping[QueueRef, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    by_ref: Mapping[QueueRef, Entry] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, queue: QueueRef) -> Entry | None:
        """One of them."""
        return self.by_ref.get(queue)


class Judge:
    """Judges the queues of one picture after the other; one that is as it was is not judged again."""

    def __init__(self) -> None:
        self._entries: dict[QueueRef, Entry] = {}
        self._findings: tuple[Finding, ...] = ()
        self._told: dict[QueueRef, list[Finding]] = {}
        self.judged = Judged()

    def steps(self, snapshot: Snapshot, rates_of: Mapping[QueueRef, Rates]) -> Iterator[None]:
        """Judges a picture in steps, so that whoever runs it can do other things in between; then see `judged`."""
        if snapshot.findings is not self._findings:
            yield from self._hear(snapshot.findings)
        levels = tuple(Severity.of(snapshot.severities.get(code)) for code in _LEVELS)
        known, told = self._entries, self._told
        changed: dict[QueueRef, QueueRow] = {}
        nothing: list[Finding] = []
        entries: dict[QueueRef, Entry] = {}
        work = 0
        for row in snapshot.queues:
            ref = row.ref
            entry, rates, of_deck = known.get(ref), rates_of.get(ref), told.get(ref, nothing)
            if (
                entry is None
                or entry.row is not row
                or entry.rates is not rates
                or entry.told != of_deck
                or (entry.levels != levels and (row.stuck or row.late or row.dead))
            ):
                if entry is not None and entry.row is not row:
                    changed[ref] = entry.row
                entry = _judged(row, rates or Rates(row.in_per_s, row.out_per_s), of_deck, levels, entry)
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
            if finding.queue is not None and finding.code not in _OF_ROWS:
                told.setdefault(finding.queue, []).append(finding)
            if at % HEARD == HEARD - 1:
                yield
        self._findings, self._told = findings, told
        yield


def _judged(row: QueueRow, rates: Rates, told: list[Finding], levels: Levels, before: Entry | None = None) -> Entry:
    of_deck = [RowReason(Severity.of(finding.severity), finding.row_text, finding.code) for finding in told]
    reasons = _of_row(row, levels, {finding.code for finding in told}) + of_deck
    reasons += _trends(row, rates, fills=_fills(before))
    reasons = sorted((reason for reason in reasons if reason.severity is not Severity.FINE), key=_urgency)
    severity = reasons[0].severity if reasons else Severity.FINE
    return Entry(row=row, severity=severity, reasons=tuple(reasons), rates=rates, told=told, levels=levels)


def _urgency(reason: RowReason) -> Severity:
    return reason.severity


def _of_row(row: QueueRow, levels: Levels, known: set[Code]) -> list[RowReason]:
    """What a row adds to findings on all queues together, in its own numbers, and that it is paused."""
    stuck, late, dead = levels
    out = []
    if row.stuck:
        why = ": past lease or time limit" if row.has(Feature.LEASES) else ", see 3 Stuck for why"
        out.append(RowReason(stuck, f"{row.stuck:,} stuck{why}", Code.STUCK))
    if row.paused and not row.ready:
        out.append(RowReason(Severity.WATCH, "paused", Code.PAUSED))
    if row.late:
        out.append(RowReason(late, f"{row.late:,} waiting for too long", Code.LATE))
    if (row.dead or 0) >= DEAD_WATCH and Code.DEAD not in known:
        out.append(RowReason(max(dead, Severity.WATCH), f"{row.dead:,} dead letters", Code.DEAD))
    return out


def _fills(before: Entry | None) -> bool:
    """Whether it was said of a queue that it fills faster than it drains."""
    return before is not None and any(reason.code is Code.FILLING for reason in before.reasons)


def _trends(row: QueueRow, rates: Rates, *, fills: bool) -> list[RowReason]:
    """What only the last pictures together can tell; `fills`: whether the picture before told that it fills."""
    out = []
    if rates.dead_per_min is not None and rates.dead_per_min >= 1:
        words = f"dead letters grow by {rates.dead_per_min:,.0f} a minute"
        out.append(RowReason(Severity.WATCH, words, Code.DEAD_GROWING))
    if rates.filled is not None and rates.drained is not None and row.ready and not row.paused:
        growth = rates.filled - rates.drained
        least, share = (_STILL_GROWS, 0.02) if fills else (_GROWS, 0.1)
        if growth > max(least, share * rates.drained) and row.ready > 30 * growth:
            words = f"fills faster than it drains, +{growth:.1f}/s"
            out.append(RowReason(Severity.WATCH, words, Code.FILLING))
    return out
