"""Runs the command line: the top group, and what becomes of errors. Exit codes are a promise, see `EXIT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from qdeck_console.cli.base import CONTEXT_SETTINGS, OPTIONS_THAT_WRITE, LateGroup

OK: Final = 0
DEGRADED: Final = 1  # the thing asked about is degraded, or a part was skipped
FAILED: Final = 2
USAGE: Final = 64
UNREACHABLE: Final = 69
NOT_ALLOWED: Final = 77
INTERRUPTED: Final = 130

COMMANDS: Final = {
    "console": ("start:console", "Opens the console; so does qdeck alone."),
    "snapshot": ("snapshot:snapshot", "One frame of the console, as text or SVG."),
    "serve": ("serve:serve", "The console in a browser."),
    "demo": ("start:demo", "A server of its own with a lively workload, and the console on it."),
    "status": ("status:status", "One look at every queue."),
    "jobs": ("jobs:jobs", "Lists the jobs of a queue, or cancels, discards, moves, runs, reprioritises them."),
    "job": ("job:job", "All about one job, or its payload edited."),
    "dead": ("dead:dead", "Dead letters: lists, groups, retries, discards, exports, edits them."),
    "stuck": ("stuck:stuck", "What is stuck, and why."),
    "requeue": ("requeue:requeue", "Puts stuck jobs back in line; who had them has lost them."),
    "bury": ("requeue:bury", "Puts jobs to the dead letters."),
    "undo": ("undo:undo", "Takes back what was done."),
    "activity": ("activity:activity", "The log of operations."),
    "find": ("find:find", "Where a job is."),
    "health": ("health:health", "The verdict, with all that is behind it."),
    "purge": ("purge:purge", "What the purge rules would remove, and removing exactly that."),
    "doctor": ("doctor:doctor", "Checks connection, rights, server settings and configuration."),
    "config": ("config:config", "Trusts a qdeck.toml of a directory."),
    "enqueue": ("enqueue:enqueue", "Makes a job."),
    "worker": ("worker:worker", "Runs jobs until SIGTERM."),
    "workers": ("workers:workers", "Lists the workers, or asks one to be quiet or to stop."),
    "agent": ("agent:agent", "Auto-purge, health, history and metrics, until SIGTERM."),
    "schedule": ("schedule:schedule", "Lists, adds, changes, pauses and runs cron rules."),
    "clean": ("clean:clean", "Removes the temporary queues of a task, or orphaned ones."),
    "queues": ("queues:queues", "Lists the queues, pauses and resumes them."),
}


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        # Not from the package: it would bring the client library along.
        from importlib.metadata import version

        click.echo(f"qdeck {version('qdeck')}")
        ctx.exit()


def _top() -> LateGroup:
    return LateGroup(
        "qdeck",
        late=COMMANDS,
        help="An operations console for queues on Redis or Valkey. Alone, it opens the console.",
        epilog="Exit codes: 0 done, 1 degraded or partly skipped, 2 unhealthy or failed, 64 wrong usage, "
        "69 server unreachable, 77 not allowed.",
        invoke_without_command=True,
        context_settings=CONTEXT_SETTINGS,
        callback=_alone,
        params=[
            click.Option(
                ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version, help="The version."
            )
        ],
    )


@click.pass_context
def _alone(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        from qdeck_console.cli.start import open_console

        ctx.exit(open_console())


def run(args: list[str]) -> int:
    """Runs one command line and returns its exit code; every error is told in words on stderr."""
    _open_streams()
    try:
        try:
            code = _run(args)
            sys.stdout.flush()
        except BrokenPipeError:
            _close_stdout()
            return OK  # whoever reads has enough
        return code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            error.possibilities[:] = [name for name in error.possibilities if name not in OPTIONS_THAT_WRITE]
        return _tell(error.format_message(), _usage_hint(error), USAGE)
    except Exception as error:  # noqa: BLE001 - the last resort: no command ends with a traceback
        return _tell_error(error)


def _run(args: list[str]) -> int:
    top = _top()
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
    return f"{ctx.command_path} --help tells more" if ctx else ""


def _tell_error(error: Exception) -> int:
    from qdeck import NotAllowed, QdeckError, ServerUnreachable, UnknownJob, UsageError

    if not isinstance(error, QdeckError):
        if os.environ.get("QDECK_TRACEBACK"):
            raise error
        if isinstance(error, OSError) and error.strerror:  # a full disk, a file that may not be read: no fault of ours
            return _tell(f"{error.filename}: {error.strerror}" if error.filename else error.strerror, "", FAILED)
        hint = "QDECK_TRACEBACK=1 shows where; if it is a fault of qdeck, please report it"
        return _tell(f"{type(error).__name__}: {error}", hint, FAILED)
    kinds = ((UsageError, USAGE), (UnknownJob, USAGE), (ServerUnreachable, UNREACHABLE), (NotAllowed, NOT_ALLOWED))
    code = next((own for kind, own in kinds if isinstance(error, kind)), FAILED)
    return _tell(str(error), error.hint, code)


def _tell(message: str, hint: str, code: int) -> int:
    from qdeck_console.cli.output import note

    note(f"qdeck: {message}")
    if hint:
        note(f"  {hint}")
    return code
