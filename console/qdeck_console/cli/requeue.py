"""`qdeck requeue` and `qdeck bury`: act on stuck jobs."""

from __future__ import annotations

from typing import Any

import click

from qdeck.admin import State, parse
from qdeck_console.cli.base import command
from qdeck_console.cli.operate import (
    act,
    act_options,
    check_filter,
    priority_option,
    state_option,
)


@command("requeue", examples=("qdeck requeue shop:mail:actions", "qdeck requeue shop:mail:actions --id 7f3a --yes"))
@act_options
@click.option("--all-running", is_flag=True, help="Also running jobs that are not stuck.")
@priority_option
def requeue(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Requeue stuck jobs.

    They return to their places in the queue. Late results of their previous workers are refused.
    With --id a running job that is not stuck can be requeued, too.
    """
    _act_on_stuck("requeue", queue, options, every=all_running)


@command(
    "bury",
    examples=("qdeck bury shop:mail:actions", "qdeck bury shop:mail:actions --state ready --where 'task:import' --yes"),
)
@act_options
@state_option
@click.option("--all-running", is_flag=True, help="Running jobs, whether they are stuck or not.")
def bury(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Bury jobs: make them dead letters.

    By default, buries stuck jobs only. With --state, or a filter on state, it also buries
    waiting jobs. Jobs that depend on them die
    with them, and their failure handlers are enqueued.
    """
    check_filter(options["where"])
    if all_running:
        options["states"] = (*options["states"], State.RUNNING.value)
    names_states = bool(options["states"]) or "state" in parse(options["where"]).fields
    _act_on_stuck("bury", queue, options, every=names_states)


def _act_on_stuck(verb: str, queue: str | None, options: dict[str, Any], *, every: bool) -> None:
    if options["plan_ref"] is None and not options["ids"] and not every:
        options["stuck"] = True
    act(verb, queue, **options)
