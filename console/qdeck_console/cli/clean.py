"""`qdeck clean`: removes the temporary queues of a task, or orphaned ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import iso
from qdeck_console import documents
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import line, note, safe, write_json

if TYPE_CHECKING:
    from qdeck.messages import Cleaning, CleanReport


@command("clean", short_help="Remove the temporary queues of a task, or orphaned ones.")
@click.argument("task_id", required=False)
@click.option("--orphans", is_flag=True, help="Queues that no task registered and nothing uses, found by a scan.")
@click.option(
    "--idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Unused for so long: 60, or a day for orphans."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed; the default with --orphans.")
@click.option("--yes", is_flag=True, help="Remove orphaned queues.")
@click.pass_context
def clean(ctx: click.Context, task_id: str | None, orphans: bool, idle: float | None, dry_run: bool, yes: bool) -> None:
    """Remove the idle temporary queues of TASK_ID, and list those in use.

    A queue that a reader waits on is never removed, nor one that was used within --idle seconds. --orphans removes
    lists that are named like temporary queues and that no task registered; without --yes it only lists them.
    Lists that other programs registered in task_queues:TASK_ID are removed too; orphans by the patterns of the
    adapter lists only with --adapter lists.
    Copies of what is removed are kept for a day: qdeck undo restores it.
    Exit code 1: some were left.
    """
    if (task_id is None) != orphans:
        raise click.UsageError("give either TASK_ID or --orphans")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    given = settings()
    is_plan = dry_run or (orphans and not yes)
    with given.reader() if is_plan else given.writer() as client:
        cleaning = _cleaning(task_id, idle, dry_run=is_plan)
        _clean(client, cleaning)
    report = cleaning.report
    if given.as_json:
        write_json({"task": task_id, **_shape(report)})
    else:
        _print(report, task_id)
    ctx.exit(1 if report.in_use or report.kept else 0)


def _cleaning(task_id: str | None, idle: float | None, *, dry_run: bool) -> Cleaning:
    """What to clean. Without named adapters: what is registered, and the lists of a task."""
    from qdeck.messages import OrphanCleaning, TaskCleaning

    named = settings().adapters

    def is_meant(adapter: str) -> bool:
        return not named or adapter in named

    idle_s = None if idle is None else round(idle)
    if task_id is None:
        own = settings().target().adapter_settings.get("lists")
        patterns = getattr(own, "patterns", ()) if named and is_meant("lists") else None
        return OrphanCleaning(idle_s=86_400 if idle_s is None else idle_s, lists=patterns, dry_run=dry_run)
    return TaskCleaning(
        task_id, registered=is_meant("native"), lists=is_meant("lists"),
        idle_s=60 if idle_s is None else idle_s, dry_run=dry_run,
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
        "batch": report.batch,
        "applied": 0 if report.dry_run else report.removed,
        "skipped": [
            {"id": one.name, "code": one.outcome, "why": one.outcome.why} for one in report.samples if one.outcome.why
        ],
        "undo_until": iso(report.undo_until_ms),
        "undoable": report.undoable,
        "dry_run": report.dry_run,
        "removed": report.removed,
        "messages": report.messages,
        "bytes": report.bytes,
        "in_use": report.in_use,
        "kept": report.kept,
        "scanned": report.scanned,
        "queues": [documents.removal(one) for one in report.samples],
    }


def _print(report: CleanReport, task_id: str | None) -> None:
    for one in report.samples:
        count = "" if one.messages is None else f"{one.messages} messages, "
        what = f"{count}{one.bytes:,} bytes" if one.bytes else "empty"
        line(f"{one.outcome.replace('_', ' '):12} {safe(one.name)}  {what}")
    if task_id is not None and not report.samples:
        note(f"qdeck: task {task_id} has no temporary queues")
        return
    verb = "would be removed" if report.dry_run else "removed"
    line(f"{report.removed:,} {verb}, {report.in_use:,} in use, {report.kept:,} kept; {report.bytes:,} bytes")
    if report.undo_until_ms is not None:
        line(f"qdeck undo {report.batch} puts {report.undoable:,} of them back until {iso(report.undo_until_ms)}")
    lost = report.removed - report.undoable
    if lost:
        what = "would not be" if report.dry_run else "were not"
        line(f"{lost:,} {what} kept for undo: a list of more than 1 MiB is not, nor more than 64 MiB in all")
    if report.dry_run and task_id is None and report.removed:
        note("  --yes removes them")
