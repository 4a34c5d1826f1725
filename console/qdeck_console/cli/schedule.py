"""`qdeck schedule`: list and change the cron schedules of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console import documents
from qdeck_console.cli.base import (
    CliCommand,
    VerbGroup,
    explicit_url,
    need_writable,
    read_priority,
    settings,
    suggesting,
)
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.enqueue import read_json
from qdeck_console.cli.output import age, line, moment, note, safe, table, worst_first, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Reader, ScheduleChange, ScheduleRow, Writer
    from qdeck_console.cli.base import CommandOptions

_NO_UNDO: Final = "this cannot be undone; qdeck activity keeps the old values"
_DONE: Final = {"made": "added", "changed": "changed", "same": "unchanged"}

schedule = VerbGroup(
    "schedule",
    help="List, add, change, pause and run schedules.",
    default="list",
    examples=("qdeck schedule", "qdeck schedule add nightly shop:mail:actions report --cron '0 3 * * *'"),
)


def _rule_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of its jobs; repeatable."),
        click.option("--retries", type=int, metavar="N", help="Attempts of its jobs after the first one fails."),
        click.option("--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW."),
        click.option("--kwargs", "kwargs_json", metavar="JSON", help="Named arguments of its jobs: a JSON object."),
        click.option("--args", "args_json", metavar="JSON", help="Arguments of its jobs: a JSON list."),
        click.option(
            "--missed",
            type=click.Choice(["skip", "once", "all"]),
            help="Runs missed while no worker or agent was up: none, one or all. Default: once.",
        ),
        click.option("--tz", metavar="ZONE", help="Time zone of the rule, such as Europe/Madrid. Default: UTC."),
    ):
        function = option(function)
    return function


@schedule.command("sync", cls=CliCommand, examples=("qdeck schedule sync shop:app",))
@click.argument("app_ref", metavar="MODULE:APP", help="The qdeck.App, such as shop:app.")
@click.option(
    "--tasks", "modules", multiple=True, metavar="MODULE", help="Import schedules from this module; repeatable."
)
def sync(app_ref: str, modules: tuple[str, ...]) -> None:
    """Register the schedules that an application declares.

    Its workers do the same when they start.
    """
    from qdeck import UsageError
    from qdeck_console.cli.worker import load

    given, url = settings(), explicit_url()
    if url:
        need_writable()
        os.environ["QDECK_URL"] = url
    app = load(app_ref, modules)
    if url and app.endpoint.url != url:
        raise UsageError(
            f"{app_ref} has its own server, {app.endpoint}, which --url does not change",
            hint="Leave the URL out of the App to use --url or the environment.",
        )
    if not url:
        need_writable(app.endpoint.url)
    done = app.sync_schedules()
    if given.as_json:
        write_json([{"name": name, "change": change} for name, change in done.items()])
    elif not table([TextColumn("schedule"), TextColumn("change")], [list(pair) for pair in done.items()]):
        note(f"qdeck: {app_ref} declares no schedules")


@schedule.command("list", cls=CliCommand, examples=("qdeck schedule", "qdeck schedule list --json"))
def list_() -> None:
    """List all schedules, with their next and last runs."""
    given = settings()
    with given.reader() as reader:
        rows = reader.schedules()
    if given.as_json:
        write_json([documents.schedule(row) for row in rows])
        return
    shown = table(_COLUMNS, map(_cells, worst_first(rows, _rank)))
    for row in rows:
        if row.problem:
            note(f"qdeck: schedule {row.name!r}: {row.problem}")
        elif row.late_s is not None:
            note(f"qdeck: schedule {row.name!r} is {age(row.late_s)} late. Check that a worker or an agent is running.")
    if not shown:
        note("qdeck: no schedules")


@schedule.command(
    "add",
    cls=CliCommand,
    examples=("qdeck schedule add nightly shop:mail:actions report --cron '0 3 * * *' --tz Europe/Madrid",),
)
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue of its jobs.")
@click.argument("task", help="Task of its jobs.")
@click.option("--cron", required=True, metavar="RULE", help="Cron rule of five fields, such as '*/30 * * * *'.")
@_rule_options
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def add(ctx: click.Context, /, name: str, queue: str, task: str, yes: bool, **options: Any) -> None:
    """Add a schedule, or replace the one of this name.

    Each run makes a job of TASK in QUEUE. Asks before it replaces another schedule.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, confirmed

    given = settings()
    with given.writer() as writer:

        def store(*, replaces: bool) -> ScheduleChange:
            return writer.add_schedule(
                name, queue, task, cron=options["cron"], tz=options["tz"] or "UTC", missed=options["missed"] or "once",
                replaces=replaces, **_job(options),
            )  # fmt: skip

        change = store(replaces=yes)
        if change.word == "other":
            about = f"{name}: {change.words}" if change.words else _words(_find(writer, name))
            if not confirmed("Replace it?", f"{about}; {_NO_UNDO}", yes=yes):
                _report(given, writer, name, "unchanged")
                ctx.exit(NOT_CHANGED)
            change = store(replaces=True)
        _report(given, writer, name, _DONE[change.word])


