"""`qdeck jobs`: lists the jobs of a queue, or acts on all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from qdeck_console.cli import shapes
from qdeck_console.cli.base import Command, VerbGroup, read_priority, settings
from qdeck_console.cli.output import Column, JsonList, age, dumps, line, note, number, safe, table, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from qdeck._deck.model import Batch, JobRecord, Plan

_STATES: Final = ("ready", "delayed", "blocked", "running", "done", "dead", "cancelled")
_SHOWN: Final = 20  # entries of a plan that people get to see
_PAYLOAD: Final = 200  # characters of a payload that are made ready for a cell

jobs = VerbGroup("jobs", default="list", help="Lists the jobs of a queue, or acts on all that match.")

_state = click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="Only this state; repeats.")
_where = click.option("--where", default="", metavar="FILTER", help="Only what matches: 'error:Timeout* age>2h'.")


@jobs.command("list", cls=Command, short_help="Lists the jobs of a queue.")
@click.argument("queue")
@_state
@_where
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most so many.")
def list_jobs(queue: str, states: tuple[str, ...], where: str, limit: int | None) -> None:
    """Lists the jobs of a queue: the next to run first, those that ended newest first.

    To act on jobs: qdeck jobs cancel|discard|run|reprioritise QUEUE (see qdeck jobs cancel --help).
    """
    given = settings()
    check_filter(where)
    with given.deck() as deck:
        # One more than is shown tells whether there are more.
        found = deck.jobs(queue, state=states or None, where=where, limit=None if limit is None else limit + 1)
        cut = _Cut(found, limit)
        if given.as_json:
            with JsonList() as out:
                for record in cut:
                    out.add(shapes.job(record))
        elif not table(_COLUMNS, map(_cells, cut)) and not cut.more:
            note("qdeck: no job matches" if where or states else f"qdeck: there is no job in {queue}")
    if cut.more:
        note(f"qdeck: there are more than these {limit:,} (--limit)")


class _Cut:
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
    Column("id", most=40),
    Column("state"),
    Column("task", most=40),
    Column("prio", right=True),
    Column("tries", right=True),
    Column("age", right=True),
    Column("worker", most=40),
    Column("error", most=60),
    Column("payload", most=80),
)


def _cells(record: JobRecord) -> list[str]:
    error = f"{record.error}: {record.message}" if record.error else ""
    task = f"{record.task} ({record.name})" if record.name else record.task or "-"
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


def check_filter(where: str) -> None:
    """Raises for a filter that does not parse, pointing at the place, before the server is asked."""
    from qdeck._errors import InvalidFilter
    from qdeck._filter import explain, parse

    try:
        parse(where)
    except InvalidFilter as error:
        raise InvalidFilter(explain(where, error), position=error.position) from error


def change_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that acts on many jobs."""
    for option in reversed(
        (
            click.argument("queue"),
            _where,
            _state,
            click.option("--id", "ids", multiple=True, metavar="ID", help="This job; repeats."),
            click.option("--dry-run", is_flag=True, help="Only show what would be done; so it is without --yes."),
            click.option("--yes", is_flag=True, help="Do it."),
        )
    ):
        function = option(function)
    return function


def act(
    verb: str,
    queue: str,
    *,
    where: str,
    states: Sequence[str],
    ids: Sequence[str],
    dry_run: bool,
    yes: bool,
    priority: int | str | None = None,
) -> None:
    """Shows the plan of a change, or with `--yes` applies it."""
    if dry_run and yes:
        raise click.UsageError("--dry-run and --yes exclude each other", click.get_current_context())
    given = settings()
    check_filter(where)
    with given.deck() as deck:
        plan = deck.plan(verb, queue, ids=ids, where=where, state=states or None, priority=priority)
        batch = deck.change(plan) if yes else None
    if batch is None:
        if given.as_json:
            write_json(shapes.plan(plan))
        else:
            _print_plan(plan)
    elif given.as_json:
        write_json(shapes.batch(batch))
    else:
        _print_batch(batch)
    if not plan.entries:
        note("qdeck: nothing matches that this can be done to")
    _end(batch.skipped if batch else plan.skipped, batch)


def _end(skipped: Sequence[Any], batch: Batch | None) -> None:
    for skip in skipped[:_SHOWN]:
        note(f"qdeck: {skip.id} is skipped: {skip.why}")
    if len(skipped) > _SHOWN:
        note(f"qdeck: {len(skipped) - _SHOWN:,} more are skipped")
    if batch is not None and batch.error is not None:
        note(f"qdeck: ended after {batch.applied:,}: {batch.error}")
    failed = batch is not None and batch.error is not None
    click.get_current_context().exit(2 if failed else 1 if skipped else 0)


def _print_plan(plan: Plan) -> None:
    states = ", ".join(f"{count:,} {state}" for state, count in plan.counts().items())
    to = "" if plan.priority is None else f" to {plan.priority}"
    count = len(plan.entries)
    line(f"would {plan.verb.value} {_jobs(count)} of {safe(plan.queue)}{to}{': ' if states else ''}{states}")
    if plan.with_dependents and plan.verb.value in ("cancel", "discard"):
        line(f"{plan.with_dependents:,} of them have others waiting for them, which will not run then")
    table([Column("id", most=128), Column("state")], ([e.id, e.state] for e in plan.entries[:_SHOWN]))
    if count > _SHOWN:
        line(f"and {count - _SHOWN:,} more (--json has all of them)")
    if count:
        line("--yes does it")


_DONE: Final = {"cancel": "cancelled", "discard": "discarded", "run": "put in line", "reprioritise": "reprioritised"}


def _print_batch(batch: Batch) -> None:
    told = f"{_DONE[batch.verb.value]} {_jobs(batch.applied - batch.asked)} of {safe(batch.queue)}"
    line(f"{told}; {batch.asked:,} are running and will be told" if batch.asked else told)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


@jobs.command("cancel", cls=Command, short_help="Cancels waiting jobs; running ones are told.")
@change_options
def cancel(queue: str, **options: Any) -> None:
    """Cancels the jobs that match. Waiting ones will not run; running ones are told to stop."""
    act("cancel", queue, **options)


@jobs.command("discard", cls=Command, short_help="Removes jobs with all that is kept about them.")
@change_options
def discard(queue: str, **options: Any) -> None:
    """Removes the jobs that match, with all that is kept about them; running ones are left alone."""
    act("discard", queue, **options)


@jobs.command("run", cls=Command, short_help="Lets delayed jobs run now.")
@change_options
def run(queue: str, **options: Any) -> None:
    """Puts the delayed jobs that match in line now."""
    act("run", queue, **options)


@jobs.command("reprioritise", cls=Command, short_help="Changes the priority of waiting jobs.")
@change_options
@click.option("--priority", required=True, metavar="N", help="0 (first) to 899, or CRITICAL, HIGH, NORMAL, LOW.")
def reprioritise(queue: str, priority: str, **options: Any) -> None:
    """Changes the priority of the waiting jobs that match."""
    act("reprioritise", queue, priority=read_priority(priority), **options)
