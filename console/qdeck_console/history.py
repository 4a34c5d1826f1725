"""What the feed remembers of each queue: samples for the charts.

Own samples become coarser as time goes by, so that a queue never costs more than a few hundred bytes, of ten thousand
queues too. Where an agent keeps history, the charts begin an hour ago: what it saw is read for the queues that are on
screen, and own samples go on from there.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from itertools import chain
from math import isnan, nan
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from qdeck.admin import QueueRef, QueueRow, Sample, Snapshot

SAMPLES: Final = 36
LONGEST_S: Final = 25.0  # a sample, at last: 36 of them are fifteen minutes
HOUR_MS: Final = 3_600_000
STEP: Final = 100  # queues per step: about a ms
_FIRST_S: Final = LONGEST_S / 32
_GAP_S: Final = 20.0  # longer without a look, and the time between stays empty
_KEPT_S: Final = 600.0  # what an agent saw is read again after this: until then own samples go on
_SLOT_MS: Final = HOUR_MS // SAMPLES

Cells = list[float | None]
READY, FILLED, DRAINED = 0, 1, 2
_KINDS: Final = 3  # numbers of a sample


# Jobs that come and go a second, of many queues together; none where no queue reports them.
Flow: TypeAlias = tuple[float | None, float | None]


def flow_of(rows: Sequence[QueueRow]) -> Flow:
    """The sums of what is known."""
    filled = [row.in_per_s for row in rows if row.in_per_s is not None]
    drained = [row.out_per_s for row in rows if row.out_per_s is not None]
    return sum(filled) if filled else None, sum(drained) if drained else None


@dataclass(frozen=True, slots=True)
class Pasts:
    """What agents saw of some queues in the last hour, as a screen had it read."""

    samples: Mapping[QueueRef, Sequence[Sample]]


@dataclass(slots=True)
class _Track:
    """Samples of one queue, newest last, one a slot; `slot` is that of the newest.

    The numbers of a sample follow each other in one array: three arrays would take as much again as the numbers.
    """

    sample_s: float
    slot: int
    samples: array[float] = field(default_factory=lambda: array("f"))

    def of(self, kind: int) -> array[float]:
        """Return the samples of one number."""
        return self.samples[kind::_KINDS]


@dataclass(slots=True)
class _Past:
    """What an agent saw of one queue: slot of the server's clock → ready, rate in, rate out."""

    read_at: float
    slots: dict[int, tuple[float, float, float]]


