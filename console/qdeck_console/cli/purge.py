"""`qdeck purge`: what the rules would take, and taking exactly that."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import counted, iso
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import (
    TextColumn,
    age,
    line,
    safe,
    table,
)
from qdeck_console.cli.plans import SHOWN, Progress, apply, show_plan

if TYPE_CHECKING:
    from qdeck.admin import Plan, PlanEntry, Reader


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
def purge(ctx: click.Context, /, *, plan_ref: str | None, now: bool, yes: bool, **asked: Any) -> None:
    """A dry run of the purge rules, by default of all of them in all queues. It writes nothing to the server.

    The plan that it makes is a file on this machine, good for an hour; --apply does exactly what it says.
    """
    if plan_ref is not None and (now or asked["rules"] or asked["changes"] or asked["queues"] or asked["path"]):
        raise click.UsageError("--apply does what the plan says: it takes no other wishes", ctx)
    if now != yes and plan_ref is None:
        raise click.UsageError(
            "--now takes --yes: it removes without showing before"
            if now
            else "--yes goes with --now; to apply a plan that was shown, --apply PLAN",
            ctx,
        )
    given = settings()
    from qdeck.admin import Verb, load_plan

    if plan_ref is not None or now:
        with given.writer() as writer:
            plan = load_plan(plan_ref) if plan_ref is not None else _build(writer, asked)
            if plan.verb is not Verb.PURGE:
                raise click.UsageError(f"the plan {plan.id} is one to {plan.verb.value}, not to purge")
            ctx.exit(apply(writer, plan, as_json=given.as_json))
    with given.reader() as reader:
        plan = _build(reader, asked)
    ctx.exit(show_plan(plan, as_json=given.as_json, show=_print_plan))


def _build(reader: Reader, asked: dict[str, Any]) -> Plan:
    from pathlib import Path

    from qdeck.admin import Limits, read_rules

    configured = settings().configuration().settings
    return reader.plan_purge(
        read_rules(asked["rules"], configured),
        Limits.of(configured, asked["changes"]),
        queues=asked["queues"],
        path=None if asked["path"] is None else Path(asked["path"]),
        reason=asked["reason"],
        progress=Progress() if sys.stderr.isatty() else None,
    )


def _print_plan(plan: Plan) -> None:
    tail = plan.tail
    line(
        f"would purge {counted(plan.count, 'entry', 'entries')}, {tail.bytes:,} bytes; {tail.scanned:,} were looked at"
    )
    if not plan.count:
        return
    line()
    table([TextColumn("rule"), TextColumn("entries", right=True)], ([rule, f"{n:,}"] for rule, n in tail.rules.items()))
    line()
    columns = [
        TextColumn("queue", most=60),
        TextColumn("id", most=40),
        TextColumn("verb"),
        TextColumn("age", right=True),
    ]
    table(
        [*columns, TextColumn("reason", most=200)],
        ([plan.label(entry.ref), *_cells(entry)] for entry in islice(plan.entries(), SHOWN)),
    )
    if plan.count > SHOWN:
        line(f"and {plan.count - SHOWN:,} more (--json has all of them)")
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
