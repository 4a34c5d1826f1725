"""`qdeck status`: every queue, and the verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.output import age, note_once, number, on_terminal, say, status_role, table, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from qdeck.admin import QueueRow, Reader, Snapshot
    from qdeck_console.cli.base import CommandOptions
    from qdeck_console.queue_findings import ListedQueue


@command("status", examples=("qdeck status", "qdeck status --watch 2", "qdeck status --json"))
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Redraw every N seconds, until Ctrl-C.",
)
@click.pass_context
def status(ctx: click.Context, every_s: float | None) -> None:
    """Show every queue and the problems of the server.

    Exit code 0: healthy, 1: degraded, 2: unhealthy, 130: Ctrl-C ended --watch.
    """
    given = settings()
    if every_s is not None:
        _watch(given, every_s)
    with given.reader() as reader:
        seen = _read(reader)
    for notice in seen.notices:
        note_once(f"qdeck: {notice}")
    if given.as_json:
        write_json(documents.snapshot(seen))
    else:
        _print_status(seen)
    ctx.exit(seen.status.exit_code)


def _read(reader: Reader) -> Snapshot:
    """Return the queues, with the cause of each problem and since when it holds."""
    seen = reader.explained(reader.snapshot())
    return replace(seen, findings=reader.dated(seen.findings, seen.at_ms))


def _watch(given: CommandOptions, every_s: float) -> None:
    if given.as_json or not on_terminal():
        from qdeck import UsageError

        raise UsageError("--watch needs a terminal", hint="For programs, run qdeck status --json as often as needed.")
    from qdeck_console.cli.watch import watch

    with given.reader() as reader:

        def draw() -> None:
            seen = _read(reader)
            _print_status(seen)
            for notice in seen.notices:
                say((notice, "warn"))

        watch(draw, every_s)


def _print_status(seen: Snapshot) -> None:
    server = seen.server
    facts = [server.name, server.version, server.mode, server.role]
    about = f"  {server.address}  {' '.join(fact for fact in facts if fact)}"
    say((seen.status.value, status_role(seen.status)), (about, ""))
    from qdeck.admin import answers

    for answer in answers(seen.findings, seen.checks):
        word = "unknown" if answer.status is None else answer.status.value
        role = "" if answer.status is None else status_role(answer.status)
        todo = f"; next: {answer.command}" if answer.command else ""
        say((f"{answer.question.value:9}  ", ""), (word, role), (f"  {answer.text}{todo}", ""), indent=2)
    for finding in seen.findings:
        cause = f": {finding.cause}" if finding.cause else ""
        since = "" if finding.since_ms is None else f", for {age((seen.at_ms - finding.since_ms) / 1000)}"
        say((finding.text + cause + since, status_role(finding.severity)), indent=2, hang=2)
    say(("", ""))
    count = queue_table(seen)
    total = seen.totals
    if not count:
        say(("no queues", ""))
        return
    say(("", ""))
    words = (
        f"{count:,} {'queue' if count == 1 else 'queues'}: {total.ready:,} ready, {total.delayed:,} delayed, "
        f"{total.blocked:,} blocked, {total.running:,} running, {total.stuck:,} stuck, {total.late:,} late, "
        f"{total.dead:,} dead"
    )
    say((words, ""))


def queue_table(seen: Snapshot) -> int:
    """Write the queues as a table; return how many there are."""
    shared = seen.shared
    if not on_terminal():
        return table(_COLUMNS, ([row.ref.label(shared), *_queue_cells(row)] for row in seen.queues))
    from qdeck_console.queue_order import worst_first

    return table(_COLUMNS, ([*_judged_cells(entry, shared)] for entry in worst_first(seen)))


_COLUMNS = (
    TextColumn("queue", most=100),
    TextColumn("ready", right=True),
    TextColumn("delayed", right=True, drop=3),
    TextColumn("blocked", right=True, drop=4),
    TextColumn("running", right=True, drop=1),
    TextColumn("stuck", right=True),
    TextColumn("dead", right=True),
    TextColumn("done", right=True, drop=5),
    TextColumn("oldest", right=True),
    TextColumn("", wraps=True),
)


def _queue_cells(row: QueueRow) -> list[str]:
    numbers = (row.ready, row.delayed, row.blocked, row.running, row.stuck, row.dead, row.done)
    oldest = age(row.oldest_s) if row.oldest_exact or row.oldest_s is None else f">{age(row.oldest_s)}"
    remark = str(row.problem or "") or ("paused" if row.paused else "")
    return [*map(number, numbers), oldest, remark]


def _judged_cells(entry: ListedQueue, shared: Collection[str]) -> Iterator[TextCell]:
    """Yield the cells of a queue with the roles of its findings, and those findings whose numbers are in no column."""
    from qdeck.admin import Code

    is_fine = not entry.reasons
    yield TextCell(entry.row.ref.label(shared), "" if is_fine else entry.severity.role)
    roles = {"stuck": Code.STUCK, "dead": Code.DEAD, "oldest": Code.LATE}
    *cells, remark = _queue_cells(entry.row)
    for column, text in zip(_COLUMNS[1:-1], cells, strict=True):
        code = roles.get(column.title)
        worst = None if code is None else next((one for one in entry.reasons if one.code is code), None)
        yield TextCell(text, "" if worst is None else worst.severity.role)
    told = [one for one in entry.reasons if one.code not in roles.values()]
    yield TextCell("; ".join(one.text for one in told) or remark, told[0].severity.role if told else "")
