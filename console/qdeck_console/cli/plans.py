"""Plans and batches as commands write them: shown, applied with progress, and what came of it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

from qdeck.admin import Feature, counted, has_feature, iso
from qdeck_console import documents
from qdeck_console.cli.output import (
    TextColumn,
    line,
    note,
    note_skips,
    safe,
    table,
    write_json,
    write_with_entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qdeck.admin import BatchResult, Outcomes, Plan, Writer

INTERRUPTED: Final = 130
_FAILED: Final = 2
SHOWN: Final = 20  # entries of a plan that people get to see
_TOLD_EVERY: Final = 100_000
_DONE: Final = {
    "cancel": "cancelled",
    "discard": "discarded",
    "run": "put in line",
    "reprioritise": "reprioritised",
    "retry": "retried",
    "requeue": "requeued",
    "bury": "buried",
    "move": "moved",
    "edit": "edited",
    "complete": "completed",
}


def apply(writer: Writer, plan: Plan, *, rate: float | None = None, sample: int | None = None, as_json: bool) -> int:
    """Apply a plan and write what came of it; return the exit code."""
    outcomes, told = None, ""
    with stoppable() as asked:
        if plan.verb.value == "retry" and (rate is not None or sample is not None):
            result, outcomes = writer.redrive(plan, rate=rate, sample=sample, cancelled=asked)
            told = writer.outcome_evidence(plan)
        else:
            result = writer.apply(plan, rate=rate, cancelled=asked)
    code = show_batch(result, as_json=as_json, outcomes=outcomes)
    if outcomes is not None and outcomes.unknown:
        note(f"qdeck: what became of {outcomes.unknown:,} is not told; {told}")
    return INTERRUPTED if result.stopped is not None and asked() and code != _FAILED else code


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM end what is being done between two steps, so that it is told and logged; a second at once."""
    asked = False

    def ask(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        with contextlib.suppress(OSError):  # not with what buffers: this may come while that writes
            os.write(2, b"qdeck: stopping; once more ends it at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Progress:
    """A line now and then about a long search."""

    def __init__(self) -> None:
        self._next = _TOLD_EVERY

    def __call__(self, scanned: int, taken: int) -> None:
        """Tells how far it is."""
        if scanned >= self._next:
            self._next = scanned + _TOLD_EVERY
            note(f"qdeck: {scanned:,} looked at, {taken:,} match")


def show_plan(plan: Plan, *, as_json: bool, show: Callable[[Plan], None] | None = None) -> int:
    """Write a plan, for people by `show`; return the exit code."""
    if as_json:
        write_with_entries(documents.plan(plan), map(documents.plan_entry, plan.entries()))
    else:
        (show or _print_plan)(plan)
    if not plan.count and show is None:
        note("qdeck: nothing matches that this can be done to")
    note_skips(plan.tail.skipped, len(plan.tail.skipped), plan.head.shared)
    return 1 if plan.tail.skipped else 0


def show_batch(result: BatchResult, *, as_json: bool, outcomes: Outcomes | None = None) -> int:
    """Write what was done; return the exit code."""
    if as_json:
        write_json(documents.batch(result, outcomes))
    else:
        _print_batch(result, outcomes)
    if not result.applied and not result.skipped_count and result.error is None and result.verb.value != "purge":
        note("qdeck: nothing matches that this can be done to")
    note_skips(result.skipped, result.skipped_count, result.shared)
    if result.stopped is not None:
        note(f"qdeck: stopped after {result.applied:,}: {result.stopped}; --apply {result.batch[2:]} does the rest")
    if result.error is not None:
        note(f"qdeck: ended after {result.applied:,}: {result.error}; --apply {result.batch[2:]} goes on from there")
        return 2
    return 1 if result.skipped_count or result.stopped is not None else 0


def _print_plan(plan: Plan) -> None:
    head, tail, totals = plan.head, plan.tail, plan.tail.totals
    states = ", ".join(f"{count:,} {state}" for state, count in tail.states.items())
    to = "" if head.priority is None else f" to {head.priority}"
    to = to if head.target is None else f" to {safe(head.target)}"
    queues = head.queues
    place = safe(plan.label(queues[0])) if len(queues) == 1 else f"{len(tail.by_queue):,} queues"
    size = f", {tail.bytes:,} bytes" if tail.bytes else ""
    line(f"would {plan.verb.value} {counted(plan.count, 'job')} of {place}{to}{size}{': ' if states else ''}{states}")
    if totals.dependents and plan.verb.value in ("cancel", "discard", "bury"):
        line(f"{totals.dependents:,} of them have others waiting for them, which will not run then")
    if totals.unique_held:
        line(f"{totals.unique_held:,} of them will be skipped: another job has their unique name by now")
    if totals.failure_handlers:
        line(f"{counted(totals.failure_handlers, 'job')} of failure handlers will be made")
    for caution in tail.cautions:
        line(f"mind: {safe(caution.text)}")
    if any(not has_feature(adapter, Feature.STATES) for adapter in plan.adapters):  # a verb does what each says
        columns = [
            TextColumn("queue", most=60),
            TextColumn("id", most=60),
            TextColumn("state"),
            TextColumn("change", most=100),
        ]
        table(columns, ([plan.label(e.ref), e.id, e.state, e.reason] for e in islice(plan.entries(), SHOWN)))
    else:
        table(
            [TextColumn("id", most=128), TextColumn("state")], ([e.id, e.state] for e in islice(plan.entries(), SHOWN))
        )
    if plan.count > SHOWN:
        line(f"and {plan.count - SHOWN:,} more (--json has all of them)")
    if plan.count:
        line(f"nothing was changed; --yes does it, and --apply {safe(plan.id)} exactly this")


def _print_batch(result: BatchResult, outcomes: Outcomes | None) -> None:
    place = f" of {safe(result.labels[0])}" if len(result.queues) == 1 else ""
    if result.verb.value == "purge":
        told = f"purged {counted(result.applied, 'entry', 'entries')}; batch {result.batch}"
    else:
        told = f"{_DONE[result.verb.value]} {counted(result.applied - result.cancel_requested, 'job')}{place}"
    line(f"{told}; {result.cancel_requested:,} are running and will be told" if result.cancel_requested else told)
    if outcomes is not None and outcomes.total:
        parts = [
            f"{count:,} {word}"
            for count, word in (
                (outcomes.done, "done"),
                (outcomes.dead_again, "dead again"),
                (outcomes.failed_again, "failed again"),
                (outcomes.waiting, "waiting"),
                (outcomes.running, "running"),
                (outcomes.cancelled, "cancelled"),
                (outcomes.gone, "gone"),
                (outcomes.unknown, "left, outcome not told"),
            )
            if count
        ]
        line(f"so far: {', '.join(parts)}")
    if result.undoable:
        rest = "" if result.undoable == result.applied else f" {result.undoable:,} of them"
        line(f"qdeck undo {safe(result.batch)} takes{rest or ' it'} back until {iso(result.undo_until_ms)}")