@schedule.command("edit", cls=CliCommand, examples=("qdeck schedule edit nightly --cron '30 3 * * *'",))
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.option("--cron", metavar="RULE", help="Cron rule of five fields, such as '*/30 * * * *'.")
@_rule_options
@click.option("--yes", is_flag=True, help="Change the schedule without asking.")
@click.pass_context
def edit(ctx: click.Context, /, name: str, yes: bool, **options: Any) -> None:
    """Change a schedule.

    Options that are not given stay as they are. The new rule applies from the next run on. Shows the old and the new
    values and asks, because this cannot be undone; qdeck activity keeps the old values.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, confirmed

    given = settings()
    with given.writer() as writer:
        row = _find(writer, name)
        _need_native(row, "change")
        version = row.version or None
        rule = {key: options[key] for key in ("cron", "tz", "missed")} | _job(options)
        change = writer.edit_schedule(name, **rule, version=version, dry_run=True)
        if change.word == "changed":
            if not confirmed("Change it?", f"{name}: {change.words}; {_NO_UNDO}", yes=yes):
                _report(given, writer, name, "unchanged")
                ctx.exit(NOT_CHANGED)
            change = writer.edit_schedule(name, **rule, version=version)
        _report(given, writer, name, _DONE[change.word])


@schedule.command("remove", cls=CliCommand, examples=("qdeck schedule remove nightly --yes",))
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def remove(ctx: click.Context, name: str, yes: bool) -> None:
    """Remove a schedule.

    It asks first, because this cannot be undone. Its jobs stay. If an application declares it, its workers add it
    again when they start.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, confirmed

    given = settings()
    with given.writer() as writer:
        row = _find(writer, name)
        _need_native(row, "remove")
        is_removed = not row.cron or confirmed("Remove it?", f"{_words(row)}; {_NO_UNDO}", yes=yes)
        if is_removed:
            writer.remove_schedule(name)
    if given.as_json:
        write_json({"name": name, "removed": is_removed})
    elif is_removed:
        line(f"{safe(name)} is removed")
    ctx.exit(0 if is_removed else NOT_CHANGED)


@schedule.command("pause", cls=CliCommand, examples=("qdeck schedule pause nightly",))
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the operator who resumes the schedule.")
def pause(name: str, reason: str) -> None:
    """Pause a schedule: make no jobs until it is resumed.

    It stays paused when an application declares it again.
    """
    from qdeck_console.cli.asking import pause_words

    given = settings()
    with given.writer() as writer:
        _need_native(_find(writer, name), "pause")
        changed = writer.enable_schedule(name, False, reason=reason)
        who = "" if changed else f" already {safe(pause_words(writer.schedule_pause(name)))}"
        _report(given, writer, name, f"paused{who}")


