"""What happened to jobs after an operation, as their adapters report it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from qdeck._errors import UsageError
from qdeck._model.queue_ref import InQueue
from qdeck._model.values import NATIVE
from qdeck._model.words import Verb
from qdeck._operations import batches
from qdeck._operations.model import Outcomes
from qdeck._operations.planfile import own_plan
from qdeck._redis.commands import Sleep
from qdeck.adapters.model import Outcome, Seen
from qdeck.adapters.outcomes import KeptOutcomes, PlannedEntries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from qdeck._model.values import QueueRef
    from qdeck._operations.planfile import Plan
    from qdeck._redis.commands import Program
    from qdeck.adapters.all import Adapters
    from qdeck.adapters.plans import PlanEntry

MOST: Final = 20_000  # jobs of a batch that are looked up
_MOST_PLANS: Final = 4  # plans whose repeated entries are cached: a page reads the outcomes of its plan again and again
_CHUNK: Final = 500
_YIELD_EVERY: Final = 4000  # entries of a plan that are read in one go
_repeated_of: Final[dict[str, set[int]]] = {}
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
    """What happened to the jobs of a batch, as far as it is kept. `jobs` is its size, and `total` how many of them were
    looked up: of more than a bound the first ones.

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
    """Reads the outcomes of the entries of one applied plan from the adapters that it acted on."""

    def __init__(self, plan: Plan, adapters: Adapters) -> None:
        self.plan = plan
        self.adapters = {name: adapters.instance(name) for name in plan.adapters}

    @property
    def evidence(self) -> str:
        """A sentence on the adapters that cannot report every outcome."""
        partial = (adapter for adapter in self.adapters.values() if not adapter.sees_all_outcomes)
        return "; ".join(f"{adapter.name}: {adapter.outcome_evidence}" for adapter in partial)

    @property
    def unseen(self) -> str:
        """The adapters that report no outcomes."""
        return ", ".join(name for name, adapter in self.adapters.items() if not adapter.outcome_evidence)

    @property
    def patience_s(self) -> float:
        """How long the first jobs may take to end."""
        return max([60.0, *(adapter.patience_s for adapter in self.adapters.values())])

    def read(self, entries: Iterable[_Placed]) -> Program[list[Outcome | None]]:
        """Return the outcome of each; None for one that was not changed, or was restored since."""
        found: list[Outcome | None] = []
        for part in _chunks(entries):
            found += yield from self._read(part)
        return found

    def count(self, entries: Iterable[_Placed]) -> Program[Outcomes]:
        """Return the outcomes, counted."""
        sums: Counter[Outcome | None] = Counter()
        for part in _chunks(entries):
            sums.update((yield from self._read(part)))
        return outcomes_of(sums)

    def _read(self, part: Sequence[_Placed]) -> Program[list[Outcome | None]]:
        adapter = self.adapters[part[0][1].adapter]
        repeated = (yield from self._find_repeated()) if adapter.repeats else ()
        planned = PlannedEntries(
            batch=self.plan.batch, since_ms=self.plan.head.created_ms, entries=[entry for _, entry in part],
            places=[place for place, _ in part], repeated=repeated,
        )  # fmt: skip
        return (yield from adapter.planned_outcomes(planned))

    def _find_repeated(self) -> Program[set[int]]:
        """Return hashes of the entries that occur several times in the plan."""
        known = _repeated_of.get(self.plan.id)
        if known is not None:
            return known
        met: set[int] = set()
        repeated: set[int] = set()
        for number, entry in enumerate(self.plan.entries(), 1):
            if number % _YIELD_EVERY == 0:
                yield Sleep(0)  # let other tasks on the event loop run
            adapter = self.adapters[entry.adapter]
            if adapter.repeats:
                mark = hash(adapter.identity(entry.id, Seen.parse(entry.version)))
                (repeated if mark in met else met).add(mark)
        while len(_repeated_of) >= _MOST_PLANS:
            del _repeated_of[next(iter(_repeated_of))]
        _repeated_of[self.plan.id] = repeated
        return repeated


def of_plan(plan: Plan, adapters: Adapters) -> Program[Outcomes]:
    """Return what happened to the jobs of a plan since it was applied."""
    return (yield from PlanOutcomes(plan, adapters).count(enumerate(plan.entries())))


def of_sample(plan: Plan, adapters: Adapters, most: int) -> Program[tuple[JobOutcome, ...]]:
    """Return what happened to each of the first jobs of a plan, in the order in which they are applied."""
    entries = list(islice(plan.entries(), most))
    outcomes = yield from PlanOutcomes(plan, adapters).read(enumerate(entries))
    dead: dict[QueueRef, list[str]] = {}
    for entry, outcome in zip(entries, outcomes, strict=True):
        if outcome is Outcome.DEAD:
            dead.setdefault(entry.ref, []).append(entry.id)
    errors: dict[tuple[QueueRef, str], tuple[str, str]] = {}
    for ref, ids in dead.items():
        found = yield from adapters.instance(ref.adapter).last_errors(ref.name, ids)
        errors |= {(ref, job_id): error for job_id, error in zip(ids, found, strict=True)}
    return tuple(
        JobOutcome(id=entry.id, queue=entry.queue, adapter=entry.adapter, outcome=outcome, error=error, message=message)
        for entry, outcome in zip(entries, outcomes, strict=True)
        for error, message in [errors.get((entry.ref, entry.id), ("", ""))]
    )


def of_batch(batch_id: str, adapters: Adapters) -> Program[BatchOutcomes]:
    """Return what happened to the jobs of a batch, as far as it is kept; raise when nothing is.

    Adapters that keep no outcomes with a batch report those of retried jobs where the plan was made.
    """
    known = yield from batches.read()
    batch = known.get(batch_id)
    if batch is None:
        raise UsageError(f"no outcomes are kept of the batch {batch_id!r}", hint="They are kept for a day.")
    sums: Counter[Outcome | None] = Counter()
    errors: Counter[str] = Counter()
    jobs, others = 0, set[str]()
    for name in batch.all_adapters:
        kept = yield from adapters.instance(name).kept_outcomes(batch.id, batch.queues_of(name), batch.target)
        if kept is None:
            others.add(name)
            continue
        sums.update(kept.outcomes)
        errors.update(kept.errors)
        jobs += kept.jobs
    if others and batch.verb == Verb.RETRY:
        planned = yield from _of_own_plan(batch.id, adapters, others)
        sums.update(planned.outcomes)
        jobs += planned.jobs
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


def _of_own_plan(batch: str, adapters: Adapters, names: Collection[str]) -> Program[KeptOutcomes]:
    """Return the outcomes of jobs of some adapters from the plan of a batch, if it was made on this machine."""
    found = KeptOutcomes()
    try:
        plan = own_plan(batch)
        theirs = list(islice((one for one in enumerate(plan.entries()) if one[1].adapter in names), MOST + 1))
    except (UsageError, OSError):
        return found
    outcomes = yield from PlanOutcomes(plan, adapters).read(theirs[:MOST])
    found.outcomes.update(outcome for outcome in outcomes if outcome is not None)
    found.jobs = found.outcomes.total() + (len(theirs) > MOST)
    return found


def outcomes_of(sums: Mapping[Outcome | None, int]) -> Outcomes:
    """Return counted outcomes as a value; those of None are left out."""
    return Outcomes(**_counts(sums))


def _counts(sums: Mapping[Outcome | None, int]) -> dict[str, int]:
    counts = {outcome.value: count for outcome, count in sums.items() if outcome is not None}
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
