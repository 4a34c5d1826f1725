"""What happened to jobs after an operation: native ones by their states, others as their adapters report it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._deck.masking import mask_text
from qdeck._deck.model import NATIVE
from qdeck._deck.queue_ref import InQueue
from qdeck._deck.values import read_values
from qdeck._engine import codec, keys, programs
from qdeck._errors import UsageError
from qdeck._operations import batches
from qdeck._operations.model import Outcomes, Verb
from qdeck._operations.planfile import own_plan
from qdeck._redis import reads
from qdeck._redis.commands import Pause, raw_of
from qdeck.adapters import make
from qdeck.adapters.changes import done_places
from qdeck.adapters.model import Retried, Seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._operations.batches import Batch
    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck.adapters.adapter import Adapter
    from qdeck.adapters.plans import PlanEntry

MOST: Final = 20_000  # jobs of a batch that are looked for
MOST_ERRORS: Final = 500  # of those that died again: what they died of
_MOST_PLANS: Final = 4  # whose repeated entries are remembered: a page reads the outcomes of its plan again and again
_CHUNK: Final = 500
_YIELD_EVERY: Final = 4000  # entries of a plan that are read in one go
_SLICES: Final = 10  # of what a batch keeps, in one round trip
_repeated_of: Final[dict[str, set[int]]] = {}
_STATES: Final = ("dead", "done", "running", "ready", "delayed", "blocked", "cancelled")
_OUTCOME_OF: Final = {"dead": "dead_again", "ready": "waiting", "delayed": "waiting", "blocked": "waiting"}
_Placed = tuple[int, "PlanEntry"]  # an entry with its place in the plan


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome(InQueue):
    """One job of a plan. Its outcome is a field of `Outcomes`, or None where it was not changed, or restored since."""

    id: str
    queue: str
    adapter: str = NATIVE
    outcome: str | None = None
    error: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOutcomes(Outcomes):
    """What happened to the jobs of a batch, as far as it is kept. It has so many `jobs`, and `total` of them were
    looked for: of more than a bound the first ones.

    `errors` are the classes that the dead ones died of, the most frequent first, of a bounded number of them.
    """

    batch: str = ""
    verb: str = ""
    jobs: int = 0
    errors: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    queues: tuple[str, ...] = ()
    undone: bool = False
    until_ms: int | None = None
    all_kept_bytes: int = 0  # what the undo of all batches takes

    @property
    def is_whole(self) -> bool:
        """Whether every job of it was looked for."""
        return self.total == self.jobs


class PlanOutcomes:
    """Reads the outcomes of the entries of one applied plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.adapters: dict[str, Adapter] = {name: make(name) for name in plan.adapters}

    @property
    def evidence(self) -> str:
        """How much other adapters report of their entries, in words; empty where all are native."""
        return "; ".join(f"{name}: {adapter.outcome_evidence}" for name, adapter in self.adapters.items())

    @property
    def unseen(self) -> str:
        """The adapters that report no outcomes."""
        return ", ".join(name for name, adapter in self.adapters.items() if not adapter.outcome_evidence)

    @property
    def patience_s(self) -> float:
        """How long it may take until the first jobs have ended."""
        return max([60.0, *(adapter.patience_s for adapter in self.adapters.values())])

    def read(self, entries: Iterable[_Placed]) -> Program[list[str | None]]:
        """Return the outcome of each; None for one that was not changed, or was restored since."""
        found: list[str | None] = []
        for part in _chunks(entries):
            found += yield from self._read(part)
        return found

    def count(self, entries: Iterable[_Placed]) -> Program[Outcomes]:
        """Return the outcomes, counted."""
        sums: Counter[str | None] = Counter()
        for part in _chunks(entries):
            sums.update((yield from self._read(part)))
        return outcomes_of(sums)

    def _read(self, part: Sequence[_Placed]) -> Program[list[str | None]]:
        entries = [entry for _, entry in part]
        adapter = self.adapters.get(entries[0].adapter)
        if adapter is not None:
            return (yield from self._of_adapter(adapter, part))
        found: list[str | None] = []
        states = yield from _read_states(entries[0].queue, [entry.id for entry in entries])
        for entry, (state, score) in zip(entries, states, strict=True):
            same = state == entry.state == "dead" and score == codec.score_seen(entry.version)
            found.append(None if same else _OUTCOME_OF.get(state, state))
        return found

    def _of_adapter(self, adapter: Adapter, part: Sequence[_Placed]) -> Program[list[str | None]]:
        done = yield from done_places(adapter.name, self.plan.batch, [place for place, _ in part])
        tried = [
            Retried(seen=Seen.parse(entry.version), since_ms=self.plan.head.created_ms)
            for (_, entry), is_kept in zip(part, done, strict=True)
            if is_kept is not None
        ]
        if not tried:
            return [None] * len(part)
        if adapter.repeats:
            repeated = yield from self._find_repeated()
            tried = [msgspec.structs.replace(one, twin=hash(adapter.likeness(one.seen)) in repeated) for one in tried]
        found = iter((yield from adapter.outcomes(tried, (yield from reads.clock()))))
        return [None if is_kept is None else next(found).value for is_kept in done]

    def _find_repeated(self) -> Program[set[int]]:
        """Return the entries that the plan has several times: which of them is dead again cannot be seen."""
        known = _repeated_of.get(self.plan.id)
        if known is not None:
            return known
        met: set[int] = set()
        repeated: set[int] = set()
        for number, entry in enumerate(self.plan.entries(), 1):
            if number % _YIELD_EVERY == 0:
                yield Pause(0)  # others on the event loop go on meanwhile
            adapter = self.adapters.get(entry.adapter)
            if adapter is not None and adapter.repeats:
                mark = hash(adapter.likeness(Seen.parse(entry.version)))
                (repeated if mark in met else met).add(mark)
        while len(_repeated_of) >= _MOST_PLANS:
            del _repeated_of[next(iter(_repeated_of))]
        _repeated_of[self.plan.id] = repeated
        return repeated


