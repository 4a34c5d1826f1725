"""`qdeck clean`: removes the temporary queues of a task, or those that nobody owns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qdeck_console.cli.base import command, need_writable, settings
from qdeck_console.cli.output import iso, line, note, safe, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import ListsCleaned
    from qdeck.messages import CleanReport, Removal, SyncDomainQueueManager


@command("clean", short_help="Removes the temporary queues of a task, or orphaned ones.")
@click.argument("task_id", required=False)
@click.option("--orphans", is_flag=True, help="Those that nobody registered and nobody used, found by scanning.")
@click.option("--idle", type=click.FloatRange(min=0), metavar="SECONDS", help="Left alone for so long: 60, or a day.")
@click.option("--dry-run", is_flag=True, help="Only tells what would be removed; the default with --orphans.")
@click.option("--yes", is_flag=True, help="Removes orphans.")
@click.pass_context
def clean(ctx: click.Context, task_id: str | None, orphans: bool, idle: float | None, dry_run: bool, yes: bool) -> None:
    """Removes the temporary queues of TASK_ID that are idle, and tells which were in use.

    A queue where somebody waits is never removed, nor one with messages that came within --idle seconds. With
    --orphans: lists that are named like temporary queues and have no task; without --yes they are only counted.
    Lists that other programs registered in task_queues:TASK_ID go too; their orphans only with --adapter lists.
    Copies of what is removed are kept for a day: qdeck undo puts it back.
    Exit code 1: some were left.
    """
    if (task_id is None) != orphans:
        raise click.UsageError("give either TASK_ID or --orphans")
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    plan = dry_run or (orphans and not yes)
    adapters = settings().adapters
    lists = _clean_lists(task_id, idle, plan=plan) if "lists" in (adapters or ("lists",)) else None
    if adapters and "native" not in adapters:
        ctx.exit(_tell_lists(lists, task_id) if lists is not None else 0)
    manager = _manager(writes=not plan)
    try:
        if task_id is not None:
            report = manager.report_task_queues(
                task_id, idle=60 if idle is None else idle, dry_run=plan, undo=True, everywhere=True
            )
        else:
            report = manager.clean_orphaned_queues(
                idle=86_400 if idle is None else idle, dry_run=plan, undo=True, progress=_progress()
            )
    finally:
        manager.app.close()
    some = lists is not None and bool(lists.removed or lists.left)
    if settings().as_json:
        write_json({"task": task_id, **_shape(report), "lists": None if lists is None else _lists_shape(lists)})
    else:
        if report.samples or not some:
            _print(report, task_id)
        if lists is not None and some:
            _print_lists(lists)
    ctx.exit(1 if report.in_use or report.kept or (lists is not None and lists.left) else 0)


def _clean_lists(task_id: str | None, idle: float | None, *, plan: bool) -> ListsCleaned:
    """The lists of other programs: those of a task by its registry; orphans only with `--adapter lists`."""
    from qdeck.admin import ListsCleaned

    given = settings()
    if task_id is None and "lists" not in given.adapters:
        return ListsCleaned(dry_run=plan)
    idle_s = (60 if task_id is not None else 86_400) if idle is None else idle
    if plan:
        with given.reader() as reader:
            return reader.plan_clean_lists(task_id, idle_s=idle_s).told
    with given.writer() as writer:
        return writer.clean_lists(writer.plan_clean_lists(task_id, idle_s=idle_s))


def _tell_lists(found: ListsCleaned, task_id: str | None) -> int:
    if settings().as_json:
        write_json({"task": task_id, **_lists_shape(found)})
    else:
        _print_lists(found)
    return 1 if found.left else 0


def _lists_shape(found: ListsCleaned) -> dict[str, Any]:
    return {
        "batch": found.batch,
        "applied": 0 if found.dry_run else len(found.removed),
        "dry_run": found.dry_run,
        "removed": len(found.removed),
        "queues": [{"queue": name, "effect": effect} for name, effect in found.removed],
        "skipped": [{"id": name, "why": why} for name, why in found.left],
        "undo_until": iso(found.undo_until_ms),
    }


def _print_lists(found: ListsCleaned) -> None:
    for name, effect in found.removed:
        line(f"{'would be ' if found.dry_run else ''}{effect}: {safe(name)}")
    for name, why in found.left:
        note(f"qdeck: {safe(name)} is left: {why}")
    if found.undo_until_ms is not None:
        line(f"qdeck undo {found.batch} puts them back until {iso(found.undo_until_ms)}")
    elif not found.removed and not found.left:
        note("qdeck: there is no list to remove")


def _manager(*, writes: bool) -> SyncDomainQueueManager:
    from qdeck import App
    from qdeck.messages import SyncDomainQueueManager

    target = need_writable() if writes else settings().target()
    # The app only brings the connection: what is cleaned is named by its task.
    return SyncDomainQueueManager(App(target.url, queue="qdeck:actions"))


def _progress() -> Callable[[CleanReport], None] | None:
    if not sys.stderr.isatty():
        return None

    def show(report: CleanReport) -> None:
        click.echo(f"\r{report.scanned:,} keys looked at, {report.removed:,} orphans", err=True, nl=False)

    return show


def _shape(report: CleanReport) -> dict[str, Any]:
    return {
        "batch": report.batch,
        "applied": 0 if report.dry_run else report.removed,
        "skipped": [{"id": one.name, "why": one.outcome.replace("_", " ")} for one in report.samples if _is_left(one)],
        "undo_until": iso(report.undo_until_ms),
        "undoable": report.undoable,
        "dry_run": report.dry_run,
        "removed": report.removed,
        "messages": report.messages,
        "bytes": report.bytes,
        "in_use": report.in_use,
        "kept": report.kept,
        "scanned": report.scanned,
        "queues": [_row(one) for one in report.samples],
    }


def _is_left(one: Removal) -> bool:
    return one.outcome not in ("removed", "would_remove")


def _row(one: Removal) -> dict[str, Any]:
    return {
        "queue": one.name,
        "outcome": one.outcome,
        "messages": one.messages,
        "bytes": one.bytes,
        "idle_s": one.idle_s,
        "undoable": one.undoable,
    }


def _print(report: CleanReport, task_id: str | None) -> None:
    if sys.stderr.isatty() and task_id is None:
        click.echo("", err=True)
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
