"""`qdeck requeue` and `qdeck bury`: what is done about stuck jobs."""

from __future__ import annotations

from typing import Any

import click

from qdeck_console.cli.base import command
from qdeck_console.cli.operate import (
    act,
    act_options,
    priority_option,
    state_option,
)


@command("requeue", short_help="Puts running jobs back in line, fenced.")
@act_options
@click.option("--all-running", is_flag=True, help="Also running jobs that are not stuck.")
@priority_option
def requeue(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Puts the stuck jobs that match back to their old places in line; what their workers say of them is refused then.

    With --id also a running job that is not stuck can be named.
    """
    _act_on_stuck("requeue", queue, options, every=all_running)


@command("bury", short_help="Puts jobs to the dead letters.")
@act_options
@state_option
@click.option("--all-running", is_flag=True, help="Also running jobs that are not stuck.")
def bury(queue: str | None, *, all_running: bool, **options: Any) -> None:
    """Puts the stuck jobs that match to the dead letters; with --state also jobs that wait.

    Those that wait for them die with them, and their failure handlers are made.
    """
    _act_on_stuck("bury", queue, options, every=all_running or bool(options.get("states")))


def _act_on_stuck(verb: str, queue: str | None, options: dict[str, Any], *, every: bool) -> None:
    if options["plan_ref"] is None and not options["ids"] and not every:
        options["stuck"] = True
    act(verb, queue, **options)