def of_plan(plan: Plan) -> Program[Outcomes]:
    """Return what happened to the jobs of a plan since it was applied."""
    return (yield from PlanOutcomes(plan).count(enumerate(plan.entries())))


def evidence_of(plan: Plan) -> str:
    """Return how much other adapters report of the entries of a plan, in words; empty where all are native."""
    return PlanOutcomes(plan).evidence


def of_sample(plan: Plan, most: int) -> Program[tuple[JobOutcome, ...]]:
    """Return what happened to each of the first jobs of a plan, in the order in which they are applied."""
    entries = list(islice(plan.entries(), most))
    outcomes = yield from PlanOutcomes(plan).read(enumerate(entries))
    dead: dict[str, list[str]] = {}
    for entry, outcome in zip(entries, outcomes, strict=True):
        if outcome == "dead_again" and entry.adapter == NATIVE:
            dead.setdefault(entry.queue, []).append(entry.id)
    errors: dict[tuple[str, str], tuple[str, str]] = {}
    for queue, ids in dead.items():
        for job_id, error in zip(ids, (yield from _read_errors(queue, ids)), strict=True):
            errors[queue, job_id] = error
    return tuple(
        JobOutcome(id=entry.id, queue=entry.queue, adapter=entry.adapter, outcome=outcome, error=error, message=message)
        for entry, outcome in zip(entries, outcomes, strict=True)
        for error, message in [errors.get((entry.queue, entry.id), ("", ""))]
    )


def of_batch(batch_id: str) -> Program[BatchOutcomes]:
    """Return what happened to the jobs of a batch, from what is kept to undo it; raises when nothing is kept."""
    known = yield from batches.read()
    batch = known.get(batch_id)
    if batch is None:
        raise UsageError(f"nothing is kept about the batch {batch_id!r}", hint="it is kept for a day")
    sums: Counter[str | None] = Counter()
    errors: Counter[str] = Counter()
    jobs = 0
    for queue in batch.queues_of(NATIVE):
        jobs += yield from _count_batch(batch, queue, sums, errors)
    if batch.adapters and batch.verb == Verb.RETRY:
        theirs, of_plan = yield from _of_adapters(batch)
        sums.update(theirs)
        jobs += of_plan
    return BatchOutcomes(
        batch=batch.id,
        verb=batch.verb,
        jobs=jobs,
        errors=MappingProxyType(dict(errors.most_common())),
        queues=tuple(batch.labels),
        undone=batch.undone,
        until_ms=batch.until_ms,
        all_kept_bytes=sum(one.bytes for one in known.values()),
        **_counts(sums),
    )


