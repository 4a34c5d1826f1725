"""`qdeck stuck`: list stuck jobs, with the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck.admin import counted
from qdeck_console import documents
from qdeck_console.cli.base import command, settings, suggesting
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.operate import (
    check_filter,
    where_option,
)
from qdeck_console.cli.output import JsonList, age, note, note_unread, table, worst_first

if TYPE_CHECKING:
    from qdeck.admin import Reader, StuckJob


@command("stuck", examples=("qdeck stuck", "qdeck stuck shop:mail:actions --json"))
@click.argument(
    "queue", shell_complete=suggesting("queues"), required=False, help="Only this queue. Default: all queues."
)
@where_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most this many. Default: all.")
@click.pass_context
def stuck(ctx: click.Context, queue: str | None, where: str, limit: int | None) -> None:
    """List stuck jobs, with the reason.

    A job is stuck when its lease expired, when it exceeds its time limit, or when no worker has its task.
    The column alive is about its worker: yes, no, or ? (no worker holds the job, or its system does not record it).
    To act on them: qdeck requeue QUEUE, or qdeck bury QUEUE.
    Exit code 1: a job is stuck, or a queue cannot be read.
    """

    given = settings()
    check_filter(where)
    with given.reader() as reader:
        unread: list[str] = []
        most = None if limit is None else limit + 1
        queues, where = reader.narrowed(queue, where)
        found = reader.stuck(queues, where=where, limit=most, unread=unread)
    left_out = note_unread(unread)
    more = limit is not None and len(found) > limit
    found = found[:limit]
    if given.as_json:
        with JsonList() as out:
            for job in found:
                out.add(documents.stuck(job))
    elif not table(_COLUMNS, (_cells(job, reader) for job in worst_first(found, _rank))) and not unread:
        note("qdeck: no stuck jobs")
    if more:
        note(f"qdeck: {counted(limit or 0, 'job')} listed, more exist (--limit {limit})")
    ctx.exit(1 if found else left_out)


_COLUMNS = (
    TextColumn("queue", most=60),
    TextColumn("id", most=None),
    TextColumn("reason", wraps=True),
    TextColumn("stuck for", right=True, drop=1),
    TextColumn("worker", most=40),
    TextColumn("alive", drop=2),
    TextColumn("task", most=40, drop=3),
)


def _cells(job: StuckJob, reader: Reader) -> list[TextCell | str]:
    alive = TextCell("no", "bad") if job.worker_alive is False else "yes" if job.worker_alive else "?"
    label, why = reader.label(job.ref), TextCell(str(job.why), "warn")
    return [label, job.id, why, age(job.stuck_s), job.worker or "", alive, job.task or "-"]


def _rank(job: StuckJob) -> tuple[bool, float]:
    """Return the place of a job on a terminal: first those whose worker is lost, then those stuck longest."""
    return job.worker_alive is not False, -(job.stuck_s or 0)
