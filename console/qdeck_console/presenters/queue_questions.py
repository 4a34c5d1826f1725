"""What resuming something, or stopping a worker, means: the lines of the question that is asked before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck_console import format as fmt
from qdeck_console.presenters.confirm import PlanTerm, question_lines
from qdeck_console.presenters.line_parts import Naming, name_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck.admin import Pause, QueueRef, QueueRow, WorkerRow
    from qdeck_console.format import Line

_MOST_QUEUES = 6


def pause_lines(
    pause: Pause, cells: int, more: Sequence[PlanTerm] = (), *, label: str = "paused", now_ms: int
) -> list[Line]:
    """Return who paused something, when and why, and `more` about it."""
    ago = "" if pause.at_ms is None else fmt.span(max(0, now_ms - pause.at_ms))
    return question_lines([PlanTerm(label, "▲", pause.words(ago), "warn bold"), *more], cells)


def ready_term(row: QueueRow) -> PlanTerm:
    """Return what starts when a queue is resumed."""
    return PlanTerm("ready", fmt.count(row.ready), "jobs that workers claim as soon as it is resumed")


def order_lines(
    row: WorkerRow, alone: Mapping[QueueRef, int], cells: int, *, naming: Naming, stops: bool
) -> list[Line]:
    """Return what a worker runs, which queues it leaves without a worker, and how that is reverted. `alone` has those
    queues with their ready jobs.
    """
    rows = [PlanTerm("running", fmt.count(row.running), "jobs that it finishes; it claims no more")]
    if alone:
        rows.append(PlanTerm("queues", f"{len(alone):,}", "left without a worker", "bad bold"))
    else:
        rows.append(PlanTerm("queues", fmt.ZERO, "left without a worker: others serve all of them"))
    fullest = sorted(alone.items(), key=lambda one: -one[1])  # of equals in their order
    for queue, ready in fullest[:_MOST_QUEUES]:
        path = " ▸ ".join(name_parts(queue, naming=naming))
        rows.append(PlanTerm("", f"{ready:,}", f"ready in {path}", "warn bold" if ready else "text"))
    if len(alone) > _MOST_QUEUES:
        rows.append(PlanTerm("", "", f"and {len(alone) - _MOST_QUEUES:,} more queues"))
    undo = "a stopped worker has to be started again on its host" if stops else "p resumes a quiet worker"
    rows.append(PlanTerm("undo", "none" if stops else "", undo, "warn bold"))
    return question_lines(rows, cells)
