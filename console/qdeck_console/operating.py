"""What the console does to jobs: plans over what was seen or over all that match, and words about them.

Whatever it does goes through a plan, a batch and its undo, like every other operation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from qdeck._deck.model import NATIVE, JobRecord, State
from qdeck._engine.codec import BAND, score_seen
from qdeck._filter import PRIORITIES
from qdeck._layouts.base import Seen
from qdeck._operations import api
from qdeck._operations.foreign import shown
from qdeck._operations.model import Skip, Verb
from qdeck._operations.planfile import PlanWriter
from qdeck._operations.planning import NO_UNDO
from qdeck_console.format import counted
from qdeck_console.presenters.parts import name_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from qdeck._deck.deck import Deck
    from qdeck._operations.model import BatchResult, PlanEntry, UndoResult
    from qdeck._operations.planfile import Plan

DONE: Final = {
    Verb.RETRY: "retried",
    Verb.DISCARD: "discarded",
    Verb.CANCEL: "cancelled",
    Verb.RUN: "put in line",
    Verb.REPRIORITISE: "reprioritised",
    Verb.REQUEUE: "requeued",
    Verb.BURY: "buried",
    Verb.MOVE: "moved",
    Verb.EDIT: "edited",
    Verb.COMPLETE: "completed",
    Verb.PURGE: "purged",
}
CHANGED: Final = "changed since it was seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an operator asks for: a verb on the jobs that were seen, or on all of some queues that match."""

    verb: Verb
    jobs: tuple[JobRecord, ...] = ()
    queues: tuple[str, ...] = ()
    where: str = ""
    states: tuple[str, ...] = ()
    stuck: bool = False
    priority: int | None = None
    target: str | None = None
    reason: str = ""

    @property
    def is_bulk(self) -> bool:
        """Whether it means all that match rather than jobs that were pointed at."""
        return not self.jobs


async def make_plan(
    deck: Deck,
    wish: Wish,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Plan, list[Skip]]:
    """The plan of a wish. A job that is not as it was seen is not in it, and told with the reason."""
    if wish.is_bulk:
        plan = await api.abuild_plan(
            deck, wish.verb, wish.queues, where=wish.where, state=wish.states or None, stuck=wish.stuck,
            priority=wish.priority, target=wish.target, reason=wish.reason, progress=progress, cancelled=cancelled,
        )  # fmt: skip
        return plan, []
    seen = {_place(job): job for job in wish.jobs}
    queues = sorted({job.queue for job in wish.jobs})
    ids = list(dict.fromkeys(job.id if job.layout == NATIVE else job.key for job in wish.jobs))
    plan = await api.abuild_plan(
        deck, wish.verb, queues, ids=ids, priority=wish.priority, target=wish.target, reason=wish.reason
    )
    kept, left_out = _compare(plan, seen)
    return (_only(plan, kept) if len(kept) < plan.count else plan), left_out


Place = tuple[str, str, str]


def _place(job: JobRecord) -> Place:
    """What tells a job from all others: of other layouts, ids may repeat, and what was seen of an entry tells it."""
    seen = getattr(job, "seen", None)
    return job.queue, shown(job.id), seen.mark if isinstance(seen, Seen) else ""


def _place_of(entry: PlanEntry) -> Place:
    return entry.queue, entry.id, "" if entry.layout == NATIVE else Seen.parse(entry.seen).mark


def _compare(plan: Plan, seen: dict[Place, JobRecord]) -> tuple[list[PlanEntry], list[Skip]]:
    kept, why_not = [], {(skip.queue, skip.id): skip.why for skip in plan.tail.skipped}
    met = set()
    for entry in plan.entries():
        place = _place_of(entry)
        place = place if place in seen else (entry.queue, entry.id, "")
        job = seen.get(place)
        if job is None:
            if entry.layout != NATIVE:
                why_not.setdefault((entry.queue, entry.id), CHANGED)
            continue  # the same id in another queue: not the one that was meant
        why = difference(job, entry, plan.head.created_ms)
        if why:
            why_not[entry.queue, entry.id] = why
        else:
            kept.append(entry)
            met.add(place)
    return kept, [
        Skip(id=job_id, queue=queue, why=why_not.get((queue, job_id), f"is not {job.state} any more"))
        for (queue, job_id, mark), job in seen.items()
        if (queue, job_id, mark) not in met
    ]


