"""`qdeck job`: show or edit one job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import byte_size, local_time
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, command, settings, suggesting
from qdeck_console.cli.operate import one_job
from qdeck_console.cli.output import (
    age,
    dumps,
    line,
    note,
    safe,
    say,
    write_json,
)
from qdeck_console.cli.plans import show_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import JobDetail


@command("show", examples=("qdeck job shop:mail:actions 7f3a", "qdeck job shop:mail:actions 7f3a --json"))
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue: its name, ADAPTER/NAME, or one of its keys.")
@click.argument("job_id", shell_complete=suggesting("jobs"), metavar="ID", help="Id of the job.")
def show_job(queue: str, job_id: str) -> None:
    """Show one job: payload, history, error, dependencies, dependents, result and log."""
    given = settings()
    with given.reader() as reader:
        record = reader.job(*one_job(reader, queue, job_id))
    if given.as_json:
        write_json(documents.detail(record))
    else:
        _print_job(record)


def _print_job(record: JobDetail) -> None:
    facts = documents.detail(record)
    limits = {name: value for name, value in facts.pop("limits").items() if value is not None}
    history, error, log = facts.pop("history"), facts.pop("error"), facts.pop("log")
    for name in ("error_class", "error_message", "stuck_code"):
        facts.pop(name)
    if facts["native_state"] == facts["state"]:
        facts.pop("native_state")
    if (retries := limits.pop("retries", None)) is not None:
        facts["attempts"] = f"{facts['attempts'] or 0:,} of {retries + 1:,}"
    for name, value in (facts | limits).items():
        if value is None or value is False or value == [] or value == {} or (name == "outages" and not value):
            continue
        title = name.removesuffix("_s").replace("_bytes", "_size").replace("_", " ")
        line(f"{title:14} {_for_people(name, value)}")
    line("history")
    for event in history:
        rest = {key: value for key, value in event.items() if key not in ("at", "kind", "traceback")}
        fields = "  ".join(f"{safe(key)}={_for_people(key, value)}" for key, value in rest.items())
        line(f"  {_for_people('at', event['at'])}  {safe(event['kind']):12} {fields}".rstrip())
    if error is not None:
        words = ": ".join(error[part] for part in ("class", "message") if error[part])
        say((f"error  {words}", "bad"), hang=7)
        _print_block(error["traceback"])
    if log:
        line("log")
        _print_block(log)


def _for_people(name: str, value: Any) -> str:
    """Return a value of the JSON with times, ages and sizes as people read them."""
    if (name == "at" or name.endswith(("_at", "_until"))) and isinstance(value, str):
        return local_time(int(datetime.fromisoformat(value).timestamp() * 1000))
    if name.endswith("_s") and isinstance(value, int | float):
        return age(value)
    if name.endswith("_bytes") and isinstance(value, int):
        return byte_size(value)
    return safe(value if isinstance(value, str | int | float) and value is not True else dumps(value))


def _print_block(text: str | None) -> None:
    for part in (text or "").splitlines():
        line(f"  {safe(part)}")


def _edit_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--reason", default="", metavar="TEXT", help="Reason for the record of the job."),
        click.option(
            "--payload",
            type=click.File("rb"),
            metavar="FILE",
            help="File with the new payload, - for stdin. Default: open an editor.",
        ),
        click.argument("job_id", shell_complete=suggesting("jobs"), metavar="ID", help="Id of the job."),
        click.argument(
            "queue", shell_complete=suggesting("queues"), help="Queue: its name, ADAPTER/NAME, or one of its keys."
        ),
    ):
        function = option(function)
    return function


def edit(queue: str, job_id: str, payload: Any, reason: str) -> None:
    """Edit the payload of a job, and retry it if it is dead.

    Secrets are masked in the editor and keep their values.
    """
    given = settings()
    ctx = click.get_current_context()
    with given.writer() as writer:
        draft = writer.draft(*one_job(writer, queue, job_id))
        if payload is not None:
            text: str | bytes | None = payload.read()
        else:
            text = click.edit(draft.text(), extension=".json")
        if text is None:
            note("qdeck: nothing was changed")
            ctx.exit(0)
        ctx.exit(show_batch(writer.edit(draft, text, reason), as_json=given.as_json))


def edit_command(name: str, example: str) -> CliCommand:
    """Return a command that edits one job."""
    return click.command(name, cls=CliCommand, examples=(example,))(_edit_options(edit))


job = VerbGroup(
    "job",
    default="show",
    help="""Show or edit one job.

    `qdeck job QUEUE ID` is short for `qdeck job show QUEUE ID`.
    """,
    examples=("qdeck job shop:mail:actions 7f3a", "qdeck job edit shop:mail:actions 7f3a"),
)
job.add_command(show_job)
job.add_command(edit_command("edit", "qdeck job edit shop:mail:actions 7f3a --payload payload.json"))
