"""`qdeck queues`: lists the queues, pauses and resumes them."""

from __future__ import annotations

import click

from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings
from qdeck_console.cli.output import line, note_once, safe, write_json
from qdeck_console.cli.status import queue_table

queues = VerbGroup("queues", default="list", help="Lists the queues, pauses and resumes them.")


@queues.command("list", cls=CliCommand, short_help="Lists the queues.")
def list_queues() -> None:
    """Lists the queues, without a verdict: that is qdeck status."""
    given = settings()
    with given.reader() as reader:
        seen = reader.snapshot()
    for notice in seen.notices:
        note_once(f"qdeck: {notice}")
    if given.as_json:
        write_json([documents.queue(row) for row in seen.queues])
    elif not queue_table(seen):
        line("no queues")


@queues.command("pause", cls=CliCommand, short_help="Lets nothing more start from a queue.")
@click.argument("queue")
def pause(queue: str) -> None:
    """Lets nothing more start from a queue until it is resumed; what runs goes on, and jobs can still be made."""
    _set(queue, paused=True)


@queues.command("resume", cls=CliCommand, short_help="Lets a paused queue go on.")
@click.argument("queue")
def resume(queue: str) -> None:
    """Lets a paused queue go on."""
    _set(queue, paused=False)


def _set(queue: str, *, paused: bool) -> None:
    given = settings()
    with given.writer() as writer:
        left = writer.pause(queue) if paused else writer.resume(queue)
    if given.as_json:
        write_json({"adapter": left.adapter, "queue": left.queue, "paused": left.paused, "changed": left.changed})
        return
    word = "paused" if paused else "not paused"
    line(f"{safe(queue)} is {word if left.changed else f'{word} already'}")
