"""`qdeck find`: find jobs in all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.columns import TextColumn
from qdeck_console.cli.output import note, note_unread, table, write_json
from qdeck_console.cli.progress import Progress

if TYPE_CHECKING:
    from qdeck.admin import IdSearch


@command("find", examples=("qdeck find 7f3a", "qdeck find order-1841 --json"))
@click.argument("job_id", metavar="ID", help="Id or name of a job, task id, or correlation id.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Read at most N jobs of each queue. Default: 200000."
)
@click.pass_context
def find(ctx: click.Context, job_id: str, limit: int | None) -> None:
    """Find jobs in all queues.

    Looks the id up directly, then scans the queues, at most --limit jobs each. For a message, lists its request,
    response and callback.
    Exit code 1: no job is found, or a queue cannot be read.
    """
    from qdeck.admin import IdSearch

    given = settings()
    with given.reader() as reader, Progress("find") as progress:
        search = IdSearch(wanted=job_id, progress=progress)
        if limit is not None:
            search.most = limit
        places = reader.find(search)
    if given.as_json:
        write_json([documents.found(place) for place in places])
    else:
        columns = [TextColumn("queue", most=200), TextColumn("state"), TextColumn("adapter")]
        columns += [TextColumn("id", most=None), TextColumn("found by")]
        rows = [[reader.label(one.ref), one.state, one.adapter, one.id, one.match.replace("_", " ")] for one in places]
        by_id = all(one.match == "id" for one in places)  # then the last column says nothing
        table(columns[:-1] if by_id else columns, (row[:-1] if by_id else row for row in rows))
    if not places:
        note(f"qdeck: {_not_found(search)}")
        note("  find looks for ids and names. To search text: qdeck dead --where TEXT, qdeck jobs QUEUE --where TEXT")
    for label, count in search.cut.items():
        note(f"qdeck: only the first {count:,} jobs of {label} were read (--limit)")
    ctx.exit(note_unread(search.unread) or (0 if places else 1))


def _not_found(search: IdSearch) -> str:
    where = f"among the {search.scanned:,} jobs that were read" if search.cut or search.unread else "in any queue"
    return f"job {search.wanted!r} was not found {where}"
