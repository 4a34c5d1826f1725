"""What all commands that act on many jobs share: their options, and the way from a plan to its batch."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console.cli.base import read_priority, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/(s|m|min|h))?")
_PER: Final = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_DEAD_LETTER: Final = ":dead_letter"

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
    from qdeck_console.cli import plans

    check_filter(where)
    given = settings()
    with given.writer() if yes or plan_ref is not None else given.reader() as client:
        if plan_ref is None:
            plan = client.plan(
                verb, plain_queue(queue), where=where, ids=ids, state=states or None, reason=reason,
                path=None if path is None else Path(path), progress=plans.Progress() if sys.stderr.isatty() else None,
                **options,
            )  # fmt: skip
        else:
            plan = load_plan(plan_ref)
            if plan.verb.value != verb:
                raise click.UsageError(f"the plan {plan.id} is one to {plan.verb.value}, not to {verb}", ctx)
        if not isinstance(client, Writer):
            ctx.exit(plans.show_plan(plan, as_json=given.as_json))
        ctx.exit(plans.apply(client, plan, rate=rate, sample=sample, as_json=given.as_json))
