"""`qdeck enqueue`: create a job of a task given by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console.cli.base import command, read_priority, settings, suggesting
from qdeck_console.cli.operate import adapter_elsewhere
from qdeck_console.cli.output import line, note, safe, write_json

if TYPE_CHECKING:
    from qdeck.admin import Writer


@command(
    "enqueue",
    examples=(
        "qdeck enqueue shop:mail:actions send_mail --args '[42]'",
        "qdeck enqueue shop:mail:actions send_mail --delay 60 --priority HIGH",
    ),
)
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue to add the job to.")
@click.argument("task", help="Name of the task.")
@click.option("--args", "args_json", metavar="JSON", help="Arguments: a JSON list. Default: [].")
@click.option("--kwargs", "kwargs_json", metavar="JSON", help="Named arguments: a JSON object. Default: {}.")
@click.option(
    "--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW. Default: NORMAL (100)."
)
@click.option("--delay", type=float, metavar="S", help="Run after this many seconds. Default: now.")
@click.option("--at", metavar="TIME", help="Run at this time, ISO 8601; UTC unless it has an offset.")
@click.option("--name", metavar="N", help="Name of the job, for people and for --unique.")
@click.option("--unique", is_flag=True, help="Create the job only if no pending job has its name.")
@click.option("--after", multiple=True, metavar="ID", help="Run after this job (ID or ID@QUEUE); repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of the job; repeatable.")
@click.option("--retries", type=int, metavar="N", help="Attempts after the first one fails.")
def enqueue(
    queue: str,
    task: str,
    args_json: str | None,
    kwargs_json: str | None,
    priority: str | None,
    at: str | None,
    **options: Any,
) -> None:
    """Create a job.

    TASK is not checked: whether a worker has it shows when the job runs.
    """
    given = settings()
    args = read_json("--args", args_json, list, "a list, such as '[42]'")
    kwargs = read_json("--kwargs", kwargs_json, dict, "an object, such as '{\"user\": 42}'")
    with given.writer() as writer:
        is_new = not _exists(writer, queue)
        if is_new:
            _need_native(writer, queue)
        made = writer.enqueue(
            queue,
            task,
            args or (),
            kwargs,
            priority=100 if priority is None else read_priority(priority),
            at=_read_time(at),
            logs=True,
            **options,
        )
    if is_new:
        note(f"qdeck: the queue {safe(queue)} is new")
    if given.as_json:
        write_json({"id": made.id, "created": made.created})
        return
    line(safe(made.id))
    if not made.created:
        note("qdeck: no job created: a pending job has this name")


def _exists(writer: Writer, queue: str) -> bool:
    from qdeck import UsageError
    from qdeck.admin import NATIVE, QueueRef

    try:
        writer.resolve(QueueRef(NATIVE, queue.removeprefix(f"{NATIVE}/")))
    except UsageError:
        return False
    return True


def _need_native(writer: Writer, queue: str) -> None:
    """Raise for the name of a queue, or of a key, of another system: its services would never see the job."""
    from qdeck import UsageError
    from qdeck.admin import NATIVE

    if not queue.startswith(f"{NATIVE}/") and (adapter := adapter_elsewhere(writer, queue)):
        raise UsageError(
            f"{queue!r} is a queue of the adapter {adapter}: enqueue makes native jobs only",
            hint=f"Its own producers enqueue there. For a native queue write {NATIVE}/NAME.",
        )


_JSON_TYPES: Final[dict[type, str]] = {
    list: "a list", dict: "an object", str: "a string", int: "a number", float: "a number", bool: "a boolean",
    type(None): "null",
}  # fmt: skip


def read_json(option: str, text: str | None, kind: type, example: str) -> Any:
    """Return a value given as JSON, of this type; None where none was given."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not valid JSON: {error}. Give {example}.") from error
    if not isinstance(value, kind):
        raise click.UsageError(f"{option} is {_JSON_TYPES[type(value)]}. Give {example}.")
    return value


def _read_time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--at {text!r} is not a time. Give one such as 2030-01-31T08:00:00Z.") from error
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
