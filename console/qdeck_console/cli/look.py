"""Commands that look: status, job, find, workers (which may also be told to be quiet or to stop)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import Command, VerbGroup, command, settings
from qdeck_console.cli.output import (
    Column,
    age,
    dumps,
    line,
    note,
    note_once,
    note_unread,
    number,
    safe,
    styled,
    table,
    write_json,
)

if TYPE_CHECKING:
    from qdeck.admin import JobDetail, QueueRow, Snapshot, WorkerRow

PRESENCE_S = 20  # how often an idle worker reports, and reads what is requested of it
_COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}


@command("status", short_help="One look at every queue.")
@click.pass_context
def status(ctx: click.Context) -> None:
    """One look at every queue. The exit code is the verdict: 0 healthy, 1 degraded, 2 unhealthy."""
    given = settings()
    with given.reader() as reader:
        seen = reader.snapshot()
    for notice in seen.notices:
        note_once(f"qdeck: {notice}")
    if given.as_json:
        write_json(documents.snapshot(seen))
    else:
        _print_status(seen)
    ctx.exit(seen.status.exit_code)


def _print_status(seen: Snapshot) -> None:
    server = seen.server
    facts = [server.name, server.version, server.mode, server.role]
    verdict = styled(seen.status.value, fg=_COLOURS[seen.status.value], bold=True)
    line(f"{verdict}  {safe(server.address)}  {safe(' '.join(fact for fact in facts if fact))}")
    for finding in seen.findings:
        line(styled(f"  {safe(finding.text)}", fg=_COLOURS[finding.severity.value]))
    line()
    count = queue_table(seen)
    total = seen.totals
    if not count:
        line("no queues")
        return
    line()
    line(
        f"{count:,} {'queue' if count == 1 else 'queues'}: {total.ready:,} ready, {total.delayed:,} delayed, "
        f"{total.blocked:,} blocked, {total.running:,} running, {total.stuck:,} stuck, {total.late:,} late, "
        f"{total.dead:,} dead"
    )


def queue_table(seen: Snapshot) -> int:
    """Writes the queues as a table, and returns how many there are."""
    columns = [Column("queue", most=100), *(Column(title, right=True) for title in _NUMBERS), Column("")]
    return table(columns, ([row.ref.label(seen.shared), *_queue_cells(row)] for row in seen.queues))


_NUMBERS = ("ready", "delayed", "blocked", "running", "stuck", "dead", "done", "oldest")


def _queue_cells(row: QueueRow) -> list[str]:
    numbers = (row.ready, row.delayed, row.blocked, row.running, row.stuck, row.dead, row.done)
    oldest = age(row.oldest_s) if row.oldest_exact or row.oldest_s is None else f">{age(row.oldest_s)}"
    remark = str(row.problem or "") or ("paused" if row.paused else "")
    return [*map(number, numbers), oldest, remark]


@command("show", short_help="All about one job.")
@click.argument("queue")
@click.argument("job_id", metavar="ID")
def show_job(queue: str, job_id: str) -> None:
    """All about one job: payload, history, error, what it depends on and what depends on it, result and log."""
    given = settings()
    with given.reader() as reader:
        record = reader.job(queue, job_id)
    if given.as_json:
        write_json(documents.detail(record))
    else:
        _print_job(record)


def _print_job(record: JobDetail) -> None:
    facts = documents.detail(record)
    limits = {name: value for name, value in facts.pop("limits").items() if value is not None}
    history, error, log = facts.pop("history"), facts.pop("error"), facts.pop("log")
    facts.pop("error_class"), facts.pop("error_message")
    for name, value in (facts | {"limits": limits}).items():
        if value is None or value is False or value == [] or value == {}:
            continue
        shown = value if isinstance(value, str | int | float) and value is not True else dumps(value)
        line(f"{name.removesuffix('_s').replace('_', ' '):14} {age(value) if name == 'age_s' else safe(shown)}")
    line("history")
    for event in history:
        rest = {key: value for key, value in event.items() if key not in ("at", "kind", "traceback")}
        told = "  ".join(f"{safe(key)}={safe(value)}" for key, value in rest.items())
        line(f"  {event['at']}  {safe(event['kind']):12} {told}".rstrip())
    if error is not None:
        line(styled(f"error  {safe(error['class'])}: {safe(error['message'])}", fg="red"))
        _print_block(error["traceback"])
    if log:
        line("log")
        _print_block(log)


def _print_block(text: str | None) -> None:
    for part in (text or "").splitlines():
        line(f"  {safe(part)}")


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
            [Column("queue", most=200), Column("state"), Column("adapter"), Column("id", most=128)],
            ([reader.label(place.ref), place.state, place.adapter, place.id] for place in places),
        )
    if not places:
        where = "that can be read" if unread else ""
        note(f"qdeck: there is no job {job_id!r} in any queue {where}".rstrip())
    ctx.exit(note_unread(unread))


workers = VerbGroup("workers", default="list", help="Lists the workers, or asks one to be quiet or to stop.")


@workers.command("list", cls=Command, short_help="Lists the workers.")
def list_workers() -> None:
    """Lists the workers, the living ones first. Also: qdeck workers quiet ID, qdeck workers stop ID."""
    given = settings()
    with given.reader() as reader:
        rows = reader.workers()
    if given.as_json:
        write_json([documents.worker(row) for row in rows])
        return
    titles = [Column("worker", most=80), Column("alive"), Column("state")]
    titles += [Column(title, right=True) for title in ("running", "done", "failed", "memory", "seen")]
    count = table([*titles, Column("queues", most=200)], map(_worker_cells, rows))
    if not count:
        line("no workers")


def _worker_cells(row: WorkerRow) -> list[str]:
    memory = "-" if row.memory_bytes is None else f"{row.memory_bytes / 1e6:,.0f} MB"
    state = row.requested if row.requested and row.requested != row.state else row.state
    counts = [number(row.running), number(row.done), number(row.failed)]
    seen = "-" if row.heartbeat_s is None else f"{age(row.heartbeat_s)} ago"
    return [row.id, "yes" if row.alive else "no", state or "-", *counts, memory, seen, " ".join(row.queues)]


def _order(verb: str, about: str) -> None:
    @workers.command(verb, cls=Command, help=about, short_help=about)
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
