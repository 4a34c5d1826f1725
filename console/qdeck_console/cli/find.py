"""`qdeck find`: the queues that have a job."""

from __future__ import annotations

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import (
    TextColumn,
    note,
    note_unread,
    table,
    write_json,
)


@command("find", short_help="Where a job is.")
@click.argument("job_id", metavar="ID")
@click.pass_context
def find(ctx: click.Context, job_id: str) -> None:
    """Where a job is, in every queue. The exit code is 1 when a queue cannot be read."""
    given = settings()
    unread: list[str] = []
    with given.reader() as reader:
        places = reader.find(job_id, unread)
    if given.as_json:
        write_json([documents.found(place) for place in places])
    else:
        table(
            [TextColumn("queue", most=200), TextColumn("state"), TextColumn("adapter"), TextColumn("id", most=128)],
            ([reader.label(place.ref), place.state, place.adapter, place.id] for place in places),
        )
    if not places:
        where = "that can be read" if unread else ""
        note(f"qdeck: there is no job {job_id!r} in any queue {where}".rstrip())
    ctx.exit(note_unread(unread))
