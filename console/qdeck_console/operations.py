"""The operations of the console: plans for chosen jobs or for all that match, and words about them.

Whatever it does goes through a plan, a batch and its undo, like every other operation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck.admin import PRIORITY_NAMES, JobRecord, Skip, Verb, actor
from qdeck_console.format import clock, counted, path, span
from qdeck_console.presenters.line_parts import Naming, name_parts, naming_of
from qdeck_console.text import cut_id, safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qdeck.admin import AsyncReader, Batch, BatchResult, Plan, QueueRef, Snapshot, UndoResult

DONE: Final = {
    Verb.RETRY: "retried",
    Verb.DISCARD: "discarded",
    Verb.CANCEL: "cancelled",
    Verb.RUN: "made ready",
    Verb.REPRIORITISE: "reprioritised",
    Verb.REQUEUE: "requeued",
    Verb.BURY: "buried",
    Verb.MOVE: "moved",
    Verb.EDIT: "edited",
    Verb.COMPLETE: "completed",
    Verb.PURGE: "purged",
}


_LEAST_ID: Final = 12  # cells of a batch id that is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """A verb on the jobs that were shown, or on all jobs of some queues that match a filter."""

    verb: Verb
    jobs: tuple[JobRecord, ...] = ()
    queues: tuple[QueueRef, ...] = ()
    where: str = ""
    states: tuple[str, ...] = ()
    stuck: bool = False
    priority: int | None = None
    target: str | None = None
    reason: str = ""
    matched: int | None = None  # how many jobs the screen counted, of all that match

    @property
    def is_bulk(self) -> bool:
        """Whether it is for all jobs that match, not for chosen ones."""
        return not self.jobs


async def make_plan(
    reader: AsyncReader,
    request: OperationRequest,
    *,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> tuple[Plan, list[Skip]]:
    """Return the plan of a request, and the jobs that changed since they were shown, with the reason."""
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
    """Return whether to ask first: unless it is one job, undo restores it, and nothing else happens because of it."""
    totals = plan.tail.totals
    reaches_others = plan.verb in (Verb.CANCEL, Verb.BURY, Verb.DISCARD) and bool(
        totals.dependents or totals.failure_handlers
    )
    stops = plan.verb is Verb.CANCEL and totals.running > 0
    is_kept = plan.tail.undoable is None and not plan.tail.cautions
    return plan.count > 1 or reaches_others or stops or not is_kept or plan.verb is Verb.PURGE


def left_out_of(plan: Plan, request: OperationRequest, skips: Iterable[Skip], *, otherwise: str) -> Counter[str]:
    """Return how many of the jobs that were asked for are not in a plan, by the reason; `otherwise` is that of jobs
    that were counted and of which the plan says nothing.
    """
    found = Counter(skip.why for skip in (*skips, *plan.tail.skipped))
    silent = 0 if request.matched is None else request.matched - plan.count - found.total()
    return found + Counter({otherwise: max(0, silent)})


def aim(plan: Plan, *, naming: Naming) -> str:
    """To what jobs are changed, in words behind what is done; empty where the verb says it all."""
    if plan.head.target:
        return f" to {' ▸ '.join(name_parts(plan.head.target, naming=naming))}"
    if plan.head.priority is None:
        return ""
    return f" to {plan.head.priority:,} {PRIORITY_NAMES.get(plan.head.priority, '')}".rstrip()


def outcome(result: BatchResult, left_out: Iterable[Skip] = (), *, to: str = "") -> tuple[str, str, str]:
    """Return what a batch did in a few words, with role and glyph; `to` is the target of the change."""
    skipped = [*left_out, *result.skipped]
    done = DONE[result.verb]
    if result.error is not None:
        return f"{result.applied:,} {done}, then failed: {result.error}", "bad", "✗"
    if not result.applied:
        why = skipped[0].sentence if skipped else "nothing to do"
        return f"not {done}: {why}", "warn", "▲"
    words = f"{result.applied:,} {done}{to}"
    if (asked := result.cancel_requested) == result.applied:
        words = f"{asked:,} requested to stop"
    elif asked:
        words += f", {asked:,} requested to stop"
    count = max(len(skipped), result.skipped_count)
    if count:
        words += f", {count:,} skipped: {skipped[0].why}" if skipped else f", {count:,} skipped"
    if result.stopped:
        words += f"; {result.stopped}"
    elif result.undoable:
        kept = result.undoable + result.cancel_requested == result.applied
        words += " · u undoes it" if kept else f" · {result.undoable:,} of them can be undone (u)"
    return words, "warn" if count or result.stopped else "ok", "▲" if count or result.stopped else "✓"


def undo_question(found: Batch, name: str, cells: int, snapshot: Snapshot | None) -> str:
    """Return what `u` would undo, in one line of at most `cells` cells: what, where, when, by whom, and the batch."""
    now_ms, naming = found.last_ms if snapshot is None else snapshot.at_ms, naming_of(snapshot)
    age = span(max(0, now_ms - found.last_ms))
    parts = name_parts(found.labels[0], naming=naming) if len(found.labels) == 1 else [f"{len(found.labels):,} queues"]
    for head, is_short in (("press u again to undo: ", False), ("u again undoes ", True)):
        when = f"{age} ago by {_who(found.by, bare=is_short)}, "
        fixed = f"{head}{name}, {when}"
        room = cells - len(fixed) - len(" in ") - len(found.id)
        if room >= len(" ▸ ".join(parts)):
            break
    else:
        room += len(found.id) - _LEAST_ID
    where = "".join(text for text, _ in path(parts, max(_LEAST_ID, room), "text")) if found.labels else ""
    words = f"{head}{name}{' in ' * bool(where)}{where}, {when}"
    return words + cut_id(found.id, max(_LEAST_ID, cells - len(words)))


def already_undone(found: Batch, name: str) -> str:
    """Return that a batch was undone, by whom and when."""
    by = "" if found.undo is None else f", by {_who(found.undo.by, bare=True)} at {clock(found.undo.at_ms)}"
    return f"already undone: {name}{by}"


def _who(by: str, *, bare: bool = False) -> str:
    """Return an operator: `you`, else name and host; `bare`: the name."""
    who, _, host = by.rpartition("@")
    return "you" if by == actor() else safe_text((who or host) if bare else by, limit=40)


def undone(result: UndoResult, name: str) -> tuple[str, str, str]:
    """Return the result of an undo in a few words, with its role and glyph."""
    if result.earlier is not None:
        who, when = _who(result.earlier.by, bare=True), clock(result.earlier.at_ms)
        return f"{name} was undone by {who} at {when}; nothing was changed", "warn", "▲"
    words = (
        f"undone: {name}"
        if not result.skipped
        else f"undo of {name}: {f'{result.restored:,}' if result.restored else 'nothing'} restored"
    )
    if result.dependents:
        words += f"; also {counted(result.dependents, 'dependent')}"
    if result.requeued:
        words += f"; {result.requeued:,} that ran are ready"
    if result.error is not None:
        return f"{words}; then {result.error}", "bad", "✗"
    if result.skipped:
        whole = next((skip for skip in result.skipped if not skip.id), None)  # which stands for many
        count, why = ("the others", whole.why) if whole else (f"{len(result.skipped):,}", result.skipped[0].why)
        later = "; u restores it later" if result.left else ""
        return f"{words}; {count} skipped: {why}{later}", "warn", "▲"
    return words, "ok", "✓"
