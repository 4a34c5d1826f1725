"""Which queues are in trouble and why: each queue of a picture with its severity and its reasons."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck.admin import NATIVE, Status
from qdeck_console.history import Rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from qdeck.admin import QueueRow, Reason, Snapshot

STEP: Final = 2_000  # of work between two breaths: about a ms
HEARD: Final = 1_000  # reasons, likewise
DEAD_WATCH: Final = 10  # dead letters from which a queue is looked at
_OF_ROWS: Final = (
    " stuck in ",
    " wait for over ",
    " waits for over ",
)  # of all queues together: each row tells its own
_GROWS: Final = 0.5  # ready jobs a second more in than out before it is worth a word
_STILL_GROWS: Final = 0.1  # as long as it is so many, the word stays: else a row would come and go with each picture
_FILLS: Final = "fills faster than it drains, "


class Severity(IntEnum):
    """How urgent a queue is."""

    ACT = 0
    WATCH = 1
    FINE = 2

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A queue as the list shows it."""

    row: QueueRow
    severity: Severity
    reasons: tuple[tuple[Severity, str], ...] = ()
    rates: Rates = field(default_factory=Rates)
    told: Sequence[Reason] = ()  # what the verdict says of it

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
    before: Mapping[str, QueueRow] = field(default_factory=lambda: MappingProxyType({}))
    named: Mapping[str, Entry] = field(default_factory=lambda: MappingProxyType({}))  # the same by their names

    def of(self, queue: str) -> Entry | None:
        """One of them."""
        return self.named.get(queue)


class Judge:
    """Judges the queues of one picture after the other; one that is as it was is not judged again."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._reasons: tuple[Reason, ...] = ()
        self._told: dict[str, list[Reason]] = {}
        self.judged = Judged()

    def steps(self, snapshot: Snapshot, rates_of: Mapping[str, Rates]) -> Iterator[None]:
        """Judges a picture in steps, so that whoever runs it can do other things in between; then see `judged`."""
        if snapshot.reasons is not self._reasons:
            yield from self._hear(snapshot.reasons)
        known, told = self._entries, self._told
        changed: dict[str, QueueRow] = {}
        nothing: list[Reason] = []
        entries: dict[str, Entry] = {}
        work = 0
        for row in snapshot.queues:
            name = row.name
            entry, rates, of_deck = known.get(name), rates_of.get(name), told.get(name, nothing)
            if entry is None or entry.row is not row or entry.rates is not rates or entry.told != of_deck:
                if entry is not None and entry.row is not row:
                    changed[name] = entry.row
                entry = _judged(row, rates or Rates(row.in_per_s, row.out_per_s), of_deck, entry)
                work += 20
            entries[name] = entry
            work += 1
            if work >= STEP:
                work = 0
                yield
        self._entries = entries
        self.judged = Judged(tuple(entries.values()), changed, entries)

    def _hear(self, reasons: tuple[Reason, ...]) -> Iterator[None]:
        told: dict[str, list[Reason]] = {}
        for at, reason in enumerate(reasons):
            if reason.queue is not None and not any(words in reason.text for words in _OF_ROWS):
                told.setdefault(reason.queue, []).append(reason)
            if at % HEARD == HEARD - 1:
                yield
        self._reasons, self._told = reasons, told
        yield


def _judged(row: QueueRow, rates: Rates, told: list[Reason], before: Entry | None = None) -> Entry:
    of_deck = [
        (Severity.ACT if reason.status is Status.UNHEALTHY else Severity.WATCH, _without_name(reason.text, row.name))
        for reason in told
    ]
    known = {text for _, text in of_deck}
    reasons = (
        [reason for reason in _of_row(row) if reason[1] not in known]
        + of_deck
        + _trends(row, rates, fills=_fills(before))
    )
    reasons.sort(key=lambda reason: reason[0])
    severity = reasons[0][0] if reasons else Severity.FINE
    return Entry(row=row, severity=severity, reasons=tuple(reasons), rates=rates, told=told)


def _without_name(text: str, queue: str) -> str:
    """A reason under its own row need not name the queue again."""
    for phrase in (f" in {queue}", f" for {queue}", f"{queue} is ", f"{queue}: ", f"{queue} "):
        text = text.replace(phrase, "")
    return text.strip()


def _of_row(row: QueueRow) -> list[tuple[Severity, str]]:
    """What a row says by itself, where the deck as a whole is not worse for it."""
    out = []
    if row.stuck:
        why = ": past lease or time limit" if row.layout == NATIVE else ", see 3 Stuck for why"
        out.append((Severity.ACT, f"{row.stuck:,} stuck{why}"))
    if row.paused and not row.ready:
        out.append((Severity.WATCH, "paused"))
    if row.late:
        out.append((Severity.WATCH, f"{row.late:,} waiting for too long"))
    if (row.dead or 0) >= DEAD_WATCH:
        out.append((Severity.WATCH, f"{row.dead:,} dead letters"))
    return out


def _fills(before: Entry | None) -> bool:
    """Whether it was said of a queue that it fills faster than it drains."""
    return before is not None and any(text.startswith(_FILLS) for _, text in before.reasons)


def _trends(row: QueueRow, rates: Rates, *, fills: bool) -> list[tuple[Severity, str]]:
    """What only the last pictures together can tell; `fills`: whether the picture before told that it fills."""
    out = []
    if rates.dead_per_min is not None and rates.dead_per_min >= 1:
        out.append((Severity.WATCH, f"dead letters grow by {rates.dead_per_min:,.0f} a minute"))
    if rates.filled is not None and rates.drained is not None and row.ready and not row.paused:
        growth = rates.filled - rates.drained
        least, share = (_STILL_GROWS, 0.02) if fills else (_GROWS, 0.1)
        if growth > max(least, share * rates.drained) and row.ready > 30 * growth:
            out.append((Severity.WATCH, f"{_FILLS}+{growth:.1f}/s"))
    return out
