"""Stuck jobs and what is done about them, and `qdeck job`, which shows one job or edits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qdeck_console import documents
from qdeck_console.cli.base import Command, VerbGroup, command, settings
from qdeck_console.cli.look import show_job
from qdeck_console.cli.operate import (
    act,
    act_options,
    check_filter,
    plain_queue,
    priority_option,
    show_batch,
    state_option,
    where_option,
)
from qdeck_console.cli.output import Column, JsonList, age, note, note_unread, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Reader, StuckJob


@command("stuck", short_help="What is stuck, and why.")
@click.argument("queue", required=False)
@where_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
@click.pass_context
def stuck(ctx: click.Context, queue: str | None, where: str, limit: int | None) -> None:
    """Running jobs whose lease is over or whose time limit is, and jobs whose task no worker knows, each with why and
    whether its worker lives.

    What to do about them: qdeck requeue QUEUE, or qdeck bury QUEUE. The exit code is 1 when there are some,
    or when a queue cannot be read.
    """

    given = settings()
    check_filter(where)
    with given.reader() as reader:
        unread: list[str] = []
        most = None if limit is None else limit + 1
        found = reader.stuck(plain_queue(queue), where=where, limit=most, unread=unread)
    left_out = note_unread(unread)
    more = limit is not None and len(found) > limit
    found = found[:limit]
    if given.as_json:
        with JsonList() as out:
            for job in found:
                out.add(documents.stuck(job))
    elif not table(_COLUMNS, (_cells(job, reader) for job in found)) and not unread:
        note("qdeck: nothing is stuck")
    if more:
        note(f"qdeck: there are more than these {limit:,} (--limit)")
    ctx.exit(1 if found else left_out)


_COLUMNS = (
    Column("queue", most=60),
    Column("id", most=40),
    Column("why"),
    Column("for", right=True),
    Column("worker", most=40),
    Column("alive"),
    Column("task", most=40),
)


def _cells(job: StuckJob, reader: Reader) -> list[str]:
    alive = "?" if job.worker_alive is None else "yes" if job.worker_alive else "no"
    label = reader.label(job.ref)
    return [label, job.id, str(job.why), age(job.stuck_s), job.worker or "", alive, job.task or "-"]


@command("requeue", short_help="Puts running jobs back in line, fenced.")
@act_options
@click.option("--all-running", is_flag=True, help="Also running jobs that are not stuck.")
@priority_option
def requeue(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Puts the stuck jobs that match back to their old places in line; what their workers say of them is refused then.

    With --id also a running job that is not stuck can be named.
    """
    _act_on_stuck("requeue", queue, options, every=all_running)


@command("bury", short_help="Puts jobs to the dead letters.")
@act_options
@state_option
@click.option("--all-running", is_flag=True, help="Also running jobs that are not stuck.")
def bury(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Puts the stuck jobs that match to the dead letters; with --state also jobs that wait.

    Those that wait for them die with them, and their failure handlers are made.
    """
    _act_on_stuck("bury", queue, options, every=all_running or bool(options.get("states")))


def _act_on_stuck(verb: str, queue: str | None, options: dict[str, Any], *, every: bool) -> None:
    if options["plan_ref"] is None and not options["ids"] and not every:
        options["stuck"] = True
    act(verb, queue, **options)


def _edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--reason", default="", metavar="TEXT", help="Why, for the record."),
        click.option("--payload", type=click.File("rb"), metavar="FILE", help="The new payload, - for stdin."),
        click.argument("job_id", metavar="ID"),
        click.argument("queue"),
    ):
        function = option(function)
    return function


def edit(queue: str, job_id: str, payload: Any, reason: str) -> None:
    """Gives a job another payload, and lets it run again if it was dead.

    Secrets are masked, and stay what they were.
    """
    given = settings()
    ctx = click.get_current_context()
    with given.writer() as writer:
        draft = writer.draft(plain_queue(queue)[0], job_id)
        if payload is not None:
            text: str | bytes | None = payload.read()
        else:
            text = click.edit(draft.text(), extension=".json")
        if text is None:
            note("qdeck: nothing was changed")
            ctx.exit(0)
        ctx.exit(show_batch(writer.edit(draft, text, reason), as_json=given.as_json))


def edit_command(name: str) -> Command:
    """A command that edits one job."""
    return click.command(name, cls=Command, short_help="Edits a payload, and retries.")(_edit_options(edit))


job = VerbGroup("job", default="show", help="All about one job; or edits it: qdeck job edit QUEUE ID.")
job.add_command(show_job)
job.add_command(edit_command("edit"))
