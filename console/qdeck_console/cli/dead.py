"""`qdeck dead`: dead letters, one by one or in groups, and what is done about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from qdeck.admin import iso
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, settings
from qdeck_console.cli.job import edit_command
from qdeck_console.cli.jobs import Cut
from qdeck_console.cli.operate import act, act_options, check_filter, plain_queue, priority_option, where_option
from qdeck_console.cli.output import JsonList, TextColumn, age, dumps, note, note_unread, number, table, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck.admin import Group, JobRecord, Reader

dead = VerbGroup("dead", default="list", help="Dead letters: lists them, or retries, discards, exports, edits them.")
_TEXT = 200  # characters of a message or a payload that are made ready for a cell


def _records(
    reader: Reader, queue: str | None, where: str, limit: int | None, unread: list[str]
) -> Iterator[JobRecord]:
    """The dead letters that match, of a queue or of all; queues that cannot be read are noted in `unread`."""
    from qdeck import QdeckError
    from qdeck.admin import concerns_all, parse, unread_words

    if queue is not None:
        refs = [reader.resolve(*plain_queue(queue))]
    else:
        wanted = parse(where).pushdown().queues
        # One whose counters cannot be read may have some.
        rows = [row for row in reader.snapshot(visible=()).queues if row.dead or row.problem is not None]
        unread += reader.unread
        refs = [row.ref for row in rows if row.ref.is_in(wanted)]
    left = limit
    for ref in refs:
        try:
            for record in reader.jobs(ref, state="dead", where=where, limit=left):
                yield record
                if left is not None:
                    left -= 1
        except QdeckError as error:
            if queue is not None or concerns_all(error):
                raise
            unread.append(unread_words(reader.label(ref), error))
        if left is not None and left <= 0:
            return


@dead.command("list", cls=CliCommand, short_help="Lists dead letters, or groups of them.")
@click.argument("queue", required=False)
@where_option
@click.option("--group", is_flag=True, help="By error class and shape of message.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
@click.pass_context
def list_dead(ctx: click.Context, queue: str | None, where: str, limit: int | None, *, group: bool) -> None:
    """Lists the dead letters of a queue or of all, newest first. The exit code is 1 when a queue cannot be read.

    To act on them: qdeck dead retry|discard|export|edit (see qdeck dead retry --help).
    """
    check_filter(where)
    if group:
        ctx.exit(_list_groups(queue, where, limit))
    given = settings()
    unread: list[str] = []
    with given.reader() as reader:
        cut = Cut(_records(reader, queue, where, None if limit is None else limit + 1, unread), limit)
        if given.as_json:
            with JsonList() as out:
                for record in cut:
                    out.add(documents.letter(record))
        elif not table(_COLUMNS, (_cells(record, reader) for record in cut)) and not cut.more and not unread:
            note("qdeck: no dead letter matches" if where else "qdeck: there are no dead letters")
    if cut.more:
        note(f"qdeck: there are more than these {limit:,} (--limit)")
    ctx.exit(note_unread(unread))


_COLUMNS = (
    TextColumn("queue", most=60),
    TextColumn("id", most=40),
    TextColumn("task", most=40),
    TextColumn("attempts", right=True),
    TextColumn("died", right=True),
    TextColumn("error", most=80),
    TextColumn("payload", most=60),
)


def _cells(record: JobRecord, reader: Reader) -> list[str]:
    payload = record.payload()
    told = f"{record.error}: {record.message}" if record.message else record.error or ""
    shown = "" if payload is None else dumps(payload)[:_TEXT]
    return [
        reader.label(record.ref), record.id, record.task or "-", number(record.attempts), age(record.age_s),
        told[:_TEXT], shown,
    ]  # fmt: skip


def _list_groups(queue: str | None, where: str, limit: int | None) -> int:
    given = settings()
    with given.reader() as reader:
        found = reader.groups(plain_queue(queue), where=where)
    left_out = note_unread(found.unread)
    groups = found.groups[:limit]
    if given.as_json:
        with JsonList() as out:
            for group in groups:
                out.add(documents.group(group, exact=found.exact))
    elif not table(_GROUP_COLUMNS, (_group_cells(group, reader) for group in groups)) and not found.unread:
        note("qdeck: no dead letter matches" if where else "qdeck: there are no dead letters")
    if len(groups) < len(found.groups):
        note(f"qdeck: there are more than these {limit:,} groups (--limit)")
    return left_out


_GROUP_COLUMNS = (
    TextColumn("count", right=True),
    TextColumn("queue", most=60),
    TextColumn("error", most=40),
    TextColumn("message", most=120),
    TextColumn("last"),
)


def _group_cells(group: Group, reader: Reader) -> list[str]:
    last = iso(group.last_ms or None) or "-"
    return [number(group.count), reader.label(group.ref), group.error_class, group.message_shape, last]


@dead.command("retry", cls=CliCommand, short_help="Lets dead letters run again.")
@act_options
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="So many first; the rest if they succeed.")
@priority_option
def retry(queue: str | None, **options: Any) -> None:
    """Lets the dead letters that match run again, with all their attempts; what happened to them stays in their record.

    With --rate they go back one after the other, and it stops by itself when they die again.
    """
    act("retry", queue, **options)


@dead.command("discard", cls=CliCommand, short_help="Removes dead letters.")
@act_options
def discard(queue: str | None, **options: Any) -> None:
    """Removes the dead letters that match, with all that is kept about them."""
    act("discard", queue, states=() if options["plan_ref"] else ("dead",), **options)


@dead.command("export", cls=CliCommand, short_help="Writes dead letters as lines of JSON.")
@click.argument("queue", required=False)
@where_option
@click.option("--id", "ids", multiple=True, metavar="ID", help="This job; repeats.")
@click.pass_context
def export(ctx: click.Context, queue: str | None, where: str, ids: tuple[str, ...]) -> None:
    """Writes the dead letters that match to stdout, all about each on a line of JSON. It changes nothing.

    The exit code is 1 when a queue cannot be read.
    """
    check_filter(where)
    given = settings()
    wanted = where
    if ids:
        wanted = f"id:{','.join(ids)}" + (f" ({where})" if where else "")
    from qdeck.admin import unread_words

    unread: list[str] = []
    with given.reader() as reader:
        for record in _records(reader, queue, wanted, None, unread):
            found = reader.job(record.ref, record.handle)
            write_text(dumps(documents.whole_letter(found, record)) + "\n")
            if found.body is None and found.body_bytes:
                unread.append(unread_words(f"job {found.id} of {reader.label(found.ref)}", found.problem))
    ctx.exit(note_unread(unread))


dead.add_command(edit_command("edit"))