class History:
    """Samples of all queues."""

    def __init__(self) -> None:
        self._tracks: dict[QueueRef, _Track] = {}
        self._pasts: dict[QueueRef, _Past] = {}
        self._sample_s = _FIRST_S
        self._began: float | None = None
        self._now, self._now_ms = 0.0, 0
        self._agent_seen = False

    def still(self) -> History:
        """Return a copy that records nothing, for a frozen screen."""
        found = History()
        found._tracks = {ref: replace(one, samples=one.samples[:]) for ref, one in self._tracks.items()}
        found._pasts, found._sample_s, found._began = dict(self._pasts), self._sample_s, self._began
        found._now, found._now_ms, found._agent_seen = self._now, self._now_ms, self._agent_seen
        return found

    @property
    def span_s(self) -> float:
        """How long ago a full chart begins."""
        return HOUR_MS / 1000 if self._agent_seen else self._sample_s * SAMPLES

    def steps(self, snapshot: Snapshot, now: float) -> Iterator[None]:
        """Record a snapshot, in steps. A queue that was not read again does not change."""
        self._began = now if self._began is None else self._began
        self._now, self._now_ms = now, snapshot.at_ms
        while now - self._began >= self._sample_s * SAMPLES and self._sample_s < LONGEST_S:
            self._sample_s *= 2
        fresh = snapshot.fresh
        rows = snapshot.queues if fresh is None else [row for row in snapshot.queues if row.ref in fresh]
        for at, row in enumerate(rows):
            self._take(row, now)
            if at % STEP == STEP - 1:
                yield
        if len(self._tracks) > len(snapshot.queues):
            refs = {row.ref for row in snapshot.queues}
            for held in (self._tracks, self._pasts):
                for ref in [ref for ref in held if ref not in refs]:
                    del held[ref]

    def learn(self, pasts: Pasts) -> None:
        """Store the samples of agents; also record queues without samples, so that they are not requested again."""
        for ref, samples in pasts.samples.items():
            slots = _slots(samples)
            self._pasts[ref] = _Past(self._now, slots)
            self._agent_seen = self._agent_seen or bool(slots)

    def lacking(self, queues: Iterable[QueueRef], most: int) -> list[QueueRef]:
        """Return the queues whose samples by agents are to be read, at most `most`."""
        found = []
        for ref in queues:
            past = self._pasts.get(ref)
            if past is None or self._now - past.read_at > _KEPT_S:
                found.append(ref)
                if len(found) == most:
                    break
        return found

    def ready(self, queue: QueueRef, cells: int) -> Cells:
        """Return how many jobs were ready, oldest first, one value for each cell; None where that is unknown."""
        return self._cells(queue, READY, cells)

    def filled(self, queue: QueueRef, cells: int) -> Cells:
        """The rate in, likewise."""
        return self._cells(queue, FILLED, cells)

    def drained(self, queue: QueueRef, cells: int) -> Cells:
        """The rate out, likewise."""
        return self._cells(queue, DRAINED, cells)

    def _take(self, row: QueueRow, now: float) -> None:
        slot = int(now / self._sample_s)
        track = self._tracks.get(row.ref)
        if track is None:
            track = self._tracks[row.ref] = _Track(self._sample_s, slot - 1)
        while track.sample_s < self._sample_s:
            _halve(track)
        if slot > track.slot:
            gap = min(SAMPLES, slot - track.slot - 1)
            was_lost = gap * self._sample_s > max(_GAP_S, 4 * self._sample_s)  # a late look is no gap
            values = (_known(row.ready), _known(row.in_per_s), _known(row.out_per_s))
            track.samples.extend(((nan,) * _KINDS if was_lost else values) * gap + values)
            del track.samples[: -SAMPLES * _KINDS]
            track.slot = slot

    def _cells(self, queue: QueueRef, kind: int, cells: int) -> Cells:
        series = self._hour(queue, kind) if self._agent_seen else self._own(queue, kind)
        per = SAMPLES / cells
        return [
            _mean(series[int(cell * per) : max(int(cell * per) + 1, int((cell + 1) * per))]) for cell in range(cells)
        ]

    def _own(self, queue: QueueRef, kind: int) -> Sequence[float]:
        """Own samples up to now, one a slot."""
        track = self._tracks.get(queue)
        if track is None:
            return [nan] * SAMPLES
        while track.sample_s < self._sample_s:
            _halve(track)
        series = track.of(kind)
        late = int(self._now / self._sample_s) - track.slot
        if late * self._sample_s <= _GAP_S:  # its turn has not come yet
            late = 0
        whole = [nan] * (SAMPLES - len(series)) + list(series) + [nan] * late
        return whole[-SAMPLES:]

    def _hour(self, queue: QueueRef, kind: int) -> Sequence[float]:
        """Return the samples of agents and our own, in slots of the last hour."""
        past, own = self._pasts.get(queue), self._own(queue, kind)
        newer: dict[int, list[float]] = {}
        for at, value in enumerate(own):
            age_s = (SAMPLES - 1 - at) * self._sample_s
            newer.setdefault(int(self._now_ms - 1000 * age_s) // _SLOT_MS, []).append(value)
        last = self._now_ms // _SLOT_MS
        out = []
        for slot in range(last - SAMPLES + 1, last + 1):
            seen = past.slots.get(slot) if past else None
            mean = _mean(newer.get(slot, ())) if seen is None or slot == last else None
            out.append(mean if mean is not None else nan if seen is None else seen[kind])
        return out


def _known(value: float | None) -> float:
    """Return what is not known stays a gap: a zero would tell of a queue that stands still."""
    return nan if value is None else float(value)


def _halve(track: _Track) -> None:
    """Two samples become one."""
    halved = []
    for kind in range(_KINDS):
        values = list(track.of(kind)) + [nan] * (track.slot % 2 == 0)  # the newest may have no partner yet
        values = [nan] * (len(values) % 2) + values
        means = (_mean(pair) for pair in zip(values[::2], values[1::2], strict=True))
        halved.append([nan if mean is None else mean for mean in means])
    track.samples = array("f", chain.from_iterable(zip(*halved, strict=True)))
    track.slot //= 2
    track.sample_s *= 2


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None


def _slots(samples: Sequence[Sample]) -> dict[int, tuple[float, float, float]]:
    """The samples of an agent by slots of the hour."""
    gathered: dict[int, list[tuple[float, float, float]]] = {}
    for at_ms, values in _with_rates(samples):
        gathered.setdefault(at_ms // _SLOT_MS, []).append(values)
    return {
        slot: (
            _known(_mean(v[READY] for v in values)),
            _known(_mean(v[FILLED] for v in values)),
            _known(_mean(v[DRAINED] for v in values)),
        )
        for slot, values in gathered.items()
    }


def _with_rates(samples: Sequence[Sample]) -> Iterator[tuple[int, tuple[float, float, float]]]:
    before: Sample | None = None
    for sample in samples:
        filled = drained = nan  # of the first one: since when it grew is not known
        if before is not None and sample.at_ms > before.at_ms:
            seconds = (sample.at_ms - before.at_ms) / 1000
            filled = max(0, sample.enqueued - before.enqueued) / seconds
            drained = (max(0, sample.done - before.done) + max(0, sample.dead - before.dead)) / seconds
        yield sample.at_ms, (float(sample.ready), filled, drained)
        before = sample
