"""Options of the commands that act on many jobs, and the way from a plan to its batch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console.cli.base import read_priority, settings, suggesting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck.admin import Plan, Reader

STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
_RATE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:/(s|m|min|h))?")
_SIGNS: Final = re.compile(r'["*\\]')  # that mean something between quotes in a filter
_PER: Final = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}
_NOTHING: Final = {
    ("bury", True): "none is stuck; --state, or a filter for a state, also buries jobs that wait",
    ("bury", False): "none is in such a state",
    ("cancel", False): "none of them waits or runs",
}
"""Why a verb has nothing to do, by whether only stuck jobs are meant; then the exit code is 1."""

where_option = click.option(
    "--where", default="", metavar="FILTER", help="Only jobs that match, such as 'error:Timeout* age>2h'."
)

id_option = click.option(
    "--id", "ids", shell_complete=suggesting("jobs"), multiple=True, metavar="ID", help="Only this job; repeatable."
)


def check_filter(where: str) -> None:
    """Raise for a filter that does not parse, with the place, before any request to the server."""
    from qdeck import InvalidFilter
    from qdeck.admin import explain, parse

    try:
        parse(where)
    except InvalidFilter as error:
        raise InvalidFilter(explain(where, error), position=error.position) from error


def act_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every verb that acts on many jobs."""
    options = (
        click.argument(
            "queue",
            shell_complete=suggesting("queues"),
            required=False,
            help="Queue: its name, ADAPTER/NAME, or one of its keys.",
        ),
        where_option,
        id_option,
        click.option("--dry-run", is_flag=True, help="Print the plan and change nothing."),
        click.option("--yes", is_flag=True, help="Apply the plan without asking."),
        click.option("--apply", "plan_ref", metavar="PLAN", help="Apply this plan exactly: its id or its file."),
        click.option(
            "--plan",
            "path",
            metavar="FILE",
            type=click.Path(dir_okay=False),
            help="Write the plan to this new file. Default: a file in the state directory.",
        ),
        click.option("--reason", default="", metavar="TEXT", help="Reason for the log of operations."),
        click.option(
            "--rate", metavar="N/s", callback=_read_rate, help="Rate: 5/s (or 5), 300/m, 1000/h. Default: no limit."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def state_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of a verb that acts on jobs of several states."""
    return click.option(
        "--state", "states", multiple=True, metavar="STATE", callback=_check_states,
        shell_complete=lambda _ctx, _param, begun: [state for state in STATES if state.startswith(begun)],
        help=f"Only jobs in this state: {', '.join(STATES)}, or a state of their system; repeatable. Default: any.",
    )(function)  # fmt: skip


def _check_states(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from qdeck import InvalidFilter
    from qdeck.admin import parse

    for word in value:
        try:
            parse(f"state:{word}" if word not in STATES else "")
        except InvalidFilter as error:
            hint = "To list stuck jobs: qdeck stuck" if word == "stuck" else error.hint
            raise click.BadParameter(f"unknown state {word!r}. {hint}", ctx, param) from error
    return value


def one_job(client: Reader, queue: str, job_id: str) -> tuple[str, str]:
    """Return the queue and the id for a command about one job: the key of a system and short forms are accepted."""
    name = next(iter(client.narrowed(queue)[0]), queue)
    return name, client.full_ids(name, [job_id])[0]


def own_states(states: Sequence[str]) -> Sequence[str] | None:
    """Return the states of `--state`; none where a word of another system is among them, which `in_states` has."""
    return states if states and all(state in STATES for state in states) else None


def in_states(where: str, states: Sequence[str]) -> str:
    """Return a filter, restricted to states of which one is a word of another system."""
    if not states or own_states(states):
        return where
    return f"state:{','.join(states)}" + (f" ({where})" if where.strip() else "")


def quoted(text: str) -> str:
    """Return a text as a filter has it, whatever signs are in it."""
    return '"' + _SIGNS.sub(lambda sign: "\\" + sign[0], text) + '"'


def with_ids(where: str, ids: Sequence[str]) -> str:
    """Return a filter, restricted to jobs of these ids."""
    if not ids:
        return where
    named = "id:" + ",".join(map(quoted, ids))
    return f"{named} ({where})" if where.strip() else named


def priority_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option of a verb that the scheduler adapter does with a priority."""
    return click.option(
        "--priority",
        metavar="NAME",
        callback=lambda _ctx, _param, value: None if value is None else read_priority(value),
        help="Priority in the scheduler adapter: CRITICAL, HIGH, NORMAL, LOW. Default: NORMAL.",
    )(function)


def _read_rate(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = _RATE.fullmatch(value.strip())
    rate = 0.0 if found is None else float(found[1]) / _PER[found[2]]
    if rate <= 0:
        raise click.BadParameter(f"{value!r} is not a rate. Write 50/s, 300/m or 1000/h.", ctx, param)
    return rate


def adapter_elsewhere(client: Reader, queue: str) -> str:
    """Return the adapter of a queue, or of a key, of another system; empty for a native one and for no queue."""
    from qdeck import UsageError
    from qdeck.admin import NATIVE

    try:
        adapter = client.resolve(next(iter(client.narrowed(queue)[0]), queue)).adapter
    except UsageError:
        return ""
    return "" if adapter == NATIVE else adapter


def _need_target(client: Reader, queue: str | None, name: str) -> None:
    """Raise for a queue to move jobs to that does not exist; a queue whose jobs cannot be moved is refused later."""
    from qdeck import UsageError
    from qdeck.admin import NATIVE, QueueRef

    if queue is not None and adapter_elsewhere(client, queue):
        return
    try:
        client.resolve(QueueRef(NATIVE, name.removeprefix(f"{NATIVE}/")))
    except UsageError as error:
        if adapter := adapter_elsewhere(client, name):
            raise UsageError(
                f"{name!r} is a queue of the adapter {adapter}: jobs move to native queues only"
            ) from error
        near = f"{error.hint} " if "Did you mean" in error.hint else ""
        raise UsageError(str(error), hint=f"{near}--create creates it.") from error


def _load(ctx: click.Context, verb: str, plan_ref: str) -> Plan:
    """Return a plan that was printed before; raise for one of another verb."""
    from qdeck.admin import load_plan

    plan = load_plan(plan_ref)
    if plan.verb.value != verb:
        raise click.UsageError(f"plan {plan.id} is for {plan.verb.value}, not for {verb}", ctx)
    return plan


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
    create: bool = True,
    **options: Any,
) -> None:
    """Print the plan of a verb and ask. With `--yes` apply it; with `--apply` apply a plan that was printed before."""
    ctx = click.get_current_context()
    if dry_run and (yes or plan_ref):
        raise click.UsageError("--dry-run and --yes exclude each other", ctx)
    given_too = (queue, where, ids, states, path, reason, *(options.get(name) for name in ("target", "priority")),
                 options.get("ignore_dependencies") or None)  # fmt: skip
    if plan_ref is not None and any(value not in (None, "", ()) for value in given_too):
        raise click.UsageError("--apply applies a plan as it is; leave the other options out", ctx)
    if plan_ref is None and need_queue and queue is None:
        raise click.UsageError("Missing argument 'QUEUE'.", ctx)
    from qdeck.admin import Writer
    from qdeck_console.cli import plans

    check_filter(where)
    given = settings()
    is_told = yes or plan_ref is not None
    nothing = "" if plan_ref is not None else _NOTHING.get((verb, bool(options.get("stuck"))), "")
    with given.writer() if is_told else given.reader() as client:
        if plan_ref is None:
            if not create:
                _need_target(client, queue, options["target"])
            plan = _plan(client, verb, queue, where, ids, states, path, reason=reason, **options)
        else:
            plan = _load(ctx, verb, plan_ref)
        if isinstance(client, Writer):
            ctx.exit(plans.apply(client, plan, rate=rate, sample=sample, as_json=given.as_json, nothing=nothing))
    from qdeck_console.cli.asking import NOT_CHANGED, above_question, agrees

    with above_question(asks=not dry_run and plan.count > 0):
        code = plans.show_plan(plan, as_json=given.as_json, rate=rate, sample=sample, nothing=nothing)
    if dry_run or not plan.count:
        plans.note_plan(plan, as_json=given.as_json, rate=rate, sample=sample)
        ctx.exit(code)
    if not agrees(f"{verb.capitalize()} {plans.aim(plan)}?"):
        plans.note_plan(plan, as_json=given.as_json, rate=rate, sample=sample)
        ctx.exit(NOT_CHANGED)
    with given.writer() as writer:
        ctx.exit(plans.apply(writer, plan, rate=rate, sample=sample, as_json=given.as_json))


def _plan(
    client: Reader,
    verb: str,
    queue: str | None,
    where: str,
    ids: Sequence[str],
    states: Sequence[str],
    path: str | None,
    **options: Any,
) -> Plan:
    """Return the plan of a verb as it was typed: with names of keys, states of other systems and short ids."""
    from qdeck_console.cli.progress import Progress

    queues, where = client.narrowed(queue, in_states(where, states))
    with Progress("plan") as progress:
        return client.plan(
            verb, queues, where=where, ids=client.full_ids(queues, ids) if ids else (), state=own_states(states),
            path=None if path is None else Path(path), progress=progress, **options,
        )  # fmt: skip