@schedule.command("resume", cls=CliCommand, examples=("qdeck schedule resume nightly",))
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def resume(ctx: click.Context, name: str, yes: bool) -> None:
    """Resume a paused schedule.

    Asks first if it was paused with a reason or by another operator. Runs that were due while it was paused are
    skipped.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, may_lift

    given = settings()
    with given.writer() as writer:
        row = _find(writer, name)
        _need_native(row, "resume")
        stands = None if row.enabled else writer.schedule_pause(name)
        if stands is not None and not may_lift("Resume it?", f"{name} was paused", stands, yes=yes):
            _report(given, writer, name, "paused")
            ctx.exit(NOT_CHANGED)
        changed = writer.enable_schedule(name, True, shown=stands)
        _report(given, writer, name, "resumed" if changed else "resumed already")


@schedule.command("run", cls=CliCommand, examples=("qdeck schedule run nightly",))
@click.argument("name", shell_complete=suggesting("schedules"), help="Name of the schedule.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def run(ctx: click.Context, name: str, yes: bool) -> None:
    """Run a schedule now.

    The next scheduled run is unchanged; of IFDB and BullMQ, the pending job runs now. Asks first if it was paused with
    a reason or by another operator.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, may_lift

    given = settings()
    with given.writer() as writer:
        row = _find(writer, name)
        stands = None if row.enabled else writer.schedule_pause(name)
        if stands is not None and not may_lift("Run it?", f"{name} was paused", stands, yes=yes):
            if given.as_json:
                write_json({**documents.schedule(_find(writer, name)), "id": None})
            ctx.exit(NOT_CHANGED)
        if row.next_id is None:
            _need_native(row, "run")
        is_due = row.adapter is not None and not _run_pending(writer, row)
        job_id = row.next_id if row.adapter is not None else writer.run_schedule(name)
        row = _find(writer, name)
    if given.as_json:
        write_json({**documents.schedule(row), "id": job_id})
    else:
        line(safe(str(job_id)))
    if is_due:
        note(f"qdeck: nothing was changed: the task of {name!r} is due, and a worker of {row.adapter} runs it next")
        ctx.exit(NOT_CHANGED)


def _job(options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments and options of the job; None for what was not given."""
    return {
        "args": read_json("--args", options["args_json"], list, "a list, such as '[42]'"),
        "kwargs": read_json("--kwargs", options["kwargs_json"], dict, "an object, such as '{\"user\": 42}'"),
        "priority": None if options["priority"] is None else read_priority(options["priority"]),
        "retries": options["retries"],
        "tags": options["tags"],
    }


def _words(row: ScheduleRow) -> str:
    return f"{row.name}: {row.cron} ({row.tz}) enqueues {row.task} to {row.queue}"


def _find(reader: Reader, name: str) -> ScheduleRow:
    from qdeck.admin import ScheduleRow

    return next((row for row in reader.schedules() if row.name == name), ScheduleRow(name=name))


def _need_native(row: ScheduleRow, verb: str) -> None:
    """Raise for a schedule of another system: its `why_fixed`, or the rule is a field of the task that runs next."""
    from qdeck import UsageError

    if row.adapter is not None and row.why_fixed:
        why = f"qdeck cannot {verb} the schedule {row.name!r} of {row.adapter}"
        raise UsageError(why, hint=f"{row.why_fixed[:1].upper()}{row.why_fixed[1:]}.")
    if row.adapter is not None:
        raise UsageError(
            f"{row.adapter} cannot {verb} a schedule: the rule of {row.name!r} is in its pending task {row.last_id}",
            hint=f"To stop it: qdeck bury {row.adapter} --where state:pending --id '{row.last_id}'. "
            "A retry starts it again.",
        )


def _run_pending(writer: Writer, row: ScheduleRow) -> bool:
    """Run the pending job of a schedule of another system now; return whether that changed anything."""
    from qdeck.admin import QueueRef

    plan = writer.plan("run", str(QueueRef(str(row.adapter), row.queue)), ids=[str(row.next_id)])
    return bool(plan.count and writer.apply(plan).applied)


def _report(given: CommandOptions, reader: Reader, name: str, word: str) -> None:
    if given.as_json:
        write_json(documents.schedule(_find(reader, name)))
        return
    line(f"{safe(name)} is {word}")


_COLUMNS = (
    TextColumn("name"),
    TextColumn("queue", drop=3),
    TextColumn("task", drop=4),
    TextColumn("cron", drop=1),
    TextColumn("tz", drop=5),
    TextColumn("next"),
    TextColumn("last", drop=2),
    TextColumn("outcome"),
    TextColumn(""),
)
_STATES = ("broken", "late", "paused", "")


def _state(row: ScheduleRow) -> str:
    """Return what is not as usual, the worst first."""
    return "broken" if row.problem else "late" if row.late_s is not None else "" if row.enabled else "paused"


def _rank(row: ScheduleRow) -> int:
    return _STATES.index(_state(row))


def _cells(row: ScheduleRow) -> list[TextCell | str]:
    state = _state(row)
    times = [moment(ms, row.tz) for ms in (row.next_ms, row.last_ms)]
    role = {"broken": "bad", "late": "warn", "paused": "warn", "": ""}[state]
    return [row.name, row.queue, row.task, row.cron, row.tz, *times, row.last_outcome or "-", TextCell(state, role)]
