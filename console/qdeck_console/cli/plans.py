"""Plans and batches as commands write them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from qdeck.admin import (
    PRIORITY_NAMES,
    Feature,
    byte_size,
    counted,
    duration,
    has_feature,
    local_time,
)
from qdeck_console import documents
from qdeck_console.cli.columns import TextColumn
from qdeck_console.cli.output import line, note, note_skips, safe, say, table, write_json, write_with_entries
from qdeck_console.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from qdeck.admin import BatchResult, Outcomes, Plan, Tally, Verb, Writer

INTERRUPTED: Final = 130
_FAILED: Final = 2
_HANG: Final = 2
SHOWN: Final = 20  # entries of a plan that are listed for people
_DONE: Final = {
    "cancel": "cancelled",
    "discard": "discarded",
    "run": "made ready",
    "reprioritise": "reprioritised",
    "retry": "retried",
    "requeue": "requeued",
    "bury": "buried",
    "move": "moved",
    "edit": "edited",
    "complete": "completed",
}


def apply(
    writer: Writer,
    plan: Plan,
    *,
    rate: float | None = None,
    sample: int | None = None,
    as_json: bool,
    nothing: str = "",
) -> int:
    """Apply a plan and write the batch; return the exit code."""
    outcomes, evidence = None, ""
    with stoppable() as asked, Progress(plan.verb.value, plan.count) as progress:

        def tell(tally: Tally) -> None:
            progress(tally.done)

        if plan.verb.value == "retry" and (rate is not None or sample is not None):
            result, outcomes = writer.redrive(plan, rate=rate, sample=sample, cancelled=asked, progress=tell)
            evidence = writer.outcome_evidence(plan)
        else:
            result = writer.apply(plan, rate=rate, cancelled=asked, progress=tell)
    code = show_batch(result, as_json=as_json, outcomes=outcomes, nothing=nothing)
    if outcomes is not None and outcomes.unknown:
        note(f"qdeck: the outcome of {counted(outcomes.unknown, 'job')} is unknown: {evidence}")
    return INTERRUPTED if result.stopped is not None and asked() and code != _FAILED else code


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C and SIGTERM end an operation between two steps, so that it is logged; twice, at once."""
    asked = False

    def ask(number: int, _frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        with contextlib.suppress(OSError):  # unbuffered: the handler can interrupt a buffered write
            os.write(2, b"qdeck: stopping after this step; press Ctrl-C again to stop at once\n")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_plan(
    plan: Plan,
    *,
    as_json: bool,
    show: Callable[[Plan], None] | None = None,
    rate: float | None = None,
    sample: int | None = None,
    nothing: str = "",
) -> int:
    """Write a plan, for people by `show`; return the exit code: 1 for an empty one with `nothing`, the reason."""
    if as_json:
        write_with_entries(documents.plan(plan), map(documents.plan_entry, plan.entries()))
    else:
        _print_plan(plan, rate) if show is None else show(plan)
        if sample is not None:
            line(f"a sample of {counted(sample, 'job')} first; the rest only if they succeed")
    if not plan.count and show is None:
        _note_nothing(plan.verb, nothing)
    note_skips(plan.tail.skipped, len(plan.tail.skipped), plan.head.shared)
    return 1 if plan.tail.skipped or (nothing and not plan.count) else 0


def _note_nothing(verb: Verb, why: str) -> None:
    note(f"qdeck: no matching job can be {_DONE[verb.value]}{f': {why}' if why else ''}")


def show_batch(result: BatchResult, *, as_json: bool, outcomes: Outcomes | None = None, nothing: str = "") -> int:
    """Write a batch; return the exit code."""
    if as_json:
        write_json(documents.batch(result, outcomes))
    else:
        _print_batch(result, outcomes)
    if not result.applied and not result.skipped_count and result.error is None and result.verb.value != "purge":
        _note_nothing(result.verb, nothing)
        if nothing:
            return 1
    note_skips(result.skipped, result.skipped_count, result.shared)
    rest = f"to apply the rest: {_command()} --apply {result.batch[2:]}"
    if result.is_undone:  # the plan would be refused
        rest = "make a new plan to do it again"
    if result.stopped is not None:
        note(f"qdeck: stopped: {result.stopped}; {rest}")
    if result.error is not None:
        note(f"qdeck: failed after {result.applied:,}: {result.error}; {rest}")
        return 2
    return 1 if result.skipped_count or result.stopped is not None else 0


def _print_plan(plan: Plan, rate: float | None) -> None:
    tail, totals = plan.tail, plan.tail.totals
    states = ", ".join(f"{count:,} {state}" for state, count in tail.states.items())
    size = f", {byte_size(tail.bytes)}" if tail.bytes else ""
    pace = "" if rate is None else f" at {_rate_text(rate)} (about {duration(1000 * plan.count / rate)})"
    line(f"would {plan.verb.value} {safe(aim(plan))}{pace}{size}{': ' if states else ''}{states}")
    if plan.verb.value == "complete" and totals.starting:
        line(safe(totals.starting_words))
    elif totals.dependents and plan.verb.value in ("cancel", "discard", "bury"):
        line(safe(f"{totals.dependents:,} {totals.dependents_words}"))
    if totals.waiting_again:
        does = "ready without it" if plan.head.ignore_dependencies else "blocked until it has succeeded"
        hint = "" if plan.head.ignore_dependencies else "; --ignore-dependencies runs them now"
        line(f"{totals.waiting_again:,} of them died with a dependency: {does}{hint}")
    if totals.unique_held:
        line(f"{totals.unique_held:,} of them will be skipped: another job has their unique name")
    if totals.failure_handlers:
        line(f"{counted(totals.failure_handlers, 'failure handler')} will be enqueued")
    write_undo_limit(plan)
    write_cautions(plan)
    if any(
        not has_feature(adapter, Feature.STATES) for adapter in plan.adapters
    ):  # what a verb does depends on the entry
        columns = [
            TextColumn("queue", most=60),
            TextColumn("id", most=None),
            TextColumn("state"),
            TextColumn("change", most=100, wraps=True),
        ]
        table(columns, ([plan.label(e.ref), e.id, e.state, e.reason] for e in islice(plan.entries(), SHOWN)))
    else:
        table(
            [TextColumn("id", most=None), TextColumn("state")], ([e.id, e.state] for e in islice(plan.entries(), SHOWN))
        )
    if plan.count > SHOWN:
        line(f"and {plan.count - SHOWN:,} more (--json lists all)")


def write_cautions(plan: Plan) -> None:
    """Write what to know before a plan is applied."""
    for caution in plan.tail.cautions:
        say((f"caution: {caution.text}", ""), hang=_HANG)


def write_undo_limit(plan: Plan) -> None:
    """Write how many of a plan's jobs can be undone, where not all can."""
    if plan.undo_limit:
        say((f"caution: {plan.undo_limit}", ""), hang=_HANG)


def note_plan(plan: Plan, *, as_json: bool, rate: float | None = None, sample: int | None = None) -> None:
    """Write how a plan that was shown is applied."""
    if plan.count and not as_json:
        line(f"nothing was changed; to apply it: {apply_command(plan, rate=rate, sample=sample)}")


def apply_command(plan: Plan, *, rate: float | None = None, sample: int | None = None) -> str:
    """Return the command that applies a plan, with the time until when it can."""
    paced = "" if rate is None else f" --rate {_rate_text(rate)}"
    sampled = "" if sample is None else f" --sample {sample}"
    return f"{_command()} --apply {safe(plan.id)}{paced}{sampled} (valid until {local_time(plan.head.expires_ms)})"


def _command() -> str:
    return click.get_current_context().command_path


def _rate_text(rate: float) -> str:
    """Return a rate as `--rate` takes it, in the smallest unit of time in which it is a whole job."""
    unit, seconds = next(((unit, s) for unit, s in (("s", 1), ("m", 60)) if rate * s >= 1), ("h", 3600))
    return f"{round(rate * seconds, 6):.6f}".rstrip("0").rstrip(".") + f"/{unit}"


def aim(plan: Plan) -> str:
    """Return what a plan changes, in words: `12 jobs from shop:mail to 50`."""
    head = plan.head
    name = PRIORITY_NAMES.get(head.priority or 0)
    to = "" if head.priority is None else f" to priority {head.priority}{f' ({name})' if name else ''}"
    to = to if head.target is None else f" to {head.target}"
    queues = head.queues if len(head.queues) == 1 else [*plan.by_queue]
    place = plan.label(queues[0]) if len(queues) == 1 else f"{len(queues):,} queues"
    return f"{counted(plan.count, 'job')} from {place}{to}"


def _print_batch(result: BatchResult, outcomes: Outcomes | None) -> None:
    place = f" from {safe(result.labels[0])}" if len(result.queues) == 1 else ""
    if result.verb.value == "purge":
        words = f"purged {counted(result.applied, 'entry', 'entries')}; batch {result.batch}"
    else:
        words = f"{_DONE[result.verb.value]} {counted(result.applied - result.cancel_requested, 'job')}{place}"
    if result.cancel_requested:
        line(f"{words}; {counted(result.cancel_requested, 'running job')} asked to stop")
    elif result.applied or result.verb.value == "purge":  # otherwise stderr says why nothing was changed
        line(words)
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
                (outcomes.gone, "no longer stored"),
                (outcomes.unknown, "with unknown outcome"),
            )
            if count
        ]
        line(f"so far: {', '.join(parts)}")
    undoable = result.undoable if outcomes is None else min(result.undoable, outcomes.left_to_undo)
    if result.undoable and outcomes is not None and outcomes.no_undo:
        line(f"nothing to undo in {safe(result.batch)}: {outcomes.no_undo}")
    elif undoable:
        what = "it" if undoable == result.applied else f"{undoable:,} of them"
        line(f"qdeck undo {safe(result.batch)} undoes {what} until {local_time(result.undo_until_ms)}")
    elif result.applied:
        line(_no_undo(result))


def _no_undo(result: BatchResult) -> str:
    """Return why nothing of a batch can be undone."""
    from qdeck.admin import MAX_UNDO_BYTES, Caution, CautionCode

    if result.verb.value == "requeue":
        return Caution(code=CautionCode.NO_UNDO).text
    if result.cancel_requested == result.applied:
        return "this cannot be undone: undo does not restart running jobs"
    return f"this cannot be undone: undo keeps {MAX_UNDO_BYTES >> 20} MiB at most"
