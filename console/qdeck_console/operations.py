"""What the console does to jobs: plans over what was seen or over all that match, and words about them.

Whatever it does goes through a plan, a batch and its undo, like every other operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck.admin import PRIORITIES, JobRecord, Skip, Verb
from qdeck_console.format import counted
from qdeck_console.presenters.parts import Naming, name_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck.admin import AsyncReader, BatchResult, Plan, QueueRef, UndoResult

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """What an operator asks for: a verb on the jobs that were seen, or on all of some queues that match."""

    verb: Verb
    jobs: tuple[JobRecord, ...] = ()
    queues: tuple[QueueRef, ...] = ()
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
    reader: AsyncReader,
    request: OperationRequest,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Plan, list[Skip]]:
    """The plan of a request. A job that is not as it was seen is not in it, and told with the reason."""
    if not request.is_bulk:
        return await reader.plan_jobs(
            request.verb, request.jobs, priority=request.priority, target=request.target, reason=request.reason
        )
    plan = await reader.plan(
        request.verb, request.queues, where=request.where, state=request.states or None, stuck=request.stuck,
        priority=request.priority, target=request.target, reason=request.reason, progress=progress, cancelled=cancelled,
    )  # fmt: skip
    return plan, []


def needs_asking(plan: Plan) -> bool:
    """Whether a plan is more than one reversible thing: many jobs, or something that undo does not take back."""
    totals = plan.tail.totals
    reaches_others = plan.verb in (Verb.CANCEL, Verb.BURY, Verb.DISCARD) and bool(
        totals.dependents or totals.failure_handlers
    )
    stops = plan.verb is Verb.CANCEL and totals.running > 0
    lost = plan.tail.has_no_undo
    return plan.count > 1 or reaches_others or stops or lost or plan.verb is Verb.PURGE


def aim(plan: Plan, *, hide: Naming) -> str:
    """To what jobs are changed, in words behind what is done; empty where the verb says it all."""
    if plan.head.target:
        return f" to {' ▸ '.join(name_parts(plan.head.target, hide=hide))}"
    if plan.head.priority is None:
        return ""
    named = {number: name for name, number in PRIORITIES.items()}
    return f" to {plan.head.priority:,} {named.get(plan.head.priority, '')}".rstrip()


def outcome(result: BatchResult, left_out: Iterable[Skip] = (), *, to: str = "") -> tuple[str, str, str]:
    """What a batch did in a few words, with the role and the glyph that fit; `to`: to what it changed jobs."""
    skipped = [*left_out, *result.skipped]
    done = DONE[result.verb]
    if result.error is not None:
        return f"{result.applied:,} {done}, then: {result.error}", "bad", "✗"
    if not result.applied:
        why = skipped[0].sentence if skipped else "nothing to do"
        return f"not {done}: {why}", "warn", "▲"
    words = f"{result.applied:,} {done}{to}"
    if (asked := result.cancel_requested) == result.applied:
        words = f"{asked:,} asked to stop"
    elif asked:
        words += f", {asked:,} asked"
    count = max(len(skipped), result.skipped_count)
    if count:
        words += f", {count:,} left alone: {skipped[0].why}" if skipped else f", {count:,} left alone"
    if result.stopped:
        words += f"; {result.stopped}"
    elif result.undoable:
        lost = result.applied - result.undoable - result.cancel_requested
        words += f" · u undoes all but {lost:,}" if lost > 0 else " · u undoes it"
    return words, "warn" if count or result.stopped else "ok", "▲" if count or result.stopped else "✓"


def undone(result: UndoResult, name: str) -> tuple[str, str, str]:
    """What taking a batch back did in a few words, with the role and the glyph that fit."""
    words = f"undone: {name}" if not result.skipped else f"{result.restored:,} went back, of {name}"
    if result.dependents:
        words += f"; {counted(result.dependents, 'job')} that waited for them too"
    if result.requeued:
        words += f"; {result.requeued:,} that ran wait in ready"
    if result.error is not None:
        return f"{words}; then {result.error}", "bad", "✗"
    if result.skipped:
        whole = next((skip for skip in result.skipped if not skip.id), None)  # which stands for many
        count, why = ("others", whole.why) if whole else (f"{len(result.skipped):,}", result.skipped[0].why)
        return f"{words}; {count} stay: {why}", "warn", "▲"
    return words, "ok", "✓"
