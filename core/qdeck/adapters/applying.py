"""The slices in which a plan is applied, the protocol of appliers, and the applier of cells.

An applier identifies a slice by the place of its first entry in the plan and stores its undo data, so a slice that is
sent again is applied once and gets the same reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from qdeck._engine.batch_transitions import SLICE, SliceResult
from qdeck._model.reasons import SkipCode
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck.adapters import changes
from qdeck.adapters.entry_plans import Planned, build_changes
from qdeck.adapters.model import Seen, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck._errors import QdeckError
    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change, ScriptChange
    from qdeck.adapters.model import Entry
    from qdeck.adapters.plans import Context, PlanEntry

# What a round trip may cost the server: an entry of a light verb is 1, and so is each part of its payload.
_ROUND_TRIP: Final = SLICE
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
        """Return the rest of it, after the first `count` entries."""
        if count >= len(self.entries):
            return None
        rest = PlanSlice(self.place + count, self.entries[count:])
        del self.entries[count:]
        return rest

    @property
    def first(self) -> PlanEntry:
        """The first entry; all entries have its queue, state, verb and rule."""
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
    """Applies the slices of one adapter, and counts the bytes that are kept to undo them."""

    kept_bytes: int
    takes_several: bool
    """Whether several slices go to the server in one round trip."""

    def size(self, part: PlanSlice, most: int) -> int:
        """Return how many entries of a slice go into a call, which may take `most` at the most."""

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[SliceResult | QdeckError]]:
        """Apply some slices within a limit of bytes for undo; the error of a slice is a value among the replies."""

    def deliver(self, *, at_end: bool) -> Program[None]:
        """Deliver the effects of the slices on other queues: much of it at once, the rest at the end."""


class PlanSlices:
    """The slices of a plan, in order."""

    def __init__(self, entries: Iterator[PlanEntry], applier_of: Callable[[str], Applier]) -> None:
        self._entries, self._applier_of = entries, applier_of
        self._held: list[PlanEntry] = []
        self._place = 0

    def take(self, most: int) -> list[PlanSlice]:
        """Return the next slices that go to the server in one round trip, each within a limit of entries.

        Where their applier takes several, these are as many as fit in whole: one that is cut goes alone, since what
        is left of it may have been one slice with it before.
        """
        found: list[PlanSlice] = []
        room = _ROUND_TRIP
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


class CellAdapter(Planned, Protocol):
    """The part of an adapter that applies plans by cells."""

    def recall(self, queue: str, state: str, seen: Sequence[Seen], now: int) -> Program[list[Entry | None]]:
        """Return planned entries as they are now."""

    def prepare(self, verb: str, now: int) -> Program[Any]:
        """Read what many changes of one verb need."""


class CellApplier(Applier):
    """Applies slices of an adapter whose changes are cells: each entry is read again, and its change built and made."""

    takes_several = False

    def __init__(self, adapter: CellAdapter, context: Context, keep_ms: int) -> None:
        self.kept_bytes = 0
        self._adapter, self._context, self._keep_ms = adapter, context, keep_ms
        self._places = changes.ListShifts()

    def size(self, part: PlanSlice, most: int) -> int:
        """Return how many entries are changed in one round trip: few of them where they are large."""
        sums = accumulate(entry.bytes for entry in part.entries[: min(most, changes.CHUNK)])
        return max(1, sum(size <= changes.CHUNK_BYTES for size in sums))

    def apply(self, parts: Sequence[PlanSlice], room: int) -> Program[Sequence[SliceResult | QdeckError]]:
        """Apply a slice: read its entries again, then build and make a change for each."""
        [part] = parts
        return [(yield from self._apply(part.entries, part.place, self.kept_bytes + room))]

    def _apply(self, part: Sequence[PlanEntry], place: int, keep_bytes: int) -> Program[SliceResult]:
        first, adapter = part[0], self._adapter
        now = yield from reads.clock()
        done = yield from changes.done_places(adapter.name, self._context.batch, range(place, place + len(part)))
        seen = [Seen.parse(entry.version) for entry in part]
        there = yield from adapter.recall(first.queue, first.state, seen, now)
        todo = [(at, entry) for at, entry in enumerate(there) if entry is not None and done[at] is None]
        reasons: dict[int, tuple[str, str]] = {
            at: (SkipCode.CHANGED, "") for at, entry in enumerate(there) if entry is None and done[at] is None
        }
        unkept = done.count(False) + (yield from self._make_changes(part, todo, place, keep_bytes, now, reasons))
        skipped = [(at, code, data) for at, (code, data) in sorted(reasons.items())]
        return SliceResult(now, len(part), True, 0, 0, self.kept_bytes, skipped, unkept)

    def _make_changes(
        self,
        part: Sequence[PlanEntry],
        todo: list[tuple[int, Entry]],
        place: int,
        keep_bytes: int,
        now: int,
        reasons: dict[int, tuple[str, str]],
    ) -> Program[int]:
        """Make the changes; build one again, once, if an earlier change affected it. Return how many are not kept."""
        adapter, act, unkept = self._adapter, Verb(part[0].verb), 0
        prepared = yield from adapter.prepare(act, now)
        context = msgspec.structs.replace(self._context, now=now, prepared=prepared)
        attempts = [todo]
        for number, some in enumerate(attempts):
            own = _with_rule(context, [part[at] for at, _ in some])
            built = yield from build_changes(adapter, act, [entry for _, entry in some], own)
            ready: list[tuple[int, Entry, Change | ScriptChange]] = []
            for (at, entry), change in zip(some, built, strict=True):
                if isinstance(change, Skipped):
                    reasons[at] = change.code, change.data
                else:
                    ready.append((at, entry, change))
            results = yield from changes.apply(
                adapter.name, context.batch, [change for _, _, change in ready], keep_ms=self._keep_ms,
                keep_bytes=keep_bytes, places=[place + at for at, _, _ in ready], at=self._places,
            )  # fmt: skip
            for (at, entry, _), result in zip(ready, results, strict=True):
                if result.done:
                    reasons.pop(at, None)
                    unkept += not result.undoable
                    self.kept_bytes = result.bytes
                    continue
                reasons[at] = result.code or SkipCode.CHANGED, result.data
                if number == 0:
                    attempts.append([(at, entry)])
        return unkept

    def deliver(self, *, at_end: bool) -> Program[None]:
        """Deliver nothing: a change has all that it does in its cells."""
        yield from ()


def _with_rule(context: Context, entries: Sequence[PlanEntry]) -> Context:
    rule = entries[0].rule if entries else None
    if rule is None:
        return context
    return msgspec.structs.replace(context, reasons=tuple(entry.reason for entry in entries), rule=rule)
