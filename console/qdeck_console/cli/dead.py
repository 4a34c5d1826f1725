"""`qdeck dead`: list dead letters or their groups, and act on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from qdeck.admin import counted
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings, suggesting
from qdeck_console.cli.columns import TextCell, TextColumn
from qdeck_console.cli.job import edit_command
from qdeck_console.cli.jobs import Cut
from qdeck_console.cli.operate import act, act_options, check_filter, id_option, priority_option, where_option, with_ids
from qdeck_console.cli.output import (
    JsonList,
    age,
    dumps,
    moment,
    note,
    note_unread,
    number,
    on_terminal,
    table,
    write_text,
)
from qdeck_console.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from qdeck.admin import Group, JobRecord, Reader

dead = VerbGroup(
    "dead",
    default="list",
    help="""List, retry, discard, export and edit dead letters.

    `qdeck dead QUEUE` is short for `qdeck dead list QUEUE`. Retry and discard show the plan and ask;
    --yes skips the question.
    """,
    examples=("qdeck dead --group", "qdeck dead retry --where 'error:Timeout*' --rate 5/s --sample 10 --yes"),
)
_KINDS: Final = ("pending", "clone", "ready", "tasks")


class _Kind(click.Choice[str]):
    """A kind, which may have the name of its key: `clone`, `dlq:clone`, `vmpooler__dlq__clone`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the kind."""
        return super().convert(value.removeprefix("vmpooler__dlq__").removeprefix("dlq:"), param, ctx)


kind_option = click.option(
    "--kind", type=_Kind(_KINDS), metavar="KIND",
    help=f"Only dead letters of VMPooler of this kind: {', '.join(_KINDS)}.",
)  # fmt: skip
_TEXT = 200  # characters of a message or a payload in a cell


def _of_kind(where: str, kind: str | None) -> str:
    """Return a filter, restricted to a kind of dead letters."""
    check_filter(where)
    return where if kind is None else f'tag:"kind:{kind}"' + (f" ({where})" if where else "")


@dead.command(
    "list",
    cls=CliCommand,
    examples=("qdeck dead --group", "qdeck dead shop:mail:actions --where 'failed<1h' --limit 20"),
)
@click.argument(
    "queue", shell_complete=suggesting("queues"), required=False, help="Only this queue. Default: all queues."
)
@where_option
@kind_option
@click.option("--group", is_flag=True, help="List groups by error class and message shape.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most this many. Default: all.")
@click.pass_context
def list_dead(
    ctx: click.Context, queue: str | None, where: str, limit: int | None, kind: str | None, *, group: bool
) -> None:
    """List the dead letters of a queue or of all queues, newest first.

    Exit code 1: a queue cannot be read.
    """
    where = _of_kind(where, kind)
    if group:
        ctx.exit(_list_groups(queue, where, limit))
    given = settings()
    unread: list[str] = []
    with given.reader() as reader:
        most = None if limit is None else limit + 1  # one more than is printed, to know whether there are more
        queues, where = reader.narrowed(queue, where)
        cut = Cut(reader.dead_letters(queues, where=where, limit=most, unread=None if queues else unread), limit)
        if given.as_json:
            with JsonList() as out:
                for record in cut:
                    out.add(documents.letter(record))
        elif not table(_COLUMNS, (_cells(record, reader) for record in cut)) and not cut.more and not unread:
            note("qdeck: no dead letters match" if where else "qdeck: no dead letters")
    if cut.undated:
        note(f"qdeck: the times of {counted(cut.undated, 'dead letter')} are not stored; they are listed last")
    if cut.more:
        note(f"qdeck: {counted(limit or 0, 'job')} listed, more exist (--limit {limit})")
    ctx.exit(note_unread(unread))


_COLUMNS = (
    TextColumn("queue", most=60),
    TextColumn("id", most=None),
    TextColumn("task", most=40, drop=1),
    TextColumn("attempts", right=True, drop=2),
    TextColumn("died", right=True),
    TextColumn("error", most=80, wraps=True),
    TextColumn("payload", most=60, drop=3),
)


def _cells(record: JobRecord, reader: Reader) -> list[str]:
    payload = record.payload()
    error = ("(permanent) " if record.is_permanent else "") + (record.error or "")
    error += f": {record.message}" if record.message else ""
    shown = "" if payload is None else dumps(payload)[:_TEXT]
    return [
        reader.label(record.ref), record.id, record.task or "-", number(record.attempts), age(record.age_s),
        error[:_TEXT], shown,
    ]  # fmt: skip


def _list_groups(queue: str | None, where: str, limit: int | None) -> int:
    given = settings()
    with given.reader() as reader:
        queues, where = reader.narrowed(queue, where)
        found = reader.groups(queues, where=where)
    left_out = note_unread(found.unread)
    groups = found.groups[:limit]
    if given.as_json:
        with JsonList() as out:
            for group in groups:
                out.add(documents.group(group, exact=found.exact))
    elif not table(_GROUP_COLUMNS, (_group_cells(group, reader) for group in groups)) and not found.unread:
        note("qdeck: no dead letters match" if where else "qdeck: no dead letters")
    if len(groups) < len(found.groups):
        note(f"qdeck: {counted(limit or 0, 'group')} listed, more exist (--limit {limit})")
    return left_out


_GROUP_COLUMNS = (
    TextColumn("count", right=True),
    TextColumn("queue", most=60),
    TextColumn("error", most=40),
    TextColumn("message", most=120, wraps=True),
    TextColumn("last", drop=1),
)


def _group_cells(group: Group, reader: Reader) -> list[TextCell | str]:
    error = "(permanent) " * group.is_permanent + group.error_class
    return [number(group.count), reader.label(group.ref), error, group.message_shape, moment(group.last_ms or None)]


@dead.command(
    "retry",
    cls=CliCommand,
    examples=(
        "qdeck dead retry --where 'error:Timeout*'",
        "qdeck dead retry shop:mail:actions --rate 5/s --sample 10 --yes",
    ),
)
@act_options
@click.option(
    "--sample", type=click.IntRange(min=1), metavar="N", help="Retry this many first; the rest only if they succeed."
)
@click.option(
    "--ignore-dependencies",
    is_flag=True,
    help="Run now the jobs that died because a dependency died. Default: they wait until it has succeeded.",
)
@priority_option
@kind_option
def retry(queue: str | None, kind: str | None, where: str, **options: Any) -> None:
    """Retry dead letters.

    They get all their attempts again and keep their history. With --rate or --sample this is a redrive: it stops by
    itself when the jobs die again.
    """
    act("retry", queue, where=_of_kind(where, kind), **options)


@dead.command("discard", cls=CliCommand, examples=("qdeck dead discard --where 'failed>30d' --yes",))
@act_options
@kind_option
def discard(queue: str | None, kind: str | None, where: str, **options: Any) -> None:
    """Discard dead letters with their records."""
    states = () if options["plan_ref"] else ("dead",)
    act("discard", queue, where=_of_kind(where, kind), states=states, **options)


@dead.command("export", cls=CliCommand, examples=("qdeck dead export --where 'error:Timeout*' > dead.jsonl",))
@click.argument(
    "queue", shell_complete=suggesting("queues"), required=False, help="Only this queue. Default: all queues."
)
@where_option
@id_option
@kind_option
@click.pass_context
def export(ctx: click.Context, queue: str | None, where: str, ids: tuple[str, ...], kind: str | None) -> None:
    """Export dead letters to stdout, one line of JSON each.

    Exit code 1: a queue cannot be read.
    """
    where = _of_kind(where, kind)
    given = settings()
    from qdeck.admin import unread_words

    unread: list[str] = []
    with given.reader() as reader:
        queues, wanted = reader.narrowed(queue, where)
        wanted = with_ids(wanted, reader.full_ids(queues, ids) if ids else ())
        letters = reader.dead_letters(queues, where=wanted, unread=None if queues else unread)
        total = None if wanted or not sys.stderr.isatty() else _count(reader, queues)
        with Progress("export", total, is_shown=not on_terminal()) as progress:  # never between the lines themselves
            for count, record in enumerate(letters, 1):
                found = reader.job(record.ref, record.handle)
                write_text(dumps(documents.whole_letter(found, record)) + "\n")
                if found.body is None and found.body_bytes:
                    unread.append(unread_words(f"job {found.id} of {reader.label(found.ref)}", found.problem))
                progress(count)
    ctx.exit(note_unread(unread))


def _count(reader: Reader, queues: Collection[str]) -> int:
    """Return how many dead letters there are."""
    return sum(row.dead or 0 for row in reader.snapshot().queues if row.ref.is_in(queues or None))


dead.add_command(edit_command("edit", "qdeck dead edit shop:mail:actions 7f3a"))
