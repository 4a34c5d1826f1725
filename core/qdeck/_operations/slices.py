"""The slices in which a plan is applied: entries of one queue, state, verb and rule, and how many go into one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from qdeck._engine import acts
from qdeck._operations.model import Verb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck._engine.acts import Acted
    from qdeck._errors import QdeckError
    from qdeck._operations.model import PlanEntry
    from qdeck._redis.commands import Program

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

    def rest(self, count: int) -> PlanSlice | None:
        """What is left of it after its first so many entries; these stay."""
        if count >= len(self.entries):
            return None
        rest = PlanSlice(self.place + count, self.entries[count:])
        del self.entries[count:]
        return rest

    @property
    def first(self) -> PlanEntry:
        """The first entry, which tells what all of them have in common."""
        return self.entries[0]

    @property
    def cost(self) -> int:
        """About what it costs the server."""
        payloads = sum(entry.bytes for entry in self.entries) // _BYTES
        return _CALL + len(self.entries) * (1 if self.is_light else 2) + payloads

    @property
    def is_light(self) -> bool:
        """Whether its verb costs the server little."""
        return self.first.verb in _LIGHT


class Applier(Protocol):
    """What applies the slices of one adapter, and counts the bytes that are kept to undo them."""

    kept_bytes: int
    takes_several: bool
    """Whether several slices go to the server in one round trip."""

    def size(self, part: PlanSlice, most: int) -> int:
        """Return how many entries of a slice go into a call, which may take `most` at the most."""

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[Acted | QdeckError]]:
        """Apply some slices and keep at most so many bytes more; an error of one is a value among the answers."""

    def deliver(self, *, at_end: bool) -> Program[None]:
        """Deliver what the slices have for other queues: much of it at once, the rest at the end."""


class PlanSlices:
    """The slices of a plan, one after the other."""

    def __init__(self, entries: Iterator[PlanEntry], applier_of: Callable[[str], Applier]) -> None:
        self._entries, self._applier_of = entries, applier_of
        self._held: list[PlanEntry] = []
        self._place = 0

    def take(self, most: int) -> list[PlanSlice]:
        """Return the next slices that go to the server in one round trip, each of at most so many entries.

        Where their applier takes several, these are as many as fit in whole: one that is cut goes alone, since what
        is left of it may have been one slice with it before.
        """
        found: list[PlanSlice] = []
        room = _COST
        while (part := self._next(most)) is not None:
            applier = self._applier_of(part.first.adapter)
            size = applier.size(part, most)
            is_alone = len(part.entries) > size or not applier.takes_several
            if found and (is_alone or part.first.adapter != found[0].first.adapter or part.cost > room):
                break
            del part.entries[size:]
            self._skip(len(part.entries))
            found.append(part)
            if is_alone:
                break
            room -= part.cost
        return found

    def extend(self, part: PlanSlice, count: int) -> None:
        """Make the slice that was read last so long, since it was applied as a longer one before."""
        missing = count - len(part.entries)
        self._fill(missing)
        part.entries += self._held[:missing]
        self._skip(missing)

    def _next(self, most: int) -> PlanSlice | None:
        """Look at the entries that belong together, up to one more than fit into a slice."""
        self._fill(most + 1)
        if not self._held:
            return None
        entries, first = self._held[: most + 1], self._held[0]
        kind = (first.queue, first.state, first.verb, first.rule, first.adapter)
        for at, entry in enumerate(entries):
            if (entry.queue, entry.state, entry.verb, entry.rule, entry.adapter) != kind:
                return PlanSlice(self._place, entries[:at])
        return PlanSlice(self._place, entries)

    def _fill(self, count: int) -> None:
        if len(self._held) < count:
            self._held += islice(self._entries, count - len(self._held))

    def _skip(self, count: int) -> None:
        del self._held[:count]
        self._place += count


class SliceSize:
    """How many entries go into a slice: fewer while calls hold up the server for longer than they may."""

    def __init__(self, trip_ms: float = math.inf) -> None:
        self.most = acts.SLICE
        self._trip_ms = trip_ms  # the shortest round trip in which nothing was done
        self._was_long = False

    def took(self, count: int, ms: float) -> None:
        """A round trip with so many entries took so long."""
        self._trip_ms = min(self._trip_ms, ms)
        work_ms = ms - self._trip_ms
        before, self._was_long = self._was_long, work_ms > _LONGEST_MS
        if before and self._was_long:  # once can be this machine's doing
            self.most = max(_LEAST, int(count * _LONGEST_MS / work_ms / 2))
        elif not self._was_long:
            self.most = min(acts.SLICE, self.most + _LEAST)
