"""`qdeck undo`: name a batch, ask, and undo it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import counted, iso, local_time
from qdeck_console.cli.asking import NOT_CHANGED, above_question, agrees
from qdeck_console.cli.base import command, settings, suggesting
from qdeck_console.cli.output import line, note, note_skips, safe, write_json
from qdeck_console.cli.progress import Progress

if TYPE_CHECKING:
    from qdeck.admin import Batch, BatchOutcomes, Reader, UndoResult


@command("undo", examples=("qdeck undo", "qdeck undo b-1f3b --yes"))
@click.argument(
    "batch",
    shell_complete=suggesting("batches"),
    required=False,
    help="Batch, as qdeck activity lists it. Default: your own last one.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be undone and change nothing.")
@click.option("--yes", is_flag=True, help="Undo the batch without asking.")
@click.pass_context
def undo(ctx: click.Context, batch: str | None, dry_run: bool, yes: bool) -> None:
    """Undo a batch.

    Prints the batch, who applied it and when, and asks. Without a terminal it needs --yes. Without BATCH it undoes your
    last batch only: once that is undone, name an older one.

    Jobs that changed since are skipped, with the reason. Jobs that died only because they waited for these jobs are
    restored with them. qdeck activity lists the batches, and until when they can be undone.
    """
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other")
    from qdeck.admin import NothingToUndo

    try:
        ctx.exit(_undo(batch, dry_run=dry_run, yes=yes))
    except NothingToUndo as error:
        if settings().as_json:
            write_json(_shape(error.batch) | {"next": None if error.before is None else error.before.id})
        note(f"qdeck: {error}\n{error.hint}")
        ctx.exit(NOT_CHANGED)


def _undo(batch: str | None, *, dry_run: bool, yes: bool) -> int:
    """Show a batch, ask and undo it; return the exit code."""
    given = settings()
    found = None
    if not yes:
        with given.reader() as reader:
            found = reader.find_batch(batch)
            outcomes = _outcomes(reader, found)
        is_over = found.undone or (outcomes is not None and bool(outcomes.no_undo))
        with above_question(asks=not dry_run and not is_over):
            _show(found, outcomes, as_json=given.as_json)
        if found.undone or dry_run:
            return 0
        if outcomes is not None and outcomes.no_undo:
            return NOT_CHANGED
        if not agrees(f"Undo {found.title}?"):
            if not given.as_json:
                note(f"qdeck: nothing was changed; qdeck undo {found.id} --yes undoes it")
            return NOT_CHANGED
        batch = found.id
    with given.writer() as writer:
        if found is None and sys.stderr.isatty():
            found = writer.find_batch(batch)
        with Progress("undo", None if found is None else found.undoable) as progress:
            result = writer.undo(batch, progress=progress)
    return _show_result(result, as_json=given.as_json)


def _outcomes(reader: Reader, found: Batch) -> BatchOutcomes | None:
    """Return what happened to the jobs of a retry, where that is known of all of them."""
    from qdeck import UsageError

    if found.undone or found.verb != "retry":
        return None
    try:
        outcomes = reader.batch_outcomes(found.id)
    except UsageError:
        return None
    return outcomes if outcomes.is_whole else None


def _show(found: Batch, outcomes: BatchOutcomes | None, *, as_json: bool) -> None:
    """Write what would be undone; of what was undone, by whom and when."""
    if as_json:
        write_json(_shape(found))
        return
    if found.undo is not None and found.undone:
        line(f"{safe(found.title)} ({safe(found.id)}) was undone by {_who(found.undo.by, found.undo.at_ms)}")
        return
    line(f"batch   {safe(found.id)}")
    line(f"what    {safe(found.title)}{', interrupted' if found.is_open else ''}")
    later = f"; continued by {_who(found.continued_by, found.continued_ms)}" if found.continued_by else ""
    line(f"by      {_who(found.by, found.at_ms)}{later}")
    if found.labels:
        line(f"queues  {safe(', '.join(found.labels[:5]))}{', …' if len(found.labels) > 5 else ''}")
    for name, text in (("filter", found.filter), ("detail", found.detail), ("reason", found.reason)):
        if text:
            line(f"{name:7} {safe(text)}")
    if outcomes is not None and outcomes.no_undo:
        line(f"undo    nothing to undo: {outcomes.no_undo}")
        return
    most = found.undoable if outcomes is None else min(found.undoable, outcomes.left_to_undo)
    count = counted(most, *found.nouns)
    line(f"undo    restores up to {count}, until {local_time(found.until_ms)}; what changed since is skipped")


def _who(by: str, at_ms: int) -> str:
    return f"{safe(by)} at {local_time(at_ms)}"


def _shape(found: Batch) -> dict[str, Any]:
    undo = found.undo if found.undone else None
    return {
        "batch": found.id,
        "verb": found.verb,
        "by": found.by,
        "at": iso(found.at_ms),
        "continued_by": found.continued_by or None,
        "queues": found.labels,
        "filter": found.filter,
        "detail": found.detail,
        "reason": found.reason,
        "applied": found.done,
        "undoable": found.undoable,
        "undo_until": iso(found.until_ms),
        "undone_by": None if undo is None else undo.by,
        "undone_at": None if undo is None else iso(undo.at_ms),
    }


def _show_result(result: UndoResult, *, as_json: bool) -> int:
    """Write what was undone; return the exit code."""
    earlier = result.earlier
    if as_json:
        write_json(
            {
                "batch": result.batch,
                "verb": result.verb,
                "restored": result.restored,
                "dependents": result.dependents,
                "requeued": result.requeued,
                "skipped": [skip.as_json() for skip in result.skipped],
                "left": result.left,
                "undone_by": None if earlier is None else earlier.by,
                "undone_at": None if earlier is None else iso(earlier.at_ms),
                "error": result.error,
            }
        )
    elif earlier is not None:
        line(f"{safe(result.batch)} was undone by {_who(earlier.by, earlier.at_ms)}; nothing was changed")
    else:
        line(f"{counted(result.restored, *result.nouns)} of {safe(result.batch)} restored")
        if result.dependents:
            line(f"{counted(result.dependents, 'dependent job')} restored, too")
        if result.requeued:
            rest = "is ready now; its worker" if result.requeued == 1 else "are ready now; their workers"
            line(f"{counted(result.requeued, 'job')} had been running and {rest} lost the lease")
    note_skips(result.skipped, len(result.skipped))
    if result.left:
        note(f"qdeck: {counted(result.left, *result.nouns)} can be restored later: qdeck undo {result.batch}")
    if result.error is not None:
        note(f"qdeck: failed after {result.restored:,}: {result.error}; qdeck undo {result.batch} restores the rest")
        return 2
    return 1 if result.skipped else 0
