"""What became of the jobs of a batch, from what is kept to undo it: after-action truth for the log of operations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._deck import jobs
from qdeck._deck.model import NATIVE, State
from qdeck._deck.values import read_values
from qdeck._engine import codec, keys
from qdeck._errors import QdeckError, UsageError
from qdeck._operations import batches, undoing
from qdeck._operations.fates import Fortunes
from qdeck._operations.model import Fates, Verb
from qdeck._operations.planfile import own_plan
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._engine.ops import Program
    from qdeck._operations.batches import Batch

MOST: Final = 20_000  # jobs that are looked for; of a larger batch these are a part, and said to be
_STATES: Final = (
    State.DEAD, State.DONE, State.RUNNING, State.READY, State.DELAYED, State.BLOCKED, State.CANCELLED,
)  # fmt: skip
GONE: Final = "gone"
UNKNOWN: Final = "unknown"
MOST_ERRORS: Final = 500  # of those that died again: what they died of


@dataclass(frozen=True, slots=True, kw_only=True)
class Became:
    """Where the jobs of a batch are now. `states` counts them; `gone` ended so long ago that nothing is kept.

    Of `unknown` ones of other adapters no outcome is told.

    `errors` are the classes that the dead ones died of, the most frequent first, of a bounded number of them.
    """

    batch: str
    verb: str
    total: int = 0
    looked: int = 0
    states: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    queues: tuple[str, ...] = ()
    undone: bool = False
    until_ms: int | None = None
    all_kept_bytes: int = 0  # what the undo of all batches takes

    @property
    def is_whole(self) -> bool:
        """Whether every job of it was looked for."""
        return self.looked == self.total

    def count(self, *states: str) -> int:
        """How many are in some states."""
        return sum(self.states.get(state, 0) for state in states)


def read(batch: str) -> Program[Became]:
    """What became of a batch; raises when nothing is kept about it."""
    known = yield from batches.read()
    kept = known.get(batch)
    if kept is None:
        raise UsageError(f"nothing is kept about the batch {batch!r}", hint="it is kept for a day")
    counts: dict[str, int] = {}
    errors: Counter[str] = Counter()
    total = looked = 0
    for queue in kept.queues:
        place = kept.target if kept.verb == Verb.MOVE and kept.target else queue
        [slices] = yield reads.read((b"HGET", keys.undo_key(queue, batch), b"slices"))
        for number in range(1, int(reads.good(slices, queue) or 0) + 1):
            ids = yield from _ids(kept, queue, number)
            total += len(ids)
            if ids and looked < MOST:
                looked += len(ids)
                dead = yield from _count(place, ids, counts)
                yield from _errors(place, dead[: MOST_ERRORS - errors.total()], errors)
    if kept.adapters and kept.verb == Verb.RETRY:
        theirs, of_plan = yield from _abroad(kept)
        looked, total = looked + theirs.total, total + of_plan
        for state, count in _states_of(theirs).items():
            counts[state] = counts.get(state, 0) + count
    return Became(
        batch=batch,
        verb=kept.verb,
        total=total,
        looked=looked,
        states=MappingProxyType(counts),
        errors=MappingProxyType(dict(errors.most_common())),
        queues=tuple(kept.queues),
        undone=kept.undone,
        until_ms=kept.until_ms,
        all_kept_bytes=sum(one.bytes for one in known.values()),
    )


def _abroad(kept: Batch) -> Program[tuple[Fates, int]]:
    """What became of the jobs of other adapters, and how many they were: only where the plan was made is it known."""
    try:
        plan = own_plan(kept.id)
        theirs = list(islice((entry for entry in enumerate(plan.entries()) if entry[1].adapter != NATIVE), MOST + 1))
    except (UsageError, OSError):
        return Fates(), 0
    fates = yield from Fortunes(plan).count_at(theirs[:MOST])
    return fates, fates.total + (len(theirs) > MOST)


def _states_of(fates: Fates) -> dict[str, int]:
    told = {
        State.DONE: fates.done, State.DEAD: fates.dead_again, State.RUNNING: fates.running, State.READY: fates.waiting,
        State.DELAYED: fates.failed_again, State.CANCELLED: fates.cancelled, UNKNOWN: fates.unknown,
    }  # fmt: skip
    return {str(state): count for state, count in told.items() if count}


def _ids(kept: Batch, queue: str, number: int) -> Program[list[str | bytes]]:
    try:
        part = yield from undoing.read_slice(queue, kept.id, number)
    except QdeckError:
        return []  # an undo removes what it took back
    columns = part.get("c") or {}
    return list(columns.get("ids") or [])


def _count(queue: str, ids: list[str | bytes], counts: dict[str, int]) -> Program[list[str | bytes]]:
    """Counts where they are; returns those that are dead."""
    replies = yield reads.read(*[(b"ZMSCORE", keys.key(queue, state), *ids) for state in _STATES])
    rows = [reads.good(reply, queue) for reply in replies]
    dead: list[str | bytes] = []
    for job, scores in zip(ids, zip(*rows, strict=True), strict=True):
        state = next((name.value for name, score in zip(_STATES, scores, strict=True) if score is not None), GONE)
        counts[state] = counts.get(state, 0) + 1
        if state == State.DEAD:
            dead.append(job)
    return dead


def _errors(queue: str, ids: list[str | bytes], errors: Counter[str]) -> Program[None]:
    if not ids:
        return
    raw_ids = [job_id if isinstance(job_id, bytes) else jobs.raw_id(job_id) for job_id in ids]
    [values] = yield from read_values(queue, ("error",), raw_ids)
    for raw in values:
        events = codec.read_events(raw)
        found = next((event.data.get("class") for event in reversed(events) if event.data.get("class")), None)
        errors[str(found) if found else "unknown"] += 1
