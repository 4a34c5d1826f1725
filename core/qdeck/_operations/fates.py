"""After-action truth: what became of jobs that were retried, our own by their states, others as their adapters tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from qdeck._deck.model import NATIVE
from qdeck._engine import codec, keys, ops
from qdeck._operations.model import Fates
from qdeck._redis import reads
from qdeck.adapters import make
from qdeck.adapters.changes import done_places
from qdeck.adapters.model import Fate, Seen, Tried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._engine.ops import Program
    from qdeck._operations.model import PlanEntry
    from qdeck._operations.planfile import Plan
    from qdeck.adapters.adapter import Adapter

MOST_PLANS: Final = 4  # whose twins are remembered: a page asks about its plan again and again
_twins_of: Final[dict[str, set[int]]] = {}
T = TypeVar("T")
CHUNK: Final = 500
BREATH: Final = 4000  # entries of a plan that are looked at in one go
GONE: Final = "gone"
_STATES: Final = ("dead", "done", "running", "ready", "delayed", "blocked", "cancelled")
_OF_STATE: Final = {"dead": "dead_again", "ready": "waiting", "delayed": "waiting", "blocked": "waiting"}


class Fortunes:
    """Finds out what became of the entries of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.adapters: dict[str, Adapter] = {
            name: make(name) for name, queue in plan.head.abroad if plan.tail.by_queue.get(queue)
        }

    @property
    def told(self) -> str:
        """How much can be seen of the entries of other adapters, in words."""
        return "; ".join(f"{name}: {adapter.tells_fates}" for name, adapter in self.adapters.items())

    @property
    def unseen(self) -> str:
        """The adapters that do not tell what becomes of entries."""
        return ", ".join(name for name, adapter in self.adapters.items() if not adapter.tells_fates)

    @property
    def patience_s(self) -> float:
        """How long it may take until the first ones have ended."""
        slow = [adapter.patience_s for adapter in self.adapters.values()]
        return max([60.0, *slow]) if slow else 60.0

    def read(self, entries: Sequence[PlanEntry]) -> Program[list[str | None]]:
        """The fate of each, as fields of `Fates`; None for one of ours that was never touched, or was put back."""
        found: list[str | None] = []
        for part in _chunks(entries, key=lambda entry: entry):
            adapter = self.adapters.get(part[0].adapter)
            found += (yield from _native(part)) if adapter is None else (yield from self._foreign(adapter, part))
        return found

    def count(self, entries: Iterable[PlanEntry]) -> Program[Fates]:
        """What became of all of a plan; those that were left alone, or put back since, are not counted."""
        return (yield from self.count_at(enumerate(entries)))

    def count_at(self, entries: Iterable[tuple[int, PlanEntry]]) -> Program[Fates]:
        """What became of some of a plan, which are given with their places in it."""
        sums: Counter[str] = Counter()
        for numbered in _chunks(entries, key=lambda one: one[1]):
            fates = yield from self._at(numbered)
            sums.update(fate for fate in fates if fate is not None)
        return fates_of(sums)

    def read_at(self, entries: Iterable[tuple[int, PlanEntry]]) -> Program[list[str | None]]:
        """The fate of each of some of a plan; None for those that did not go back, or were put back since."""
        found: list[str | None] = []
        for numbered in _chunks(entries, key=lambda one: one[1]):
            found += yield from self._at(numbered)
        return found

    def _at(self, numbered: Sequence[tuple[int, PlanEntry]]) -> Program[list[str | None]]:
        part = [entry for _, entry in numbered]
        if part[0].adapter == NATIVE:
            return (yield from self.read(part))
        done = yield from done_places(part[0].adapter, self.plan.batch, [place for place, _ in numbered])
        some = [entry for entry, was_kept in zip(part, done, strict=True) if was_kept is not None]
        fates = iter((yield from self.read(some)))
        return [None if was_kept is None else next(fates) for was_kept in done]

    def _foreign(self, adapter: Adapter, part: Sequence[PlanEntry]) -> Program[list[str | None]]:
        since = self.plan.head.created_ms
        tried = [Tried(seen=Seen.parse(entry.version), since_ms=since) for entry in part]
        if adapter.repeats:
            twins = yield from self._find_twins()
            tried = [msgspec.structs.replace(one, twin=hash(adapter.likeness(one.seen)) in twins) for one in tried]
        fates: list[Fate] = yield from adapter.fates(tried, (yield from reads.clock()))
        return [fate.value for fate in fates]

    def _find_twins(self) -> Program[set[int]]:
        """What there is several times in the plan: of these it cannot be seen which one is dead again."""
        known = _twins_of.get(self.plan.id)
        if known is not None:
            return known
        met: set[int] = set()
        twins: set[int] = set()
        for number, entry in enumerate(self.plan.entries(), 1):
            if number % BREATH == 0:
                yield from reads.clock()  # whoever shares the loop has a turn
            adapter = self.adapters.get(entry.adapter)
            if adapter is not None and adapter.repeats:
                mark = hash(adapter.likeness(Seen.parse(entry.version)))
                (twins if mark in met else met).add(mark)
        while len(_twins_of) >= MOST_PLANS:
            del _twins_of[next(iter(_twins_of))]
        _twins_of[self.plan.id] = twins
        return twins


def fates_of(counts: Counter[str]) -> Fates:
    """Counted fates as a value."""
    return Fates(
        total=counts.total(),
        done=counts["done"],
        dead_again=counts["dead_again"],
        failed_again=counts["failed_again"],
        waiting=counts["waiting"],
        running=counts["running"],
        cancelled=counts["cancelled"],
        gone=counts[GONE],
        unknown=counts["unknown"],
    )


def _chunks(entries: Iterable[T], key: Callable[[T], PlanEntry]) -> Iterable[list[T]]:
    """Entries of one queue, as many as are asked for at once."""
    held: list[T] = []
    for one in entries:
        if held:
            first, entry = key(held[0]), key(one)
            if len(held) == CHUNK or (first.queue, first.adapter) != (entry.queue, entry.adapter):
                yield held
                held = []
        held.append(one)
    if held:
        yield held


def _native(entries: Sequence[PlanEntry]) -> Program[list[str | None]]:
    queue = entries[0].queue
    ids: list[ops.Arg] = [entry.id for entry in entries]
    replies = yield reads.read(*[(b"ZMSCORE", keys.key(queue, state), *ids) for state in _STATES])
    columns = [reads.good(reply, queue) for reply in replies]
    found: list[str | None] = []
    for entry, *scores in zip(entries, *columns, strict=True):
        state = next((name for name, score in zip(_STATES, scores, strict=True) if score is not None), GONE)
        untouched = state == entry.state == "dead" and float(scores[0]) == codec.score_seen(entry.version)
        found.append(None if untouched else _OF_STATE.get(state, state))
    return found
