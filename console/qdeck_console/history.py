"""What the feed remembers of each queue: rates from the last pictures, and samples for the charts.

Samples become coarser as time goes by, so that a queue never costs more than a few hundred bytes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qdeck._deck.model import QueueRow, Snapshot

SAMPLES: Final = 36
LONGEST_S: Final = 25.0  # a sample, at last: 36 of them are fifteen minutes
_FIRST_S: Final = LONGEST_S / 32
_WINDOW_S: Final = 10.0  # rates are measured over this


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast a queue is filled and drained, per second, and how many dead letters a minute adds."""

    filled: float | None = None
    drained: float | None = None
    dead_per_min: float | None = None


@dataclass(slots=True)
class _Track:
    """Samples of one queue, newest last: ready, rate in, rate out."""

    ready: list[float | None] = field(default_factory=list)
    filled: list[float | None] = field(default_factory=list)
    drained: list[float | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    totals: dict[str, tuple[int, int, int]]  # queue → entered, left, dead


class History:
    """Rates and samples of all queues."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self._marks: deque[_Mark] = deque()
        self._sample_s = _FIRST_S
        self._sampled_at = 0.0
        self._taken = 0

    @property
    def span_s(self) -> float:
        """How long ago the oldest sample of a full chart is."""
        return self._sample_s * SAMPLES

    def add(self, snapshot: Snapshot, now: float) -> Mapping[str, Rates]:
        """Takes a picture in; returns the rates up to it."""
        totals = {row.name: _moved(row) for row in snapshot.queues}
        while len(self._marks) > 1 and now - self._marks[1].at >= _WINDOW_S:
            self._marks.popleft()
        rates = self._rates(snapshot, totals, now)
        self._marks.append(_Mark(now, totals))
        if now - self._sampled_at >= self._sample_s:
            self._sample(snapshot, rates, now)
        return rates

    def ready(self, queue: str, cells: int) -> list[float | None]:
        """How many were ready, oldest first, in so many cells; None where nothing is known."""
        return _cells(self._track(queue).ready, cells)

    def filled(self, queue: str, cells: int) -> list[float | None]:
        """The rate in, likewise."""
        return _cells(self._track(queue).filled, cells)

    def drained(self, queue: str, cells: int) -> list[float | None]:
        """The rate out, likewise."""
        return _cells(self._track(queue).drained, cells)

    def _track(self, queue: str) -> _Track:
        return self._tracks.get(queue) or _Track()

    def _rates(self, snapshot: Snapshot, totals: dict[str, tuple[int, int, int]], now: float) -> dict[str, Rates]:
        mark = self._marks[0] if self._marks else None
        passed = now - mark.at if mark else 0.0
        rates = {}
        for row in snapshot.queues:
            before = mark.totals.get(row.name) if mark else None
            if before is None or passed < 0.2:
                rates[row.name] = Rates(row.in_per_s, row.out_per_s)
                continue
            entered, left, dead = totals[row.name]
            rates[row.name] = Rates(
                max(0, entered - before[0]) / passed,
                max(0, left - before[1]) / passed,
                60 * max(0, dead - before[2]) / passed,
            )
        return rates

    def _sample(self, snapshot: Snapshot, rates: Mapping[str, Rates], now: float) -> None:
        slots = 1
        if self._sampled_at:
            slots = min(SAMPLES, max(1, round((now - self._sampled_at) / self._sample_s)))
        was_lost = slots > 4  # the time without a server stays empty; a late tick is no gap
        self._sampled_at = now
        self._taken += slots
        for row in snapshot.queues:
            track = self._tracks.setdefault(row.name, _Track())
            rate = rates[row.name]
            for series, value in ((track.ready, row.ready), (track.filled, rate.filled), (track.drained, rate.drained)):
                known = float(value or 0)
                series.extend([None if was_lost else known] * (slots - 1))
                series.append(known)
                del series[:-SAMPLES]
        names = {row.name for row in snapshot.queues}
        for name in [name for name in self._tracks if name not in names]:
            del self._tracks[name]
        if self._taken >= SAMPLES and self._sample_s < LONGEST_S:
            self._taken //= 2
            self._sample_s *= 2
            for track in self._tracks.values():
                for series in (track.ready, track.filled, track.drained):
                    if len(series) % 2:
                        series.insert(0, series[0])
                    series[:] = [_mean(pair) for pair in zip(series[::2], series[1::2], strict=True)]


def _moved(row: QueueRow) -> tuple[int, int, int]:
    totals = row.totals
    left = sum(totals.get(name, 0) for name in ("done", "dead", "cancelled", "expired"))
    return totals.get("enqueued", 0), left, totals.get("dead", 0)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cells(series: list[float | None], cells: int) -> list[float | None]:
    """The last samples of a series in so many cells: the mean of what falls into each."""
    per = SAMPLES / cells
    padded = [None] * (SAMPLES - len(series)) + series
    return [_mean(padded[int(cell * per) : max(int(cell * per) + 1, int((cell + 1) * per))]) for cell in range(cells)]
