"""Commands that look: status, job, find, workers (which may also be asked to be quiet or to stop)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qdeck_console.cli import shapes
from qdeck_console.cli.base import VerbGroup, command, settings
from qdeck_console.cli.output import Column, age, line, note, number, safe, styled, table, write_json

if TYPE_CHECKING:
    from qdeck._deck.model import QueueRow, Snapshot

_COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}


@command("status", short_help="One look at every queue.")
@click.pass_context
def status(ctx: click.Context) -> None:
    """One look at every queue. The exit code is the verdict: 0 healthy, 1 degraded, 2 unhealthy."""
    given = settings()
    with given.deck() as deck:
        seen = deck.status()
    for notice in seen.notices:
        note(f"qdeck: {notice}")
    if given.as_json:
        write_json(shapes.snapshot(seen))
    else:
        _print_status(seen)
    ctx.exit(seen.status.exit_code)


def _print_status(seen: Snapshot) -> None:
    server = seen.server
    facts = [server.name, server.version, server.mode, server.role]
    verdict = styled(seen.status.value, fg=_COLOURS[seen.status.value], bold=True)
    line(f"{verdict}  {safe(server.address)}  {safe(' '.join(fact for fact in facts if fact))}")
    for reason in seen.reasons:
        line(styled(f"  {safe(reason.text)}", fg=_COLOURS[reason.status.value]))
    line()
    columns = [Column("queue", most=100), *(Column(title, right=True) for title in _NUMBERS), Column("")]
    count = table(columns, (_queue_cells(row) for row in seen.queues))
    total = seen.totals
    if not count:
        line("no queues")
        return
    line()
    line(
        f"{count:,} queues: {total.ready:,} ready, {total.delayed:,} delayed, {total.blocked:,} blocked, "
        f"{total.running:,} running, {total.stuck:,} stuck, {total.dead:,} dead"
    )


_NUMBERS = ("ready", "delayed", "blocked", "running", "stuck", "dead", "done", "oldest")


def _queue_cells(row: QueueRow) -> list[str]:
    numbers = (row.ready, row.delayed, row.blocked, row.running, row.stuck, row.dead, row.done)
    oldest = age(row.oldest_s) if row.oldest_exact else f">{age(row.oldest_s)}"
    remark = row.problem or ("paused" if row.paused else "")
    return [row.name, *map(number, numbers), oldest, remark]
