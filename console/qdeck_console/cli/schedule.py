"""`qdeck schedule`: the cron rules of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import iso
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, explicit_url, need_writable, read_priority, settings
from qdeck_console.cli.enqueue import read_json
from qdeck_console.cli.output import TextColumn, age, line, note, safe, table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Reader, ScheduleRow
    from qdeck_console.cli.base import CommandOptions

schedule = VerbGroup("schedule", help="Lists, adds, changes, pauses and runs cron rules.", default="list")


def _rule_options(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--tag", "tags", multiple=True, help="A tag of its jobs; may be repeated."),
        click.option("--retries", type=int, metavar="N", help="How many more runs follow a failed one."),
        click.option("--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW."),
        click.option("--kwargs", "kwargs_json", metavar="JSON", help="Named arguments: a JSON object."),
        click.option("--args", "args_json", metavar="JSON", help="Arguments: a JSON list."),
        click.option(
            "--missed",
            type=click.Choice(["skip", "once", "all"]),
            help="What becomes of turns that nobody made in time (once).",
        ),
        click.option("--tz", metavar="ZONE", help="The time zone of the rule, such as Europe/Madrid (UTC)."),
    ):
        function = option(function)
    return function


@schedule.command("sync", cls=CliCommand, short_help="Registers the schedules that an app declares.")
@click.argument("app_ref", metavar="MODULE:APP")
@click.option("--tasks", "modules", multiple=True, metavar="MODULE", help="A module that declares them; repeats.")
def sync(app_ref: str, modules: tuple[str, ...]) -> None:
    """Registers the schedules that an app declares, as its workers do; with --url on that server."""
    from qdeck import UsageError
    from qdeck_console.cli.worker import load

    given, url = settings(), explicit_url()
    if url:
        need_writable()
        os.environ["QDECK_URL"] = url
    app = load(app_ref, modules)
    if url and app.endpoint.url != url:
        raise UsageError(
            f"{app_ref} names its own server, {app.endpoint}: --url does not change it",
            hint="leave the URL out of the App, and it takes that of the environment or --url",
        )
    if not url:
        need_writable(app.endpoint.url)
    done = app.sync_schedules()
    if given.as_json:
        write_json([{"name": name, "change": change} for name, change in done.items()])
    elif not table([TextColumn("schedule"), TextColumn("change")], [list(pair) for pair in done.items()]):
        note(f"qdeck: {app_ref} declares no schedules")


@schedule.command("list", cls=CliCommand, short_help="All schedules, with their next and last runs.")
def list_() -> None:
    """Lists all schedules: when their jobs come next, and what became of the last."""
    given = settings()
    with given.reader() as reader:
        rows = reader.schedules()
    if given.as_json:
        write_json([documents.schedule(row) for row in rows])
        return
    columns = [TextColumn(title) for title in ("name", "queue", "task", "cron", "tz", "next", "last", "outcome", "")]
    shown = table(columns, [_cells(row) for row in rows])
    for row in rows:
        if row.problem:
            note(f"qdeck: schedule {row.name!r}: {row.problem}")
        elif row.late_s is not None:
            note(f"qdeck: schedule {row.name!r} is {age(row.late_s)} late: does a worker or an agent run?")
    if not shown:
        note("qdeck: no schedules")


@schedule.command("add", cls=CliCommand, short_help="Adds a schedule, or replaces the one of that name.")
@click.argument("name")
@click.argument("queue")
@click.argument("task")
@click.option("--cron", required=True, metavar="RULE", help="Five fields, such as '*/30 * * * *'.")
@_rule_options
def add(name: str, queue: str, task: str, **options: Any) -> None:
    """Lets a job of TASK be made in QUEUE by a cron rule. A name keeps one schedule, however often it is added."""

    given = settings()
    with given.writer() as writer:
        word = writer.add_schedule(
            name, queue, task, cron=options["cron"], tz=options["tz"] or "UTC", missed=options["missed"] or "once",
            **_job(options),
        )  # fmt: skip
        _tell(given, writer, name, {"made": "added", "changed": "changed", "same": "there already"}[word])


@schedule.command("edit", cls=CliCommand, short_help="Changes a schedule; what is not given stays.")
@click.argument("name")
@click.option("--cron", metavar="RULE", help="Five fields, such as '*/30 * * * *'.")
@_rule_options
def edit(name: str, **options: Any) -> None:
    """Changes a schedule; what is not given stays. Turns from now on follow the new rule."""

    given = settings()
    with given.writer() as writer:
        writer.edit_schedule(name, cron=options["cron"], tz=options["tz"], missed=options["missed"], **_job(options))
        _tell(given, writer, name, "changed")


@schedule.command("remove", cls=CliCommand, short_help="Removes a schedule; jobs that it made stay.")
@click.argument("name")
def remove(name: str) -> None:
    """Removes a schedule. Jobs that it made stay. A program that declares it adds it again when it starts."""

    given = settings()
    with given.writer() as writer:
        writer.remove_schedule(name)
    if given.as_json:
        write_json({"name": name, "removed": True})
    else:
        line(f"{safe(name)} is removed")


@schedule.command("pause", cls=CliCommand, short_help="Makes no more jobs until it is resumed.")
@click.argument("name")
def pause(name: str) -> None:
    """Lets a schedule make no more jobs until it is resumed; also when a program declares it again."""
    _enable(name, enabled=False)


@schedule.command("resume", cls=CliCommand, short_help="Lets a paused schedule go on.")
@click.argument("name")
def resume(name: str) -> None:
    """Lets a paused schedule go on with its next turn; those of the pause are not made up for."""
    _enable(name, enabled=True)


@schedule.command("run", cls=CliCommand, short_help="Makes a job now, out of turn.")
@click.argument("name")
def run(name: str) -> None:
    """Makes a job now, out of turn. The turns of the schedule stay as they are."""

    given = settings()
    with given.writer() as writer:
        job_id = writer.run_schedule(name)
        row = _find(writer, name)
    if given.as_json:
        write_json({**documents.schedule(row), "id": job_id})
    else:
        line(safe(job_id))


def _enable(name: str, *, enabled: bool) -> None:

    given = settings()
    with given.writer() as writer:
        changed = writer.enable_schedule(name, enabled)
        word = "resumed" if enabled else "paused"
        _tell(given, writer, name, word if changed else f"{word} already")


def _job(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments and options of the job; None is what was not given."""
    return {
        "args": read_json("--args", options["args_json"], list, "a list, such as '[42]'"),
        "kwargs": read_json("--kwargs", options["kwargs_json"], dict, "an object, such as '{\"user\": 42}'"),
        "priority": None if options["priority"] is None else read_priority(options["priority"]),
        "retries": options["retries"],
        "tags": options["tags"],
    }


def _find(reader: Reader, name: str) -> ScheduleRow:
    from qdeck.admin import ScheduleRow

    return next((row for row in reader.schedules() if row.name == name), ScheduleRow(name=name))


def _tell(given: CommandOptions, reader: Reader, name: str, word: str) -> None:
    if given.as_json:
        write_json(documents.schedule(_find(reader, name)))
        return
    line(f"{safe(name)} is {word}")


def _cells(row: ScheduleRow) -> list[str]:
    state = "" if row.enabled else "paused"
    if row.problem:
        state = "broken"
    elif row.late_s is not None:
        state = "late"
    times = [(iso(ms) or "-")[:19].replace("T", " ") for ms in (row.next_ms, row.last_ms)]
    return [row.name, row.queue, row.task, row.cron, row.tz, *times, row.last_outcome or "-", state]
