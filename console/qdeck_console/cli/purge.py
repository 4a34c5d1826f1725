"""`qdeck purge`: print what the purge rules would remove, and remove exactly that."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import byte_size, counted
from qdeck_console.cli.base import command, settings, suggesting
from qdeck_console.cli.columns import TextColumn
from qdeck_console.cli.output import age, line, safe, table
from qdeck_console.cli.plans import (
    SHOWN,
    apply,
    apply_command,
    show_plan,
    write_cautions,
    write_undo_limit,
)
from qdeck_console.cli.progress import Progress

if TYPE_CHECKING:
    from qdeck.admin import Plan, PlanEntry, Reader


@command(
    "purge", examples=("qdeck purge", "qdeck purge --rule dead_too_old --set dlq_ttl=30d", "qdeck purge --apply p-1f3b")
)
@click.argument(
    "queues",
    shell_complete=suggesting("queues"),
    nargs=-1,
    metavar="[QUEUE]...",
    help="Only these queues. Default: all queues.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="NAME",
    help="Only this rule; repeatable. Default: the rules of qdeck.toml.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Threshold for this run, such as max_ready_age=12h; repeatable.",
)
@click.option("--apply", "plan_ref", metavar="PLAN", help="Apply this plan exactly: its id or its file.")
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing, as without options.")
@click.option("--now", is_flag=True, help="Make a plan and apply it at once; needs --yes.")
@click.option("--yes", is_flag=True, help="Confirm --now.")
@click.option(
    "--plan",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the plan to this new file. Default: a file in the state directory.",
)
@click.option("--reason", default="", metavar="TEXT", help="Reason for the log of operations.")
@click.pass_context
def purge(ctx: click.Context, /, *, plan_ref: str | None, dry_run: bool, now: bool, yes: bool, **asked: Any) -> None:
    """Remove what the purge rules select.

    By default this is a dry run of all rules in all queues: it prints a plan and changes nothing. The plan is a file
    on this machine and expires after an hour. --apply PLAN applies exactly that plan.
    An entry of the plan is a job, a record that belongs to no job, or a temporary queue.
    """
    if dry_run and (plan_ref is not None or now or yes):
        raise click.UsageError("--dry-run excludes --apply, --now and --yes", ctx)
    if plan_ref is not None and (now or asked["rules"] or asked["changes"] or asked["queues"] or asked["path"]):
        raise click.UsageError("--apply applies a plan as it is; leave the other options out", ctx)
    if now != yes and plan_ref is None:
        raise click.UsageError(
            "--now removes without a dry run; add --yes to confirm"
            if now
            else "--yes goes with --now; to apply a plan give --apply PLAN",
            ctx,
        )
    given = settings()
    from qdeck.admin import Verb, load_plan

    if plan_ref is not None or now:
        with given.writer() as writer:
            plan = load_plan(plan_ref) if plan_ref is not None else _build(writer, asked)
            if plan.verb is not Verb.PURGE:
                raise click.UsageError(f"plan {plan.id} is for {plan.verb.value}, not for purge")
            ctx.exit(apply(writer, plan, as_json=given.as_json))
    with given.reader() as reader:
        plan = _build(reader, asked)
    ctx.exit(show_plan(plan, as_json=given.as_json, show=_print_plan))


def _build(reader: Reader, asked: dict[str, Any]) -> Plan:
    from pathlib import Path

    from qdeck.admin import Limits, read_rules

    configured = settings().configuration().settings
    with Progress("plan") as progress:
        return reader.plan_purge(
            read_rules(asked["rules"], configured),
            Limits.of(configured, asked["changes"]),
            queues=asked["queues"],
            path=None if asked["path"] is None else Path(asked["path"]),
            reason=asked["reason"],
            progress=progress,
        )


def _print_plan(plan: Plan) -> None:
    tail = plan.tail
    line(f"would purge {counted(plan.count, 'entry', 'entries')}, {byte_size(tail.bytes)}; {tail.scanned:,} were read")
    if not plan.count:
        return
    line()
    table([TextColumn("rule"), TextColumn("entries", right=True)], ([rule, f"{n:,}"] for rule, n in tail.rules.items()))
    line()
    table(_COLUMNS, ([plan.label(entry.ref), *_cells(entry)] for entry in islice(plan.entries(), SHOWN)))
    if plan.count > SHOWN:
        line(f"and {plan.count - SHOWN:,} more (--json lists all)")
    totals = tail.totals
    if totals.dependents:
        line(safe(f"{totals.dependents:,} {totals.dependents_words}"))
    if totals.failure_handlers:
        line(f"{counted(totals.failure_handlers, 'failure handler')} will be enqueued")
    write_cautions(plan)
    write_undo_limit(plan)
    line()
    line(f"nothing was changed; to apply it: {apply_command(plan)}")


_COLUMNS = (
    TextColumn("queue", most=60),
    TextColumn("id", most=None),
    TextColumn("verb", drop=1),
    TextColumn("age", right=True, drop=2),
    TextColumn("reason", most=200, wraps=True),
)


def _cells(entry: PlanEntry) -> list[str]:
    return [entry.id, entry.verb, age(entry.age_s), entry.reason]
