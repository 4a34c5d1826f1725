"""`qdeck status`: every queue, and the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import (
    TextColumn,
    age,
    line,
    note_once,
    number,
    safe,
    styled,
    table,
    write_json,
)

if TYPE_CHECKING:
    from qdeck.admin import QueueRow, Snapshot


_COLOURS = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}


@command("status", examples=("qdeck status", "qdeck status --json"))
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show every queue and the problems of the server.

    Exit code 0: healthy, 1: degraded, 2: unhealthy.
    """
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
    """Write the queues as a table; return how many there are."""
    columns = [TextColumn("queue", most=100), *(TextColumn(title, right=True) for title in _NUMBERS), TextColumn("")]
    return table(columns, ([row.ref.label(seen.shared), *_queue_cells(row)] for row in seen.queues))


_NUMBERS = ("ready", "delayed", "blocked", "running", "stuck", "dead", "done", "oldest")


def _queue_cells(row: QueueRow) -> list[str]:
    numbers = (row.ready, row.delayed, row.blocked, row.running, row.stuck, row.dead, row.done)
    oldest = age(row.oldest_s) if row.oldest_exact or row.oldest_s is None else f">{age(row.oldest_s)}"
    remark = str(row.problem or "") or ("paused" if row.paused else "")
    return [*map(number, numbers), oldest, remark]