def _count_batch(batch: Batch, queue: str, sums: Counter[str | None], errors: Counter[str]) -> Program[int]:
    """Count where the jobs of one queue are; return how many are kept of it."""
    place = batch.target if batch.verb == Verb.MOVE and batch.target else queue
    slices = yield (b"HGET", keys.undo_key(queue, batch.id), b"slices")
    numbers = range(1, int(slices or 0) + 1)
    total = 0
    for at in range(0, len(numbers), _SLICES):
        for kept in (yield from programs.read_slices(queue, batch.id, numbers[at : at + _SLICES])):
            # An undo removes what it restored.
            ids = list((kept.get("c") or {}).get("ids") or []) if kept is not None else []
            total += len(ids)
            if not ids or sums.total() >= MOST:
                continue
            states = yield from _read_states(place, ids)
            sums.update(_OUTCOME_OF.get(state, state) for state, _ in states)
            dead = [job_id for job_id, (state, _) in zip(ids, states, strict=True) if state == "dead"]
            found = yield from _read_errors(place, dead[: MOST_ERRORS - errors.total()])
            errors.update(error or "unknown" for error, _ in found)
    return total


def _of_adapters(batch: Batch) -> Program[tuple[Mapping[str, int], int]]:
    """Return the outcomes of other adapters' jobs, and how many they are: known only where the plan was made."""
    try:
        plan = own_plan(batch.id)
        theirs = list(islice((one for one in enumerate(plan.entries()) if one[1].adapter != NATIVE), MOST + 1))
    except (UsageError, OSError):
        return {}, 0
    found = Counter(outcome for outcome in (yield from PlanOutcomes(plan).read(theirs[:MOST])) if outcome is not None)
    return found, found.total() + (len(theirs) > MOST)


def outcomes_of(sums: Mapping[str | None, int]) -> Outcomes:
    """Return counted outcomes as a value; those of None are left out."""
    return Outcomes(**_counts(sums))


def _counts(sums: Mapping[str | None, int]) -> dict[str, int]:
    counts = {name: count for name, count in sums.items() if name is not None}
    return counts | {"total": sum(counts.values())}


def _chunks(entries: Iterable[_Placed]) -> Iterable[list[_Placed]]:
    """Yield entries of one queue, as many as are requested at once."""
    held: list[_Placed] = []
    for one in entries:
        if held:
            first, entry = held[0][1], one[1]
            if len(held) == _CHUNK or (first.queue, first.adapter) != (entry.queue, entry.adapter):
                yield held
                held = []
        held.append(one)
    if held:
        yield held


def _read_states(queue: str, ids: Sequence[str | bytes]) -> Program[list[tuple[str, float]]]:
    """Return the state of each native job, and its score in that state; `gone` where it is in none."""
    replies = yield [(b"ZMSCORE", keys.key(queue, state), *ids) for state in _STATES]
    columns = list(replies)
    return [
        next(
            ((state, float(score)) for state, score in zip(_STATES, scores, strict=True) if score is not None),
            ("gone", 0.0),
        )
        for scores in zip(*columns, strict=True)
    ]


def _read_errors(queue: str, ids: Sequence[str | bytes]) -> Program[list[tuple[str, str]]]:
    """Return class and message of the last error of each native job."""
    if not ids:
        return []
    raws = [job_id if isinstance(job_id, bytes) else raw_of(job_id) for job_id in ids]
    [values] = yield from read_values(queue, ("error",), raws)
    found = []
    for raw in values:
        last = next((event.data for event in reversed(codec.read_events(raw)) if event.data.get("class")), {})
        found.append((str(last.get("class") or ""), mask_text(str(last.get("message") or ""))))
    return found
