"""`qdeck queues`: list, pause, resume and empty queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings, suggesting
from qdeck_console.cli.operate import act, act_options
from qdeck_console.cli.output import line, note_once, safe, write_json
from qdeck_console.cli.status import queue_table

if TYPE_CHECKING:
    from qdeck.admin import Pause, QueueSettings, Writer

queues = VerbGroup(
    "queues",
    default="list",
    help="List, pause, resume and empty queues.",
    examples=("qdeck queues", "qdeck queues pause shop:mail:actions"),
)


@queues.command("list", cls=CliCommand, examples=("qdeck queues", "qdeck queues --adapter rq --json"))
def list_queues() -> None:
    """List the queues with their numbers."""
    given = settings()
    with given.reader() as reader:
        seen = reader.snapshot()
    for notice in seen.notices:
        note_once(f"qdeck: {notice}")
    if given.as_json:
        write_json([documents.queue(row) for row in seen.queues])
    elif not queue_table(seen):
        line("no queues")


@queues.command(
    "pause",
    cls=CliCommand,
    examples=("qdeck queues pause shop:mail:actions --reason INC-42",),
)
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue: its name, or ADAPTER/NAME.")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the operator who resumes the queue.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def pause(ctx: click.Context, queue: str, reason: str, yes: bool) -> None:
    """Pause a queue: start none of its jobs until it is resumed.

    Running jobs finish, and jobs can still be enqueued. Asks before it replaces the reason of another pause, and
    before it pauses every queue of a system that cannot pause a single one.
    """
    from qdeck.admin import Feature, QueueSettings, has_feature
    from qdeck_console.cli.asking import NOT_CHANGED, confirmed

    with settings().writer() as writer:
        stands = writer.pause_of(queue)
        if stands is not None and reason not in ("", stands.reason):
            _ask(ctx, writer, queue, stands, "Replace its reason?", yes=yes)
        ref = writer.resolve(queue)
        reaches_all = has_feature(ref.adapter, Feature.PAUSE) and not has_feature(ref.adapter, Feature.OWN_PAUSE)
        about = f"{ref.adapter} pauses all its queues at once"
        if stands is None and reaches_all and not confirmed("Pause all of them?", about, yes=yes):
            _report(queue, QueueSettings(queue=ref.name, adapter=ref.adapter, paused=False, changed=False))
            ctx.exit(NOT_CHANGED)
        _report(queue, writer.pause(queue, reason=reason, replaces=stands), stands)


@queues.command("resume", cls=CliCommand, examples=("qdeck queues resume shop:mail:actions",))
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue: its name, or ADAPTER/NAME.")
@click.option("--yes", is_flag=True, help="Answer yes to the question.")
@click.pass_context
def resume(ctx: click.Context, queue: str, yes: bool) -> None:
    """Resume a paused queue.

    Asks first if the queue was paused with a reason or by another operator.
    """
    with settings().writer() as writer:
        stands = writer.pause_of(queue)
        if stands is not None:
            _ask(ctx, writer, queue, stands, "Resume it?", yes=yes)
        _report(queue, writer.resume(queue, shown=stands))


@queues.command(
    "empty",
    cls=CliCommand,
    examples=("qdeck queues empty shop:mail:actions --dry-run", "qdeck queues empty mail --delayed --yes"),
)
@act_options
@click.option("--delayed", is_flag=True, help="Discard delayed jobs, too.")
def empty(queue: str | None, delayed: bool, **options: Any) -> None:
    """Empty a queue: discard the jobs that wait to run.

    `qdeck undo` restores them. Running jobs, dead letters and jobs that wait for others stay.
    """
    if delayed and options["plan_ref"] is not None:
        raise click.UsageError("--apply applies a plan as it is; leave the other options out")
    states = () if options["plan_ref"] is not None else ("ready", *(["delayed"] if delayed else []))
    act("discard", queue, need_queue=True, states=states, **options)


def _ask(ctx: click.Context, writer: Writer, queue: str, stands: Pause, question: str, *, yes: bool) -> None:
    """Ask before a pause is lifted or replaced that concerns others; end the command on no."""
    from qdeck.admin import QueueSettings
    from qdeck_console.cli.asking import NOT_CHANGED, may_lift

    if not may_lift(question, f"{queue} was paused", stands, yes=yes):
        ref = writer.resolve(queue)
        _report(queue, QueueSettings(queue=ref.name, adapter=ref.adapter, paused=True, changed=False), stands)
        ctx.exit(NOT_CHANGED)


def _report(queue: str, left: QueueSettings, stands: Pause | None = None) -> None:
    if settings().as_json:
        write_json({"adapter": left.adapter, "queue": left.queue, "paused": left.paused, "changed": left.changed})
        return
    from qdeck_console.cli.asking import pause_words

    word = "paused" if left.paused else "not paused"
    who = f" {safe(pause_words(stands))}" if stands is not None and left.paused else ""
    line(f"{safe(left.queue)} is {word if left.changed else f'{word} already{who}'}")
