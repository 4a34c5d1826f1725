"""`qdeck workers`: lists the workers, or asks one to be quiet or to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings
from qdeck_console.cli.output import (
    TextColumn,
    age,
    line,
    number,
    safe,
    table,
    write_json,
)

if TYPE_CHECKING:
    from qdeck.admin import WorkerRow


PRESENCE_S = 20  # how often an idle worker reports, and reads what is requested of it


workers = VerbGroup("workers", default="list", help="Lists the workers, or asks one to be quiet or to stop.")


@workers.command("list", cls=CliCommand, short_help="Lists the workers.")
def list_workers() -> None:
    """Lists the workers, the living ones first. Also: qdeck workers quiet ID, qdeck workers stop ID."""
    given = settings()
    with given.reader() as reader:
        rows = reader.workers()
    if given.as_json:
        write_json([documents.worker(row) for row in rows])
        return
    titles = [TextColumn("worker", most=80), TextColumn("alive"), TextColumn("state")]
    titles += [TextColumn(title, right=True) for title in ("running", "done", "failed", "memory", "seen")]
    count = table([*titles, TextColumn("queues", most=200)], map(_worker_cells, rows))
    if not count:
        line("no workers")


def _worker_cells(row: WorkerRow) -> list[str]:
    memory = "-" if row.memory_bytes is None else f"{row.memory_bytes / 1e6:,.0f} MB"
    state = row.requested if row.requested and row.requested != row.state else row.state
    counts = [number(row.running), number(row.done), number(row.failed)]
    seen = "-" if row.heartbeat_s is None else f"{age(row.heartbeat_s)} ago"
    return [row.id, "yes" if row.alive else "no", state or "-", *counts, memory, seen, " ".join(row.queues)]


def _order(verb: str, about: str) -> None:
    @workers.command(verb, cls=CliCommand, help=about, short_help=about)
    @click.argument("worker_id", metavar="ID")
    def order(worker_id: str) -> None:
        given = settings()
        with given.writer() as writer:
            writer.order_worker(worker_id, verb)
        if given.as_json:
            write_json({"worker": worker_id, "requested": verb})
        else:
            line(f"{verb} requested of {safe(worker_id)}; takes effect within {PRESENCE_S} s")


_order("quiet", "Asks a worker to finish what it has and to take nothing new.")
_order("stop", "Asks a worker to finish and end.")
