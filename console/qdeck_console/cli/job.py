"""`qdeck job`: all about one job, or its payload edited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, command, settings
from qdeck_console.cli.operate import plain_queue
from qdeck_console.cli.output import (
    age,
    dumps,
    line,
    note,
    safe,
    styled,
    write_json,
)
from qdeck_console.cli.plans import show_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import JobDetail


@command("show", short_help="All about one job.")
@click.argument("queue")
@click.argument("job_id", metavar="ID")
def show_job(queue: str, job_id: str) -> None:
    """All about one job: payload, history, error, what it depends on and what depends on it, result and log."""
    given = settings()
    with given.reader() as reader:
        record = reader.job(queue, job_id)
    if given.as_json:
        write_json(documents.detail(record))
    else:
        _print_job(record)


def _print_job(record: JobDetail) -> None:
    facts = documents.detail(record)
    limits = {name: value for name, value in facts.pop("limits").items() if value is not None}
    history, error, log = facts.pop("history"), facts.pop("error"), facts.pop("log")
    facts.pop("error_class"), facts.pop("error_message")
    for name, value in (facts | {"limits": limits}).items():
        if value is None or value is False or value == [] or value == {}:
            continue
        shown = value if isinstance(value, str | int | float) and value is not True else dumps(value)
        line(f"{name.removesuffix('_s').replace('_', ' '):14} {age(value) if name == 'age_s' else safe(shown)}")
    line("history")
    for event in history:
        rest = {key: value for key, value in event.items() if key not in ("at", "kind", "traceback")}
        told = "  ".join(f"{safe(key)}={safe(value)}" for key, value in rest.items())
        line(f"  {event['at']}  {safe(event['kind']):12} {told}".rstrip())
    if error is not None:
        line(styled(f"error  {safe(error['class'])}: {safe(error['message'])}", fg="red"))
        _print_block(error["traceback"])
    if log:
        line("log")
        _print_block(log)


def _print_block(text: str | None) -> None:
    for part in (text or "").splitlines():
        line(f"  {safe(part)}")


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


def edit_command(name: str) -> CliCommand:
    """A command that edits one job."""
    return click.command(name, cls=CliCommand, short_help="Edits a payload, and retries.")(_edit_options(edit))


job = VerbGroup("job", default="show", help="All about one job; or edits it: qdeck job edit QUEUE ID.")
job.add_command(show_job)
job.add_command(edit_command("edit"))
