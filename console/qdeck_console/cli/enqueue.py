"""`qdeck enqueue`: makes a job of a task given by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import click

from qdeck_console.cli.base import command, read_priority, settings
from qdeck_console.cli.output import line, note, safe, write_json


@command("enqueue", short_help="Makes a job.")
@click.argument("queue")
@click.argument("task")
@click.option("--args", "args_json", metavar="JSON", help="Arguments: a JSON list.")
@click.option("--kwargs", "kwargs_json", metavar="JSON", help="Named arguments: a JSON object.")
@click.option("--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW.")
@click.option("--delay", type=float, metavar="S", help="Seconds to wait.")
@click.option("--at", metavar="TIME", help="When to start, ISO 8601; UTC unless it says otherwise.")
@click.option("--name", metavar="N", help="A name for people, and for --unique.")
@click.option("--unique", is_flag=True, help="Only if no pending job has this name.")
@click.option("--after", multiple=True, metavar="ID", help="Waits for this job (ID or ID@QUEUE); may be repeated.")
@click.option("--tag", "tags", multiple=True, help="A tag; may be repeated.")
@click.option("--retries", type=int, metavar="N", help="How many more runs follow a failed one.")
def enqueue(
    queue: str,
    task: str,
    args_json: str | None,
    kwargs_json: str | None,
    priority: str | None,
    at: str | None,
    **options: Any,
) -> None:
    """Makes a job of TASK in QUEUE. Whether a worker knows the task shows when one takes it."""
    given = settings()
    args = read_json("--args", args_json, list, "a list, such as '[42]'")
    kwargs = read_json("--kwargs", kwargs_json, dict, "an object, such as '{\"user\": 42}'")
    with given.writer() as writer:
        made = writer.enqueue(
            queue,
            task,
            args or (),
            kwargs,
            priority=100 if priority is None else read_priority(priority),
            at=_read_time(at),
            **options,
        )
    if given.as_json:
        write_json({"id": made.id, "created": made.created})
        return
    line(safe(made.id))
    if not made.created:
        note("qdeck: nothing was made: a pending job has this name already")


def read_json(option: str, text: str | None, kind: type, example: str) -> Any:
    """A value that was given as JSON, of the kind that is wanted; none when none was given."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is no JSON: {error}; give {example}") from error
    if not isinstance(value, kind):
        raise click.UsageError(f"{option} is {type(value).__name__}; give {example}")
    return value


def _read_time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--at is {text!r}; give a time such as 2030-01-31T08:00:00Z") from error
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
