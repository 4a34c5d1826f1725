"""`qdeck jobs`: list the jobs of a queue, or act on those that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from qdeck.admin import State, counted
from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, read_priority, settings, suggesting
from qdeck_console.cli.columns import TextColumn
from qdeck_console.cli.operate import (
    act,
    act_options,
    check_filter,
    id_option,
    in_states,
    own_states,
    state_option,
    where_option,
    with_ids,
)
from qdeck_console.cli.output import JsonList, age, dumps, moment, note, number, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qdeck.admin import JobRecord

_PAYLOAD: Final = 200  # characters of a payload in a cell
_DELAYED: Final = "state:delayed"  # as the name of a key stands for it

jobs = VerbGroup(
    "jobs",
    default="list",
    help="""List the jobs of a queue, or act on those that match.

    `qdeck jobs QUEUE` is short for `qdeck jobs list QUEUE`. The other commands change jobs. Each shows the
    plan and asks; --yes skips the question.
    """,
    examples=("qdeck jobs shop:mail:actions", "qdeck jobs cancel shop:mail:actions --where 'task:send_mail age>2h'"),
)


@jobs.command(
    "list",
    cls=CliCommand,
    examples=(
        "qdeck jobs shop:mail:actions --state dead --limit 20",
        "qdeck jobs shop:mail:actions --where 'payload.user:42' --json",
    ),
)
@click.argument("queue", shell_complete=suggesting("queues"), help="Queue: its name, ADAPTER/NAME, or one of its keys.")
@state_option
@where_option
@id_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most this many. Default: all.")
def list_jobs(queue: str, states: tuple[str, ...], where: str, ids: tuple[str, ...], limit: int | None) -> None:
    """List the jobs of a queue.

    The next job to run comes first; jobs that ended are listed newest first.
    """
    given = settings()
    check_filter(where)
    with given.reader() as reader:
        # Read one more than is printed, to know whether there are more.
        most = None if limit is None else limit + 1
        queues, where = reader.narrowed(queue, in_states(where, states))
        where = with_ids(where, reader.full_ids(queues, ids) if ids else ())
        found = (
            reader.jobs(*queues, state=own_states(states), where=where, limit=most)
            if queues
            else reader.dead_letters(where=where, limit=most)  # a key with dead letters of several queues
        )
        cut = Cut(found, limit)
        if given.as_json:
            with JsonList() as out:
                for record in cut:
                    out.add(documents.job(record))
        elif not _write_table(cut, with_due=states == (State.DELAYED,) or where == _DELAYED) and not cut.more:
            note("qdeck: no jobs match" if where or states else f"qdeck: no jobs in {queue}")
    if cut.more:
        note(f"qdeck: {counted(limit or 0, 'job')} listed, more exist (--limit {limit})")


class Cut:
    """The first `limit` of some records; `more` says afterwards whether there were more, `undated` how many of them
    have no time.
    """

    def __init__(self, records: Iterable[JobRecord], limit: int | None) -> None:
        self._records = records
        self._limit = limit
        self.more = False
        self.undated = 0

    def __iter__(self) -> Iterator[JobRecord]:
        for count, record in enumerate(self._records):
            if count == self._limit:
                self.more = True
                return
            self.undated += not record.moment_ms
            yield record


_COLUMNS: Final = (
    TextColumn("id", most=None),
    TextColumn("state"),
    TextColumn("task", most=40, drop=1),
    TextColumn("prio", right=True, drop=4),
    TextColumn("attempts", right=True, drop=3),
    TextColumn("age", right=True, drop=2),
    TextColumn("worker", most=40),
    TextColumn("error", most=60, wraps=True),
    TextColumn("payload", most=80, drop=5),
)


_DUE_AT: Final = 6  # the column before which delayed jobs have theirs


def _write_table(records: Iterable[JobRecord], *, with_due: bool) -> int:
    if not with_due:
        return table(_COLUMNS, map(_cells, records))
    columns = (*_COLUMNS[:_DUE_AT], TextColumn("due", right=True), *_COLUMNS[_DUE_AT:])
    return table(
        columns, ([*(cells := _cells(one))[:_DUE_AT], moment(one.due_ms), *cells[_DUE_AT:]] for one in records)
    )


def state_words(record: JobRecord) -> str:
    """Return the state of a job, and how its own system calls it."""
    return record.state if record.native_state == record.state else f"{record.state} ({record.native_state})"


def _cells(record: JobRecord) -> list[str]:
    error = ": ".join(part for part in (record.error, record.message) if part) if record.error else ""
    task = f"{record.task or ''} ({record.name})".lstrip() if record.name else record.task or "-"
    payload = record.payload()
    return [
        record.id,
        state_words(record),
        task,
        record.priority_text or "-",
        number(record.attempts),
        age(record.age_s),
        record.worker or "",
        error[:_PAYLOAD],
        "" if payload is None else dumps(payload)[:_PAYLOAD],
    ]


@jobs.command(
    "cancel", cls=CliCommand, examples=("qdeck jobs cancel shop:mail:actions --where 'task:newsletter' --yes",)
)
@act_options
@state_option
def cancel(queue: str | None, **options: Any) -> None:
    """Cancel jobs.

    Waiting jobs do not run. Running jobs are asked to stop.
    """
    act("cancel", queue, need_queue=True, **options)


@jobs.command("discard", cls=CliCommand, examples=("qdeck jobs discard shop:mail:actions --state cancelled --yes",))
@act_options
@state_option
def discard(queue: str | None, **options: Any) -> None:
    """Discard jobs with their records.

    Running jobs are skipped.
    """
    act("discard", queue, need_queue=True, **options)


@jobs.command("complete", cls=CliCommand, examples=("qdeck jobs complete shop:mail:actions --id 7f3a --yes",))
@act_options
@state_option
def complete(queue: str | None, **options: Any) -> None:
    """Complete jobs without running them.

    Jobs that depend on them can run. The manager of VMPooler destroys the machines.
    """
    act("complete", queue, need_queue=True, **options)


@jobs.command(
    "move",
    cls=CliCommand,
    examples=("qdeck jobs move shop:mail:actions --to shop:bulk:actions --where 'priority>500' --yes",),
)
@act_options
@state_option
@click.option(
    "--to",
    "target",
    metavar="QUEUE",
    shell_complete=suggesting("queues"),
    help="[required] Queue to move the jobs to.",
)
@click.option("--create", is_flag=True, help="Create that queue if it does not exist.")
def move(queue: str | None, **options: Any) -> None:
    """Move waiting jobs to another queue.

    They keep their order, priority and history. The plan names what is wrong with the other queue: no live worker
    serves it, or none has their tasks.
    """
    if options["target"] is None and options["plan_ref"] is None:
        raise click.UsageError("--to is missing: name the queue to move the jobs to", click.get_current_context())
    act("move", queue, need_queue=True, **options)


@jobs.command("run", cls=CliCommand, examples=("qdeck jobs run shop:mail:actions --where 'due>1h' --yes",))
@act_options
@state_option
def run(queue: str | None, **options: Any) -> None:
    """Run delayed jobs now."""
    act("run", queue, need_queue=True, **options)


@jobs.command(
    "reprioritise",
    cls=CliCommand,
    examples=("qdeck jobs reprioritise shop:mail:actions --id 7f3a --priority HIGH --yes",),
)
@act_options
@state_option
@click.option("--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW.")
def reprioritise(queue: str | None, priority: str | None, **options: Any) -> None:
    """Change the priority of waiting jobs."""
    new = None if priority is None else read_priority(priority)
    act("reprioritise", queue, need_queue=True, priority=new, **options)
