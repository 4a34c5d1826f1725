"""`qdeck schedule`: the cron rules of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from qdeck_console.cli.base import Command, VerbGroup, explicit_url, need_writable, read_priority, settings
from qdeck_console.cli.output import Column, age, iso, line, note, safe, table, write_json
from qdeck_console.cli.produce import read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._deck.deck import Deck
    from qdeck._engine.ops import NewJob
    from qdeck._schedules.model import Definition, ScheduleRow
    from qdeck_console.cli.base import Settings

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


@schedule.command("sync", cls=Command, short_help="Registers the schedules that an app declares.")
@click.argument("app_ref", metavar="MODULE:APP")
@click.option("--tasks", "modules", multiple=True, metavar="MODULE", help="A module that declares them; repeats.")
def sync(app_ref: str, modules: tuple[str, ...]) -> None:
    """Registers the schedules that an app declares, as its workers do; with --url on that server."""
    from qdeck._errors import UsageError
    from qdeck_console.cli.work import load

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
        write_json([{"schedule": name, "how": how} for name, how in done.items()])
    elif not table([Column("schedule"), Column("how")], [list(pair) for pair in done.items()]):
        note(f"qdeck: {app_ref} declares no schedules")


@schedule.command("list", cls=Command, short_help="All schedules, with their next and last runs.")
def list_() -> None:
    """Lists all schedules: when their jobs come next, and what became of the last."""
    given = settings()
    with given.deck() as deck:
        rows = _read(deck)
    if given.as_json:
        write_json([_entry(row) for row in rows])
        return
    columns = [Column(title) for title in ("name", "queue", "task", "cron", "tz", "next", "last", "outcome", "")]
    shown = table(columns, [_cells(row) for row in rows])
    for row in rows:
        if row.problem:
            note(f"qdeck: schedule {row.name!r}: {row.problem}")
        elif row.late_s is not None:
            note(f"qdeck: schedule {row.name!r} is {age(row.late_s)} late: does a worker or an agent run?")
    if not shown:
        note("qdeck: no schedules")


@schedule.command("add", cls=Command, short_help="Adds a schedule, or replaces the one of that name.")
@click.argument("name")
@click.argument("queue")
@click.argument("task")
@click.option("--cron", required=True, metavar="RULE", help="Five fields, such as '*/30 * * * *'.")
@_rule_options
def add(name: str, queue: str, task: str, **options: Any) -> None:
    """Lets a job of TASK be made in QUEUE by a cron rule. A name keeps one schedule, however often it is added."""
    from qdeck._deck.journal import noted_schedule
    from qdeck._names import QueueName
    from qdeck._schedules import store
    from qdeck._schedules.model import Definition

    given = settings()
    where = str(QueueName.parse(queue))
    made = Definition.of(
        name,
        where,
        _job(where, task, options),
        cron=options["cron"],
        tz=options["tz"] or "UTC",
        missed=options["missed"] or "once",
    )
    with given.deck() as deck:
        word = deck.write(noted_schedule(store.register(made), "add", name))
        _tell(given, deck, name, {"made": "added", "changed": "changed", "same": "there already"}[word])


@schedule.command("edit", cls=Command, short_help="Changes a schedule; what is not given stays.")
@click.argument("name")
@click.option("--cron", metavar="RULE", help="Five fields, such as '*/30 * * * *'.")
@_rule_options
def edit(name: str, **options: Any) -> None:
    """Changes a schedule; what is not given stays. Turns from now on follow the new rule."""
    from qdeck._deck.journal import noted_schedule
    from qdeck._schedules import store

    given = settings()
    with given.deck() as deck:
        job = None
        if any(options[key] not in (None, ()) for key in ("args_json", "kwargs_json", "priority", "retries", "tags")):
            job = _changed_job(deck.look(store.get(name)), options)
        changed = store.edit(name, cron=options["cron"], tz=options["tz"], missed=options["missed"], job=job)
        deck.write(noted_schedule(changed, "edit", name))
        _tell(given, deck, name, "changed")


@schedule.command("remove", cls=Command, short_help="Removes a schedule; jobs that it made stay.")
@click.argument("name")
def remove(name: str) -> None:
    """Removes a schedule. Jobs that it made stay. A program that declares it adds it again when it starts."""
    from qdeck._deck.journal import noted_schedule
    from qdeck._schedules import store

    given = settings()
    with given.deck() as deck:
        deck.write(noted_schedule(store.remove(name), "remove", name))
    if given.as_json:
        write_json({"name": name, "removed": True})
    else:
        line(f"{safe(name)} is removed")


@schedule.command("pause", cls=Command, short_help="Makes no more jobs until it is resumed.")
@click.argument("name")
def pause(name: str) -> None:
    """Lets a schedule make no more jobs until it is resumed; also when a program declares it again."""
    _enable(name, enabled=False)


@schedule.command("resume", cls=Command, short_help="Lets a paused schedule go on.")
@click.argument("name")
def resume(name: str) -> None:
    """Lets a paused schedule go on with its next turn; those of the pause are not made up for."""
    _enable(name, enabled=True)


@schedule.command("run", cls=Command, short_help="Makes a job now, out of turn.")
@click.argument("name")
def run(name: str) -> None:
    """Makes a job now, out of turn. The turns of the schedule stay as they are."""
    from qdeck._deck.journal import noted_schedule
    from qdeck._schedules import store

    given = settings()
    with given.deck() as deck:
        job_id = deck.write(noted_schedule(store.run(name), "run", name))
        row = _find(deck, name)
    if given.as_json:
        write_json({**_entry(row), "id": job_id})
    else:
        line(safe(job_id))


def _enable(name: str, *, enabled: bool) -> None:
    from qdeck._deck.journal import noted_schedule
    from qdeck._schedules import store

    given = settings()
    with given.deck() as deck:
        verb = "resume" if enabled else "pause"
        changed = deck.write(noted_schedule(store.enable(name, enabled), verb, name))
        word = "resumed" if enabled else "paused"
        _tell(given, deck, name, word if changed else f"{word} already")


def _job(queue: str, task: str, options: dict[str, Any]) -> NewJob:
    from qdeck._deck.produce import new_job

    return new_job(
        queue,
        task,
        read_json("--args", options["args_json"], list, "a list, such as '[42]'") or (),
        read_json("--kwargs", options["kwargs_json"], dict, "an object, such as '{\"user\": 42}'"),
        priority=100 if options["priority"] is None else read_priority(options["priority"]),
        retries=options["retries"],
        tags=options["tags"],
    )


def _changed_job(old: Definition, options: dict[str, Any]) -> NewJob:
    """The job of a schedule with other arguments or options; what its program gave it stays."""
    from dataclasses import replace

    from qdeck._engine import codec

    args, kwargs = codec.decode_call(old.body)
    head = replace(codec.read_head(b"0 " + old.tail.encode()), expires_ms=None)
    fresh = _job(old.queue, old.task, options)
    new = codec.read_head(b"0 " + fresh.tail.encode())
    expires = codec.read_head(b"0 " + old.tail.encode()).expires_ms
    head = replace(
        head,
        expires_after_ms=expires,
        priority=head.priority if options["priority"] is None else new.priority,
        retries=head.retries if options["retries"] is None else new.retries,
        tags=head.tags if not options["tags"] else new.tags,
    )
    given_args = read_json("--args", options["args_json"], list, "a list, such as '[42]'")
    given_kwargs = read_json("--kwargs", options["kwargs_json"], dict, "an object, such as '{\"user\": 42}'")
    body = codec.encode_call(
        old.task, tuple(args if given_args is None else given_args), kwargs if given_kwargs is None else given_kwargs
    )
    return fresh._replace(priority=head.priority, tail=head.tail(), body=body, unique=old.unique)


def _read(deck: Deck) -> list[ScheduleRow]:
    from qdeck._schedules import store

    return deck.look(store.read())


def _find(deck: Deck, name: str) -> ScheduleRow:
    from qdeck._schedules.model import ScheduleRow

    return next((row for row in _read(deck) if row.name == name), ScheduleRow(name=name))


def _tell(given: Settings, deck: Deck, name: str, word: str) -> None:
    if given.as_json:
        write_json(_entry(_find(deck, name)))
        return
    line(f"{safe(name)} is {word}")


def _entry(row: ScheduleRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "queue": row.queue,
        "task": row.task,
        "cron": row.cron,
        "tz": row.tz,
        "next_at": iso(row.next_ms),
        "last_at": iso(row.last_ms),
        "last_outcome": row.last_outcome,
        "enabled": row.enabled,
        "missed": row.missed,
        "missed_policy": row.policy,
        "made": row.made,
        "last_id": row.last_id,
        "priority": row.priority,
        "late_s": row.late_s,
        "problem": row.problem or None,
    }


def _cells(row: ScheduleRow) -> list[str]:
    state = "" if row.enabled else "paused"
    if row.problem:
        state = "broken"
    elif row.late_s is not None:
        state = "late"
    times = [(iso(ms) or "-")[:19].replace("T", " ") for ms in (row.next_ms, row.last_ms)]
    return [row.name, row.queue, row.task, row.cron, row.tz, *times, row.last_outcome or "-", state]
