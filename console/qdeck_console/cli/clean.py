"""`qdeck clean`: remove the temporary queues of a task, or orphaned ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import byte_size, counted, iso, local_time, threshold
from qdeck_console import documents
from qdeck_console.cli.asking import NOT_CHANGED, above_question, agrees
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import line, note, safe, write_json

if TYPE_CHECKING:
    from qdeck.messages import Cleaning, CleanReport


class _WholeSeconds(click.IntRange):
    """Seconds of an option; its error names the value and what to give."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not a number of whole seconds. Give 0 or more.", param, ctx)


@command("clean", examples=("qdeck clean order-1841 --dry-run", "qdeck clean --orphans --yes"))
@click.argument("task_id", required=False, help="Task whose temporary queues are removed.")
@click.option("--orphans", is_flag=True, help="Scan for unused queues that no task registered.")
@click.option(
    "--idle",
    type=_WholeSeconds(min=0),
    metavar="SECONDS",
    help="Only queues unused for this long. Default: 60, with --orphans 86400.",
)
@click.option("--dry-run", is_flag=True, help="List the queues and remove none.")
@click.option("--yes", is_flag=True, help="Remove the queues without asking.")
@click.pass_context
def clean(ctx: click.Context, task_id: str | None, orphans: bool, idle: int | None, dry_run: bool, yes: bool) -> None:
    """Remove the temporary queues of a task, or orphaned ones.

    Lists the queues and asks. Without a terminal it needs --yes.

    Removes the idle queues of TASK_ID and lists those in use. A queue with a waiting reader is never removed, and
    neither is one that was used within --idle seconds. Lists that other programs registered in task_queues:TASK_ID,
    or named after the task, are removed, too.

    --orphans selects temporary queues of qdeck.messages that are not registered. With --adapter lists it also selects
    lists of other programs: those registered in a task_queues:TASK_ID without a time to live, or with more than 24h;
    and those named after a task, or matching a pattern of that adapter, whose task_queues:TASK_ID has expired or never
    existed.

    Copies are kept for a day: qdeck undo restores the queues. Exit code 1: some queues were not removed.
    """
    if (task_id is None) != orphans:
        raise click.UsageError("give either TASK_ID or --orphans")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    if task_id is not None:
        task_id = task_id.removeprefix("task_queues:")
    if not yes:
        report = _run(task_id, idle, dry_run=True)
        with above_question(asks=not dry_run and report.removed > 0):
            _show(report, task_id, idle)
        if dry_run or not report.removed:
            ctx.exit(_code(report))
        what = f" with {counted(report.messages, 'message')}" if report.messages else ""
        if not agrees(f"Remove {counted(report.removed, 'queue')}{what}?"):
            note("qdeck: nothing was changed; --yes removes them")
            ctx.exit(NOT_CHANGED)
    report = _run(task_id, idle, dry_run=False)
    _show(report, task_id, idle)
    ctx.exit(_code(report))


def _run(task_id: str | None, idle: int | None, *, dry_run: bool) -> CleanReport:
    given = settings()
    with given.reader() if dry_run else given.writer() as client:
        cleaning = _cleaning(task_id, idle, dry_run=dry_run)
        _clean(client, cleaning)
    return cleaning.report


def _code(report: CleanReport) -> int:
    return 1 if report.in_use or report.kept else 0


def _show(report: CleanReport, task_id: str | None, idle: int | None) -> None:
    if settings().as_json:
        write_json({"task": task_id, **_shape(report)})
    else:
        _print(report, task_id, idle)


def _cleaning(task_id: str | None, idle: int | None, *, dry_run: bool) -> Cleaning:
    """Return the cleaning. Without --adapter it is for registered queues and the lists of a task."""
    from qdeck.messages import OrphanCleaning, TaskCleaning

    named = settings().adapters

    def is_meant(adapter: str) -> bool:
        return not named or adapter in named

    if task_id is None:
        own = settings().target().adapter_settings.get("lists")
        patterns = getattr(own, "patterns", ()) if named and is_meant("lists") else None
        return OrphanCleaning(idle_s=86_400 if idle is None else idle, lists=patterns, dry_run=dry_run)
    return TaskCleaning(
        task_id, registered=is_meant("native"), lists=is_meant("lists"),
        idle_s=60 if idle is None else idle, dry_run=dry_run,
    )  # fmt: skip


def _clean(client: Any, cleaning: Cleaning) -> None:
    shows = sys.stderr.isatty() and cleaning.event == "orphaned"

    def show(report: CleanReport) -> None:
        if shows:
            click.echo(f"\r{report.scanned:,} keys looked at, {report.removed:,} orphans", err=True, nl=False)

    if cleaning.report.dry_run:
        while client.search_temporary(cleaning):
            show(cleaning.report)
    else:
        client.clean(cleaning, progress=show)
    if shows:
        click.echo("", err=True)


def _shape(report: CleanReport) -> dict[str, Any]:
    return {
        "dry_run": report.dry_run,
        "batch": report.batch,
        "applied": 0 if report.dry_run else report.removed,
        "would_remove": report.removed if report.dry_run else 0,
        "undoable": report.undoable,
        "undo_until": iso(report.undo_until_ms),
        "messages": report.messages,
        "bytes": report.bytes,
        "in_use": report.in_use,
        "kept": report.kept,
        "scanned": report.scanned,
        "queues": [documents.removal(one) for one in report.samples],
    }


def _nothing_of(task_id: str) -> str:
    """Return why there is nothing to remove of a task; the name of a list is not that of its task."""
    from qdeck import InvalidName
    from qdeck.messages import TaskQueueName

    try:
        task = TaskQueueName.parse(task_id).task_id
    except InvalidName:
        return f"task {task_id} has no temporary queues; qdeck find {task_id} lists its messages in other queues"
    return f"{task_id} is a list of task {task}: qdeck clean {task} removes it"


def _print(report: CleanReport, task_id: str | None, idle: int | None) -> None:
    if task_id is not None and not report.samples:
        note(f"qdeck: {_nothing_of(safe(task_id))}")
        return
    if task_id is None and not report.samples and "lists" not in settings().adapters:
        note("qdeck: lists of other programs are left out; --adapter lists includes them")
    for one in report.samples:
        count = "messages, " if one.messages is None else f"{counted(one.messages, 'message')}, "
        what = one.why or (f"{count}{byte_size(one.bytes)}" if one.bytes else "empty")
        what += f"; {one.cause}" if one.cause else ""
        line(f"{one.outcome.replace('_', ' '):12} {safe(one.name)}  {what}")
    verb = "would be removed" if report.dry_run else "removed"
    count = "" if report.messages is None else f"{counted(report.messages, 'message')}, "
    size = f"{count}{byte_size(report.bytes)}"
    line(f"{report.removed:,} {verb}, {report.in_use:,} in use, {report.kept:,} kept; {size}")
    if recent := sum(one.outcome == "recent" for one in report.samples):
        limit = threshold(idle if idle is not None else 60 if task_id is not None else 86_400)
        line(f"{recent:,} of those kept were used within the last {limit}; a smaller --idle removes them, --idle 0 all")
    if report.undo_until_ms is not None:
        what = counted(report.undoable, "queue")
        line(f"qdeck undo {report.batch} restores {what} until {local_time(report.undo_until_ms)}")
    lost = report.removed - report.undoable
    if lost:
        what = "would not be" if report.dry_run else "were not"
        line(f"{lost:,} {what} kept for undo: only lists of up to 1 MiB are, and up to 64 MiB in total")
