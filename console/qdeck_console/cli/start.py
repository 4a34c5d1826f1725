"""Commands that start a console: `console`, `demo`."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Final

import click

from qdeck_console.cli.base import ascii_option, command, read_only_hint, settings
from qdeck_console.startup import loading
from qdeck_console.web import is_served

# Textual draws that often at most, and a key right after a frame waits for the next but one: a thirtieth of a second as
# it comes. Nothing here moves by itself, so no more is drawn than before.
_FRAMES_PER_S: Final = "250"


def need_console() -> None:
    """Raises where no console can be shown: without a terminal, or without Textual."""
    from qdeck import UsageError

    if not (sys.stdin.isatty() and sys.stdout.isatty()) and not is_served():
        raise UsageError("the console needs a terminal; qdeck --help lists the commands that need none")
    if importlib.util.find_spec("textual") is None:
        raise UsageError("The console needs Textual: pip install 'qdeck[console]'")
    os.environ.setdefault("TEXTUAL_FPS", _FRAMES_PER_S)


def open_console() -> int:
    """Opens the console on the server that is named, and returns its exit code."""
    need_console()
    given = settings()
    target = given.target()
    read_only = read_only_hint(target, given.confirm) is not None
    with loading():
        from qdeck_console.running import run_console

    return run_console(target.url, read_only=read_only, target=target, configuration=given.configuration())


@command("console", short_help="Opens the console.")
@ascii_option
@click.pass_context
def console(ctx: click.Context) -> None:
    """Opens the console; so does qdeck alone."""
    ctx.exit(open_console())


@command("demo", short_help="A server of its own with a lively workload.")
@ascii_option
@click.option("--headless", is_flag=True, help="Without the console: print the URL and run until SIGTERM.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), metavar="N", help="End after so long.")
@click.option("--cluster", is_flag=True, help="Three servers that make a cluster, instead of one.")
@click.pass_context
def demo(ctx: click.Context, *, headless: bool, seconds: float | None, cluster: bool) -> None:
    """Starts a server of its own with a lively workload, and opens the console on it."""
    if not headless:
        need_console()
    from qdeck_console.demo import run

    ctx.exit(run(headless=headless, seconds=seconds, json=settings().as_json, cluster=cluster))
