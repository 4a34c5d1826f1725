"""`qdeck workers`: list the workers, or ask one to be quiet, to resume or to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck.admin import byte_size
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings, suggesting
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.output import age, line, number, safe, table, worst_first, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck.admin import WorkerRow


PRESENCE_S = 20  # how often an idle worker reports, and reads what is requested of it


workers = VerbGroup(
    "workers",
    default="list",
    help="List the workers, or ask one to be quiet, to resume or to stop.",
    examples=("qdeck workers", "qdeck workers quiet worker-1"),
)


@workers.command("list", cls=CliCommand, examples=("qdeck workers", "qdeck workers --json"))
def list_workers() -> None:
    """List the workers, those that are alive first."""
    given = settings()
    with given.reader() as reader:
        rows = reader.workers()
    if given.as_json:
        write_json([documents.worker(row) for row in rows])
        return
    if not table(_COLUMNS, map(_worker_cells, worst_first(rows, lambda row: row.alive))):
        line("no workers")


_COLUMNS = (
    TextColumn("worker", most=80),
    TextColumn("alive"),
    TextColumn("state"),
    TextColumn("running", right=True, drop=1),
    TextColumn("done", right=True, drop=4),
    TextColumn("failed", right=True, drop=3),
    TextColumn("memory", right=True, drop=5),
    TextColumn("heartbeat", right=True, drop=2),
    TextColumn("queues", most=200, wraps=True),
)


def _worker_cells(row: WorkerRow) -> list[TextCell | str]:
    memory = "-" if row.memory_bytes is None else byte_size(row.memory_bytes)
    state = row.requested if row.alive and row.requested and row.requested != row.state else row.condition
    counts = [number(row.running), number(row.done), number(row.failed)]
    seen = "-" if row.heartbeat_s is None else f"{age(row.heartbeat_s)} ago"
    alive = "yes" if row.alive else TextCell("no", "bad")
    return [
        TextCell(row.id, "" if row.alive else "bad"),
        alive,
        state or "-",
        *counts,
        memory,
        seen,
        " ".join(row.queues),
    ]


def _order(verb: str, about: str) -> None:
    @workers.command(verb, cls=CliCommand, help=about, examples=(f"qdeck workers {verb} worker-1",))
    @click.argument("worker_id", shell_complete=suggesting("workers"), metavar="ID", help="Id of the worker.")
    @click.option("--yes", is_flag=True, help="Answer yes to the question.")
    @click.pass_context
    def order(ctx: click.Context, worker_id: str, yes: bool) -> None:
        from qdeck_console.cli.asking import confirmed

        with settings().writer() as writer:
            rows = [] if yes else writer.workers()
            found = next((row for row in rows if row.id == worker_id), None)
            if found is not None:
                about = f"{verb} {worker_id}: {_without(found, rows)}"
                if not confirmed(f"{verb.capitalize()} it?", about, yes=yes):
                    _report(worker_id, None)
                    ctx.exit(1)
            writer.order_worker(worker_id, verb)
        _report(worker_id, verb)


def _without(row: WorkerRow, rows: Sequence[WorkerRow]) -> str:
    """Return whether a worker still works, and which of its queues no other one serves."""
    from qdeck.admin import served_only_by

    seen = "" if row.heartbeat_s is None else f", last heartbeat {age(row.heartbeat_s)} ago"
    lost = "" if row.alive else f"it is lost{seen}, and does this only if it returns; "
    if not row.queues:
        return f"{lost}it serves no queue"
    names = ", ".join(ref.name for ref in served_only_by(row.id, rows))
    return lost + (f"no other worker serves {names}" if names else "other workers serve its queues")


def _report(worker_id: str, verb: str | None) -> None:
    if settings().as_json:
        write_json({"worker": worker_id, "requested": verb})
    elif verb is not None:
        line(f"{verb} requested of {safe(worker_id)}; takes effect within {PRESENCE_S}s")


_order("quiet", "Ask a worker to finish its jobs and claim no more.")
_order("stop", "Ask a worker to finish its jobs and exit.")


@workers.command("resume", cls=CliCommand, examples=("qdeck workers resume worker-1",))
@click.argument("worker_id", shell_complete=suggesting("workers"), metavar="ID", help="Id of the worker.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def resume(ctx: click.Context, worker_id: str, yes: bool) -> None:
    """Let a quiet worker claim jobs again.

    Asks first if another operator asked it to be quiet.
    """
    from qdeck_console.cli.asking import NOT_CHANGED, may_lift

    with settings().writer() as writer:
        is_quiet = any(row.id == worker_id and row.requested == "quiet" for row in writer.workers())
        stands = writer.quiet_request(worker_id) if is_quiet else None
        what = f"{worker_id} was asked to be quiet"
        if stands is not None and not may_lift("Resume it?", what, stands, yes=yes):
            _report(worker_id, None)
            ctx.exit(NOT_CHANGED)
        writer.order_worker(worker_id, "resume", shown=stands)
    _report(worker_id, "resume")
