"""What all commands that act on many jobs share: their options, the plan they show, and the batch they did."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck.admin import Feature, counted, has_feature, iso
from qdeck_console import documents
from qdeck_console.cli.base import read_priority, settings
from qdeck_console.cli.output import (
    Column,
    line,
    note,
    note_skips,
    safe,
    table,
    write_json,
    write_with_entries,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from qdeck.admin import BatchResult, Outcomes, Plan, QueueRef, Writer

STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
INTERRUPTED: Final = 130
_FAILED: Final = 2
_SHOWN: Final = 20  # entries of a plan that people get to see
_TOLD_EVERY: Final = 100_000
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/(s|m|min|h))?")
_PER: Final = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_DEAD_LETTER: Final = ":dead_letter"
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

where_option = click.option("--where", default="", metavar="FILTER", help="Only what matches: 'error:Timeout* age>2h'.")


def check_filter(where: str) -> None:
    """Raises for a filter that does not parse, pointing at the place, before the server is asked."""
    from qdeck import InvalidFilter
    from qdeck.admin import explain, parse

    try:
        parse(where)
    except InvalidFilter as error:
        raise InvalidFilter(explain(where, error), position=error.position) from error


def plain_queue(name: str | None) -> tuple[str, ...]:
    """The queue that is meant: `…:actions:dead_letter` stands for the dead letters of `…:actions`; none for all."""
    return () if name is None else (name.removesuffix(_DEAD_LETTER),)


def act_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that acts on many jobs."""
    options = (
        click.argument("queue", required=False),
        where_option,
        click.option("--id", "ids", multiple=True, metavar="ID", help="This job; repeats."),
        click.option("--dry-run", is_flag=True, help="Only show what would be done; so it is without --yes."),
        click.option("--yes", is_flag=True, help="Do it."),
        click.option("--apply", "plan_ref", metavar="PLAN", help="Do exactly what this plan says: its id or file."),
        click.option("--plan", "path", metavar="FILE", type=click.Path(dir_okay=False), help="Where the plan goes."),
        click.option("--reason", default="", metavar="TEXT", help="Why, for the log of operations."),
        click.option("--rate", metavar="N/s", callback=_read_rate, help="At most so many a second."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def state_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option for a verb that acts on jobs of several states."""
    told = "Only this state; repeats."
    return click.option("--state", "states", multiple=True, type=click.Choice(STATES), help=told)(function)


def priority_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The option for verbs that some adapters do with a priority."""
    return click.option(
        "--priority",
        metavar="NAME",
        callback=lambda _ctx, _param, value: None if value is None else read_priority(value),
        help="In the adapter scheduler: CRITICAL, HIGH, NORMAL (the default), LOW.",
    )(function)


def _read_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = _RATE.fullmatch(value.strip())
    rate = 0.0 if found is None else float(found[1]) / _PER[found[2]]
    if rate <= 0:
        raise click.BadParameter(f"{value!r} is no rate: write 50/s, 300/m or 1000/h", ctx, param)
    return rate


def act(
    verb: str,
    queue: str | None,
    *,
    where: str = "",
    ids: Sequence[str] = (),
    states: Sequence[str] = (),
    dry_run: bool = False,
    yes: bool = False,
    plan_ref: str | None = None,
    path: str | None = None,
    reason: str = "",
    rate: float | None = None,
    sample: int | None = None,
    need_queue: bool = False,
    **options: Any,
) -> None:
    """Shows the plan of a verb; with `--yes` applies it, or with `--apply` the plan that was shown."""
    ctx = click.get_current_context()
    if dry_run and (yes or plan_ref):
        raise click.UsageError("--dry-run and --yes exclude each other", ctx)
    wishes = (queue, where, ids, states, path, reason, options.get("target"), options.get("priority"))
    if plan_ref is not None and any(wish not in (None, "", ()) for wish in wishes):
        raise click.UsageError("--apply does what the plan says: it takes no other wishes", ctx)
    if plan_ref is None and need_queue and queue is None:
        raise click.UsageError("Missing argument 'QUEUE'.", ctx)
    from qdeck.admin import Writer, load_plan

    check_filter(where)
    given = settings()
    with given.writer() if yes or plan_ref is not None else given.reader() as client:
        if plan_ref is None:
            plan = client.plan(
                verb, plain_queue(queue), where=where, ids=ids, state=states or None, reason=reason,
                path=None if path is None else Path(path), progress=Progress() if sys.stderr.isatty() else None,
                **options,
            )  # fmt: skip
        else:
            plan = load_plan(plan_ref)
            if plan.verb.value != verb:
                raise click.UsageError(f"the plan {plan.id} is one to {plan.verb.value}, not to {verb}", ctx)
        if not isinstance(client, Writer):
            ctx.exit(show_plan(plan, as_json=given.as_json))
        ctx.exit(_apply(client, plan, rate=rate, sample=sample, as_json=given.as_json))


def _apply(writer: Writer, plan: Plan, *, rate: float | None, sample: int | None, as_json: bool) -> int:
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


def show_plan(plan: Plan, *, as_json: bool) -> int:
    """Writes a plan; gives the exit code."""
    if as_json:
        _write_plan(plan)
    else:
        _print_plan(plan)
    if not plan.count:
        note("qdeck: nothing matches that this can be done to")
    note_skips(plan.tail.skipped, len(plan.tail.skipped), plan.head.shared)
    return 1 if plan.tail.skipped else 0


def show_batch(result: BatchResult, *, as_json: bool, outcomes: Outcomes | None = None) -> int:
    """Writes what was done; gives the exit code."""
    if as_json:
        write_json(batch_json(result, outcomes))
    else:
        _print_batch(result, outcomes)
    if not result.applied and not result.skipped_count and result.error is None:
        note("qdeck: nothing matches that this can be done to")
    note_skips(result.skipped, result.skipped_count, result.shared)
    if result.stopped is not None:
        note(f"qdeck: stopped after {result.applied:,}: {result.stopped}; --apply {result.batch[2:]} does the rest")
    if result.error is not None:
        note(f"qdeck: ended after {result.applied:,}: {result.error}; --apply {result.batch[2:]} goes on from there")
        return 2
    return 1 if result.skipped_count or result.stopped is not None else 0


def batch_json(result: BatchResult, outcomes: Outcomes | None = None) -> dict[str, Any]:
    """The JSON of a batch."""
    return {
        "batch": result.batch,
        "verb": result.verb.value,
        "adapter": _adapter_of(result.queues),
        "queue": result.queues[0].name if len(result.queues) == 1 else None,
        "queues": result.labels,
        "applied": result.applied,
        "cancel_requested": result.cancel_requested,
        "skipped": [skip.as_json() for skip in result.skipped],
        "skipped_count": result.skipped_count,
        "undo_until": iso(result.undo_until_ms),
        "undoable": result.undoable,
        "stopped": None if result.stopped is None else result.stopped.text,
        "stopped_code": None if result.stopped is None else result.stopped.code.value,
        "error": result.error,
        "outcomes": None if outcomes is None else documents.outcomes(outcomes),
    }


def _write_plan(plan: Plan) -> None:
    """One JSON document, entry by entry, so that a plan of a million takes no memory."""
    head, tail = plan.head, plan.tail
    queues = head.queues
    facts = {
        "plan": plan.id,
        "file": str(plan.path),
        "verb": plan.verb.value,
        "adapter": _adapter_of(queues),
        "queue": queues[0].name if len(queues) == 1 else None,
        "queues": {plan.label(queue): count for queue, count in plan.by_queue.items()},
        "created_at": iso(head.created_ms),
        "expires_at": iso(head.expires_ms),
        "filter": head.filter,
        "priority": head.priority,
        "target": head.target,
        "count": plan.count,
        "states": tail.states,
        "bytes": tail.bytes,
        "totals": {
            "dependents": tail.totals.dependents,
            "unique": tail.totals.unique,
            "unique_held": tail.totals.unique_held,
            "running": tail.totals.running,
            "failure_handlers": tail.totals.failure_handlers,
        },
        "skipped": [skip.as_json() for skip in tail.skipped],
        "cautions": [caution.as_json() for caution in tail.cautions],
    }
    write_with_entries(facts, map(documents.plan_entry, plan.entries()))


def _adapter_of(queues: Sequence[QueueRef]) -> str | None:
    """The adapter of all these queues; None when they are of several."""
    adapters = {queue.adapter for queue in queues}
    return adapters.pop() if len(adapters) == 1 else None if adapters else "native"


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
        columns = [Column("queue", most=60), Column("id", most=60), Column("state"), Column("change", most=100)]
        table(columns, ([plan.label(e.ref), e.id, e.state, e.reason] for e in islice(plan.entries(), _SHOWN)))
    else:
        table([Column("id", most=128), Column("state")], ([e.id, e.state] for e in islice(plan.entries(), _SHOWN)))
    if plan.count > _SHOWN:
        line(f"and {plan.count - _SHOWN:,} more (--json has all of them)")
    if plan.count:
        line(f"nothing was changed; --yes does it, and --apply {safe(plan.id)} exactly this")


def _print_batch(result: BatchResult, outcomes: Outcomes | None) -> None:
    place = f" of {safe(result.labels[0])}" if len(result.queues) == 1 else ""
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
