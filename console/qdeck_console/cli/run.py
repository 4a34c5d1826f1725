"""Run the command line: the top group, errors and exit codes. The codes are a contract with scripts."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import Final

import click

from qdeck_console.cli.base import COMPLETE, CONTEXT_SETTINGS, OPTIONS_THAT_WRITE, LateGroup

OK: Final = 0
DEGRADED: Final = 1  # degraded, or a part was skipped
FAILED: Final = 2
USAGE: Final = 64
UNREACHABLE: Final = 69
NOT_ALLOWED: Final = 77
INTERRUPTED: Final = 130
_SIMILAR: Final = 0.7  # of an option to the one that is suggested for it: both begin with two dashes

SECTIONS: Final = {
    "Inspect": {
        "console": ("open_console:console", "Open the console, as qdeck alone does."),
        "status": ("status:status", "Show every queue and the problems of the server."),
        "queues": ("queues:queues", "List, pause, resume and empty queues."),
        "jobs": ("jobs:jobs", "List the jobs of a queue, or act on those that match."),
        "job": ("job:job", "Show or edit one job."),
        "dead": ("dead:dead", "List, retry, discard, export and edit dead letters."),
        "stuck": ("stuck:stuck", "List stuck jobs, with the reason."),
        "find": ("find:find", "Find jobs in all queues."),
        "workers": ("workers:workers", "List the workers, or ask one to be quiet, to resume or to stop."),
        "health": ("health:health", "Check the health of the queues and of the server."),
        "activity": ("activity:activity", "Show the log of operations."),
        "snapshot": ("snapshot:snapshot", "Print one frame of the console, as text or SVG."),
    },
    "Operate": {
        "requeue": ("requeue:requeue", "Requeue stuck jobs."),
        "bury": ("requeue:bury", "Bury jobs: make them dead letters."),
        "purge": ("purge:purge", "Remove what the purge rules select."),
        "clean": ("clean:clean", "Remove the temporary queues of a task, or orphaned ones."),
        "undo": ("undo:undo", "Undo a batch."),
        "enqueue": ("enqueue:enqueue", "Create a job."),
        "schedule": ("schedule:schedule", "List, add, change, pause and run schedules."),
    },
    "Run": {
        "worker": ("worker:worker", "Run the jobs of an application."),
        "agent": ("agent:agent", "Run maintenance, purges, health checks and metrics."),
        "serve": ("serve:serve", "Serve the console to browsers."),
        "demo": ("open_console:demo", "Start a demo server with a workload, and open the console."),
    },
    "Set up": {
        "doctor": ("doctor:doctor", "Check connection, permissions, server settings and configuration."),
        "config": ("config:config", "Trust a configuration file."),
        "completion": ("completion:completion", "Print the completion script of a shell."),
    },
}


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        # Not from the package: it would bring the client library along.
        from importlib.metadata import version

        click.echo(f"qdeck {version('qdeck')}")
        ctx.exit()


def make_top() -> LateGroup:
    """Return the whole command line."""
    made = LateGroup(
        "qdeck",
        sections=SECTIONS,
        help="Inspect and operate job queues on Redis and Valkey. Without a command, open the console.",
        epilog="Exit codes: 0 done, 1 degraded, partly skipped or not confirmed, 2 unhealthy or failed, "
        "64 wrong usage, 69 server unreachable, 77 not allowed. `qdeck COMMAND --help` has the options of a command.",
        invoke_without_command=True,
        context_settings=CONTEXT_SETTINGS,
        callback=_alone,
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_version,
                help="Print the version.",
            )
        ],
    )
    made.examples = (
        "qdeck dead --group                                   # inspect: what fails, by error",
        "qdeck dead retry --where 'error:Timeout*' --rate 5/s # operate: shows the plan and asks",
        "qdeck worker shop:app                                # run",
        "qdeck doctor                                         # set up",
    )
    return made


@click.pass_context
def _alone(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        from qdeck_console.cli.open_console import open_console

        ctx.exit(open_console())


def run(args: list[str]) -> int:
    """Run one command line and return its exit code. Every error is one message on stderr."""
    _open_streams()
    try:
        try:
            code = _run(args)
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
            return OK  # the reader has enough
        return code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            error.possibilities[:] = [
                name
                for name in error.possibilities
                if name not in OPTIONS_THAT_WRITE
                and difflib.SequenceMatcher(None, error.option_name, name).ratio() >= _SIMILAR
            ]
        return _report(error.format_message(), _usage_hint(error), USAGE)
    except Exception as error:  # noqa: BLE001 - the last resort: no command ends with a traceback
        return _report_error(error)


def _run(args: list[str]) -> int:
    top = make_top()
    if COMPLETE in os.environ:
        from qdeck_console.cli.completion import answer

        return answer(top, os.environ[COMPLETE])
    try:
        with top.make_context("qdeck", args) as ctx:
            top.invoke(ctx)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    return OK


def _open_streams() -> None:
    # Closed ones are None; and what is opened next, a connection, would get their numbers.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends


def _close_stdout() -> None:
    # The interpreter flushes once more at its end, and would complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage_hint(error: click.ClickException) -> str:
    ctx = getattr(error, "ctx", None)
    return f"See `{ctx.command_path} --help`." if ctx else ""


def _report_error(error: Exception) -> int:
    from qdeck import NotAllowed, QdeckError, ServerUnreachable, UnknownJob, UsageError

    if not isinstance(error, QdeckError):
        if os.environ.get("QDECK_TRACEBACK"):
            raise error
        if isinstance(error, OSError) and error.strerror:  # a full disk, a file without permission: not a bug
            return _report(f"{error.filename}: {error.strerror}" if error.filename else error.strerror, "", FAILED)
        hint = "Set QDECK_TRACEBACK=1 for a traceback. Please report a bug of qdeck."
        return _report(f"{type(error).__name__}: {error}", hint, FAILED)
    kinds = ((UsageError, USAGE), (UnknownJob, USAGE), (ServerUnreachable, UNREACHABLE), (NotAllowed, NOT_ALLOWED))
    code = next((own for kind, own in kinds if isinstance(error, kind)), FAILED)
    return _report(str(error), error.hint, code)


def _report(message: str, hint: str, code: int) -> int:
    from qdeck_console.cli.output import note

    note(f"qdeck: {message}")
    if hint:
        note(f"  {hint}")
    return code
