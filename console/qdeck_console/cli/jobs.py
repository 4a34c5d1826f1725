"""`qdeck jobs`: lists the jobs of a queue, or acts on all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console import documents
from qdeck_console.cli.base import CliCommand, VerbGroup, read_priority, settings
from qdeck_console.cli.operate import STATES, act, act_options, check_filter, state_option, where_option
from qdeck_console.cli.output import JsonList, TextColumn, age, dumps, note, number, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qdeck.admin import JobRecord

_PAYLOAD: Final = 200  # characters of a payload that are made ready for a cell

jobs = VerbGroup("jobs", default="list", help="Lists the jobs of a queue, or acts on all that match.")

_state = click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only this state; repeats.")


@jobs.command("list", cls=CliCommand, short_help="Lists the jobs of a queue.")
@click.argument("queue")
@_state
@where_option
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
def list_jobs(queue: str, states: tuple[str, ...], where: str, limit: int | None) -> None:
    """Lists the jobs of a queue: the next to run first, those that ended newest first.

    To act on jobs: qdeck jobs cancel|discard|move|run|reprioritise QUEUE (see qdeck jobs cancel --help).
    """
    given = settings()
    check_filter(where)
    with given.reader() as reader:
        # One more than is shown tells whether there are more.
        found = reader.jobs(queue, state=states or None, where=where, limit=None if limit is None else limit + 1)
        cut = Cut(found, limit)
        if given.as_json:
            with JsonList() as out:
                for record in cut:
                    out.add(documents.job(record))
        elif not table(_COLUMNS, map(_cells, cut)) and not cut.more:
            note("qdeck: no job matches" if where or states else f"qdeck: there is no job in {queue}")
    if cut.more:
        note(f"qdeck: there are more than these {limit:,} (--limit)")


class Cut:
    """The first `limit` of some records; knows afterwards whether there were more."""

    def __init__(self, records: Iterable[JobRecord], limit: int | None) -> None:
        self._records = records
        self._limit = limit
        self.more = False

    def __iter__(self) -> Iterator[JobRecord]:
        for count, record in enumerate(self._records):
            if count == self._limit:
                self.more = True
                return
            yield record


_COLUMNS: Final = (
    TextColumn("id", most=40),
    TextColumn("state"),
    TextColumn("task", most=40),
    TextColumn("prio", right=True),
    TextColumn("attempts", right=True),
    TextColumn("age", right=True),
    TextColumn("worker", most=40),
    TextColumn("error", most=60),
    TextColumn("payload", most=80),
)


def _cells(record: JobRecord) -> list[str]:
    error = f"{record.error}: {record.message}" if record.error else ""
    task = f"{record.task or ''} ({record.name})".lstrip() if record.name else record.task or "-"
    payload = record.payload()
    return [
        record.id,
        record.state,
        task,
        number(record.priority),
        number(record.attempts),
        age(record.age_s),
        record.worker or "",
        error[:_PAYLOAD],
        "" if payload is None else dumps(payload)[:_PAYLOAD],
    ]


@jobs.command("cancel", cls=CliCommand, short_help="Cancels waiting jobs; running ones are told.")
@act_options
@state_option
def cancel(queue: str | None, **options: Any) -> None:
    """Cancels the jobs that match. Waiting ones will not run; running ones are told to stop."""
    act("cancel", queue, need_queue=True, **options)


@jobs.command("discard", cls=CliCommand, short_help="Removes jobs with all that is kept about them.")
@act_options
@state_option
def discard(queue: str | None, **options: Any) -> None:
    """Removes the jobs that match, with all that is kept about them; running ones are left alone."""
    act("discard", queue, need_queue=True, **options)


@jobs.command("complete", cls=CliCommand, short_help="Of other adapters: ends entries as if they went well.")
@act_options
@state_option
def complete(queue: str | None, **options: Any) -> None:
    """Ends the entries that match as if they went well: tasks of IFDB that others wait for, machines of VMPooler."""
    act("complete", queue, need_queue=True, **options)


@jobs.command("move", cls=CliCommand, short_help="Moves waiting jobs to another queue.")
@act_options
@state_option
@click.option("--to", "target", metavar="QUEUE", help="The queue that they go to.")
def move(queue: str | None, **options: Any) -> None:
    """Moves the waiting jobs that match to another queue, in their order and with their priority and history."""
    act("move", queue, need_queue=True, **options)


@jobs.command("run", cls=CliCommand, short_help="Lets delayed jobs run now.")
@act_options
@state_option
def run(queue: str | None, **options: Any) -> None:
    """Puts the delayed jobs that match in line now."""
    act("run", queue, need_queue=True, **options)


@jobs.command("reprioritise", cls=CliCommand, short_help="Changes the priority of waiting jobs.")
@act_options
@state_option
@click.option("--priority", metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW.")
def reprioritise(queue: str | None, priority: str | None, **options: Any) -> None:
    """Changes the priority of the waiting jobs that match."""
    new = None if priority is None else read_priority(priority)
    act("reprioritise", queue, need_queue=True, priority=new, **options)
