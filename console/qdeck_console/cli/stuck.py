"""`qdeck stuck`: the jobs that are stuck, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.operate import (
    check_filter,
    plain_queue,
    where_option,
)
from qdeck_console.cli.output import JsonList, TextColumn, age, note, note_unread, table

if TYPE_CHECKING:
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
    TextColumn("queue", most=60),
    TextColumn("id", most=40),
    TextColumn("why"),
    TextColumn("for", right=True),
    TextColumn("worker", most=40),
    TextColumn("alive"),
    TextColumn("task", most=40),
)


def _cells(job: StuckJob, reader: Reader) -> list[str]:
    alive = "?" if job.worker_alive is None else "yes" if job.worker_alive else "no"
    label = reader.label(job.ref)
    return [label, job.id, str(job.why), age(job.stuck_s), job.worker or "", alive, job.task or "-"]
