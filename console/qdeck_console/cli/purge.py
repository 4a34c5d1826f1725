"""`qdeck purge`: what the rules would take, and taking exactly that."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck.admin import counted, iso
from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.operate import INTERRUPTED, batch_json, stoppable
from qdeck_console.cli.output import (
    Column,
    age,
    line,
    note,
    note_skips,
    safe,
    table,
    write_json,
    write_with_entries,
)

if TYPE_CHECKING:
    from qdeck.admin import Plan, PlanEntry, Reader, Writer

_SHOWN: Final = 20  # entries of a plan that people get to see
_TOLD_EVERY: Final = 100_000  # entries looked at between two lines of progress


@command("purge", short_help="What the purge rules would remove; --apply PLAN removes exactly that.")
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option("--rule", "rules", multiple=True, metavar="NAME", help="Only this rule; repeats.")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="A threshold for this run: max_ready_age=12h."
)
@click.option("--apply", "plan_ref", metavar="PLAN", help="Do exactly what this plan says: its id, or its file.")
@click.option("--now", is_flag=True, help="Make the plan and apply it; takes --yes.")
@click.option("--yes", is_flag=True, help="Really.")
@click.option("--plan", "path", metavar="FILE", type=click.Path(dir_okay=False), help="Where the plan goes.")
@click.option("--reason", default="", metavar="TEXT", help="Why, for the log of operations.")
@click.pass_context
def purge(ctx: click.Context, /, *, plan_ref: str | None, now: bool, yes: bool, **wish: Any) -> None:
    """A dry run of the purge rules, by default of all of them in all queues. It writes nothing to the server.

    The plan that it makes is a file on this machine, good for an hour; --apply does exactly what it says.
    """
    if plan_ref is not None and (now or wish["rules"] or wish["changes"] or wish["queues"] or wish["path"]):
        raise click.UsageError("--apply does what the plan says: it takes no other wishes", ctx)
    if now != yes and plan_ref is None:
        raise click.UsageError(
            "--now takes --yes: it removes without showing before"
            if now
            else "--yes goes with --now; to apply a plan that was shown, --apply PLAN",
            ctx,
        )
    given = settings()
    if plan_ref is not None or now:
        with given.writer() as writer:
            from qdeck.admin import load_plan

            plan = load_plan(plan_ref) if plan_ref is not None else _build(writer, wish)
            ctx.exit(_apply(writer, plan, as_json=given.as_json))
    with given.reader() as reader:
        plan = _build(reader, wish)
    if given.as_json:
        _write_plan(plan)
    else:
        _print_plan(plan)
    note_skips(plan.tail.skipped, len(plan.tail.skipped), plan.head.shared)
    ctx.exit(1 if plan.tail.skipped else 0)


def _build(reader: Reader, wish: dict[str, Any]) -> Plan:
    from pathlib import Path

    from qdeck.admin import Limits, read_rules

    configured = settings().configuration().settings
    return reader.plan_purge(
        read_rules(wish["rules"], configured),
        Limits.of(configured, wish["changes"]),
        queues=wish["queues"],
        path=None if wish["path"] is None else Path(wish["path"]),
        reason=wish["reason"],
        progress=_Progress() if sys.stderr.isatty() else None,
    )


class _Progress:
    """A line now and then about a long search."""

    def __init__(self) -> None:
        self._next = _TOLD_EVERY

    def __call__(self, scanned: int, taken: int) -> None:
        if scanned >= self._next:
            self._next = scanned + _TOLD_EVERY
            note(f"qdeck: {scanned:,} looked at, {taken:,} to go")


def _apply(writer: Writer, plan: Plan, *, as_json: bool) -> int:
    from qdeck.admin import Verb

    if plan.verb is not Verb.PURGE:
        raise click.UsageError(f"the plan {plan.id} is one to {plan.verb.value}, not to purge")
    with stoppable() as asked:
        result = writer.apply(plan, cancelled=asked)
    if as_json:
        write_json(batch_json(result))
    else:
        line(f"purged {counted(result.applied, 'entry', 'entries')}; batch {result.batch}")
        if result.undoable:
            line(f"qdeck undo {result.batch} takes {result.undoable:,} of them back until {iso(result.undo_until_ms)}")
    note_skips(result.skipped, result.skipped_count, result.shared)
    if result.error is not None:
        note(f"qdeck: ended after {result.applied:,}: {result.error}; the same command goes on from there")
        return 2
    if result.stopped is not None:
        note(f"qdeck: stopped after {result.applied:,}: {result.stopped}; --apply {plan.id} does the rest")
        return INTERRUPTED
    return 1 if result.skipped_count else 0


def _write_plan(plan: Plan) -> None:
    """One JSON document, entry by entry, so that a plan of a million takes no memory."""
    head, tail = plan.head, plan.tail
    facts = {
        "plan": plan.id,
        "file": str(plan.path),
        "created_at": iso(head.created_ms),
        "expires_at": iso(head.expires_ms),
        "rules": [used.as_json() for used in head.rules],
        "count": plan.count,
        "counts": tail.rules,
        "queues": {plan.label(queue): count for queue, count in plan.by_queue.items()},
        "states": tail.states,
        "bytes": tail.bytes,
        "totals": {
            "dependents": tail.totals.dependents,
            "unique": tail.totals.unique,
            "running": tail.totals.running,
            "failure_handlers": tail.totals.failure_handlers,
        },
        "skipped": [skip.as_json() for skip in tail.skipped],
    }
    write_with_entries(facts, map(documents.plan_entry, plan.entries()))


def _print_plan(plan: Plan) -> None:
    tail = plan.tail
    line(
        f"would purge {counted(plan.count, 'entry', 'entries')}, {tail.bytes:,} bytes; {tail.scanned:,} were looked at"
    )
    if not plan.count:
        return
    line()
    table([Column("rule"), Column("entries", right=True)], ([rule, f"{n:,}"] for rule, n in tail.rules.items()))
    line()
    columns = [Column("queue", most=60), Column("id", most=40), Column("verb"), Column("age", right=True)]
    table(
        [*columns, Column("reason", most=200)],
        ([plan.label(entry.ref), *_cells(entry)] for entry in islice(plan.entries(), _SHOWN)),
    )
    if plan.count > _SHOWN:
        line(f"and {plan.count - _SHOWN:,} more (--json has all of them)")
    totals = tail.totals
    if totals.dependents:
        line(f"{totals.dependents:,} of them have others waiting for them, which will not run then")
    if totals.failure_handlers:
        line(f"{counted(totals.failure_handlers, 'job')} of failure handlers will be made")
    line()
    line(
        f"nothing was changed; qdeck purge --apply {safe(plan.id)} does exactly this until {iso(plan.head.expires_ms)}"
    )


def _cells(entry: PlanEntry) -> list[str]:
    return [entry.id, entry.verb, age(entry.age_s), entry.reason]