def difference(job: JobRecord, entry: PlanEntry, now_ms: int) -> str:
    """Why the job is not any more what was seen; empty when it is."""
    if entry.layout != NATIVE:
        return ""  # it was found by what was seen of it
    if entry.state != job.state:
        return f"is {entry.state} now"
    if job.state == State.RUNNING:
        owner = entry.seen.rpartition(":")[0]
        claimed = None if entry.age_s is None else now_ms - entry.age_s * 1000
        late = job.since_ms is not None and claimed is not None and abs(claimed - job.since_ms) > 1000
        return CHANGED if owner != (job.worker or "") or late else ""
    score = int(score_seen(entry.seen))
    before = {State.READY: job.since_ms, State.DELAYED: job.due_ms, State.BLOCKED: None}.get(
        State(job.state), job.since_ms
    )
    now = score % BAND if job.state == State.READY else score
    return CHANGED if before is not None and before != now else ""


def _only(plan: Plan, kept: Sequence[PlanEntry]) -> Plan:
    """The plan with these entries only, in the file that it had."""
    states = Counter(entry.state for entry in kept)
    tail = msgspec.structs.replace(
        plan.tail,
        states=dict(states),
        by_queue=dict(Counter(entry.queue for entry in kept)),
        bytes=sum(entry.bytes for entry in kept),
        blast=msgspec.structs.replace(plan.tail.blast, running=states[State.RUNNING]) if kept else plan.tail.blast,
        skipped=(),
    )
    with PlanWriter(plan.head, plan.path, replaces=True) as writer:
        writer.add(kept)
        return writer.finish(tail)


def needs_asking(plan: Plan) -> bool:
    """Whether a plan is more than one reversible thing: many jobs, or something that undo does not take back."""
    blast = plan.tail.blast
    reaches_others = plan.verb in (Verb.CANCEL, Verb.BURY, Verb.DISCARD) and bool(blast.dependants or blast.handlers)
    stops = plan.verb is Verb.CANCEL and blast.running > 0
    lost = NO_UNDO in plan.tail.warnings
    return plan.count > 1 or reaches_others or stops or lost or plan.verb is Verb.PURGE


def aim(plan: Plan, *, hide: str) -> str:
    """To what jobs are changed, in words behind what is done; empty where the verb says it all."""
    if plan.head.target:
        return f" to {' ▸ '.join(name_parts(plan.head.target, hide=hide))}"
    if plan.head.priority is None:
        return ""
    named = {number: name for name, number in PRIORITIES.items()}
    return f" to {plan.head.priority:,} {named.get(plan.head.priority, '')}".rstrip()


def it(why: str) -> str:
    """A reason about one job as a phrase of its own."""
    return f"it {why}" if why.startswith("is ") else why


def outcome(result: BatchResult, left_out: Iterable[Skip] = (), *, to: str = "") -> tuple[str, str, str]:
    """What a batch did in a few words, with the role and the glyph that fit; `to`: to what it changed jobs."""
    skipped = [*left_out, *result.skipped]
    done = DONE[result.verb]
    if result.error is not None:
        return f"{result.applied:,} {done}, then: {result.error}", "bad", "✗"
    if not result.applied:
        why = skipped[0].why if skipped else "nothing to do"
        return f"not {done}: {it(why)}", "warn", "▲"
    words = f"{result.applied:,} {done}{to}"
    if result.asked:
        words = (
            f"{result.asked:,} asked to stop" if result.asked == result.applied else f"{words}, {result.asked:,} asked"
        )
    count = max(len(skipped), result.skipped_count)
    if count:
        words += f", {count:,} left alone: {skipped[0].why}" if skipped else f", {count:,} left alone"
    if result.stopped:
        words += f"; {result.stopped}"
    elif result.undoable:
        lost = result.applied - result.undoable - result.asked
        words += f" · u undoes all but {lost:,}" if lost > 0 else " · u undoes it"
    return words, "warn" if count or result.stopped else "ok", "▲" if count or result.stopped else "✓"


def undone(result: UndoResult, name: str) -> tuple[str, str, str]:
    """What taking a batch back did in a few words, with the role and the glyph that fit."""
    words = f"undone: {name}" if not result.skipped else f"{result.restored:,} went back, of {name}"
    if result.dependants:
        words += f"; {counted(result.dependants, 'job')} that waited for them too"
    if result.error is not None:
        return f"{words}; then {result.error}", "bad", "✗"
    if result.skipped:
        whole = next((skip for skip in result.skipped if not skip.id), None)  # which stands for many
        count, why = ("others", whole.why) if whole else (f"{len(result.skipped):,}", result.skipped[0].why)
        return f"{words}; {count} stay: {why}", "warn", "▲"
    return words, "ok", "✓"
