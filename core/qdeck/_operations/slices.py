"""The slices in which a plan is applied: entries of one queue, state, verb and rule, and how many go into one."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import NATIVE
from qdeck._engine import acts
from qdeck._operations.model import Verb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck._operations.model import PlanEntry

_LONGEST_MS: Final = 4.0  # a call may hold up the server for 5
_LEAST: Final = 20  # entries of a slice at least, and how many more when calls are short again
# What a round trip may cost the server: an entry of a light verb is 1, and so is each part of its payload.
_COST: Final = acts.SLICE
_CALL: Final = 10
_BYTES: Final = 8192
# What these do to a job is little; the others take about twice as long.
_LIGHT: Final = (Verb.RETRY, Verb.DISCARD, Verb.RUN, Verb.REPRIORITISE, Verb.REQUEUE)


@dataclass(slots=True)
class PlanSlice:
    """Entries of one queue, state, verb and rule, and the place of the first of them in the plan."""

    place: int
    entries: list[PlanEntry]

    @property
    def first(self) -> PlanEntry:
        """The first entry, which tells what all of them have in common."""
        return self.entries[0]

    @property
    def cost(self) -> int:
        """About what it costs the server."""
        payloads = sum(entry.bytes for entry in self.entries) // _BYTES
        return _CALL + len(self.entries) * (1 if self.first.verb in _LIGHT else 2) + payloads

    def size(self, most: int) -> int:
        """How many of its entries go into a call that takes so many light ones."""
        return most if self.first.verb in _LIGHT or not self.is_native else max(1, most // 2)

    @property
    def is_native(self) -> bool:
        """Whether its queue is a native one."""
        return self.first.adapter == NATIVE


class PlanSlices:
    """The slices of a plan, one after the other."""

    def __init__(self, entries: Iterator[PlanEntry]) -> None:
        self._entries = entries
        self._held: list[PlanEntry] = []
        self._place = 0
        self._again: deque[PlanSlice] = deque()

    def take(self, most: int) -> list[PlanSlice]:
        """The next slices that go to the server in one round trip, each of at most so many entries.

        Of native queues there are several, as long as all that belongs together fits in: one that is cut goes alone,
        since what is left of it may have been one slice with it before.
        """
        part = self._next(most, None)
        found = [] if part is None else [part]
        if part is None or not part.is_native or len(part.entries) == part.size(most):
            return found
        room = _COST - part.cost
        while (part := self._next(most, room)) is not None:
            found.append(part)
            room -= part.cost
        return found

    def _next(self, most: int, room: int | None) -> PlanSlice | None:
        """The next slice; with `room` only a whole one of a native queue that costs no more than that."""
        part = self._again[0] if self._again else self._read(most)
        if part is None:
            return None
        size = part.size(most)
        if room is not None and not (part.is_native and len(part.entries) <= size and part.cost <= room):
            return None
        if self._again:
            self._again.popleft()
        else:
            del self._held[: len(part.entries)]
            self._place += len(part.entries)
        if len(part.entries) > size:
            self.put_back(part, size)
        return part

    def _read(self, most: int) -> PlanSlice | None:
        """The entries that belong together, up to one more than fit into a slice."""
        held = self._held
        if len(held) <= most:
            held += islice(self._entries, most + 1 - len(held))
        if not held:
            return None
        first = held[0]
        kind = (first.queue, first.state, first.verb, first.rule, first.adapter)
        entries = held[: most + 1]
        for at, entry in enumerate(entries):
            if (entry.queue, entry.state, entry.verb, entry.rule, entry.adapter) != kind:
                return PlanSlice(self._place, entries[:at])
        return PlanSlice(self._place, entries)

    def put_back(self, part: PlanSlice, count: int) -> None:
        """All but the first so many entries of a slice are to come again.

        Those that were read last come with what follows them, since all of it may have been one slice before.
        """
        rest = part.entries[count:]
        if part.place + len(part.entries) == self._place:
            self._held[:0] = rest
            self._place -= len(rest)
        else:
            self._again.appendleft(PlanSlice(part.place + count, rest))
        del part.entries[count:]

    def extend(self, part: PlanSlice, count: int) -> None:
        """Make the slice that was read last so long, since it was applied as a longer one before."""
        while len(part.entries) < count and (more := self._next(count - len(part.entries), None)) is not None:
            part.entries += more.entries


class Pace:
    """How many entries go into a slice: fewer while calls hold up the server for longer than they may."""

    def __init__(self) -> None:
        self.most = acts.SLICE
        self._trip_ms = math.inf
        self._was_long = False

    def trip(self, ms: float) -> None:
        """A round trip took so long in which nothing was done."""
        self._trip_ms = min(self._trip_ms, ms)

    def took(self, count: int, ms: float) -> None:
        """A round trip with so many entries took so long."""
        self.trip(ms)
        work_ms = ms - self._trip_ms
        before, self._was_long = self._was_long, work_ms > _LONGEST_MS
        if before and self._was_long:  # once can be this machine's doing
            self.most = max(_LEAST, int(count * _LONGEST_MS / work_ms / 2))
        elif not self._was_long:
            self.most = min(acts.SLICE, self.most + _LEAST)
