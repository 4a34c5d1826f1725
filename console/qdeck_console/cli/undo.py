"""`qdeck undo`: takes back what was done."""

from __future__ import annotations

import click

from qdeck.admin import counted
from qdeck_console.cli.base import command, settings
from qdeck_console.cli.output import line, note, note_skips, safe, write_json

_OF_QUEUES = ("clean",)


@command("undo", short_help="Takes a batch back; without one, your own last.")
@click.argument("batch", required=False)
@click.pass_context
def undo(ctx: click.Context, batch: str | None) -> None:
    """Takes a batch back, job by job; one that went on since is left alone, with the reason. Twice is once.

    What died only because it waited for these jobs goes back with them.

    qdeck activity tells the batches, and until when they can be undone.
    """
    given = settings()
    with given.writer() as writer:
        result = writer.undo(batch)
    if given.as_json:
        write_json(
            {
                "batch": result.batch,
                "verb": result.verb,
                "restored": result.restored,
                "dependents": result.dependents,
                "requeued": result.requeued,
                "skipped": [skip.as_json() for skip in result.skipped],
                "error": result.error,
            }
        )
    else:
        what = counted(result.restored, "queue") if result.verb in _OF_QUEUES else counted(result.restored, "job")
        line(f"{what} of {safe(result.batch)} went back")
        if result.dependents:
            line(f"{counted(result.dependents, 'job')} that waited for them, and had died or gone on, went back too")
        if result.requeued:
            line(f"{counted(result.requeued, 'job')} had been running; ready now, their workers lost the leases")
    note_skips(result.skipped, len(result.skipped))
    if result.error is not None:
        note(f"qdeck: ended after {result.restored:,}: {result.error}; the same command goes on from there")
        ctx.exit(2)
    ctx.exit(1 if result.skipped else 0)
