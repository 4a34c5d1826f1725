"""`qdeck console` and `qdeck demo`: open a console."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Final

import click

from qdeck_console.browser_mode import is_served
from qdeck_console.cli.base import command, read_only_hint, settings
from qdeck_console.startup import loading

# Textual draws that often at most, and a key right after a frame waits for the next but one: a thirtieth of a second as
# it comes. Nothing here moves by itself, so no more is drawn than before.
_FRAMES_PER_S: Final = "250"


def need_console() -> None:
    """Raise without a terminal or without Textual."""
    from qdeck import UsageError

    if not (sys.stdin.isatty() and sys.stdout.isatty()) and not is_served():
        raise UsageError("the console needs a terminal", hint="`qdeck --help` lists the commands that need none.")
    need_textual()


def need_textual() -> None:
    """Raise without Textual, and let it draw as often as keys come."""
    from qdeck import UsageError

    if importlib.util.find_spec("textual") is None:
        raise UsageError("the console needs Textual", hint="Run: pip install 'qdeck[console]'")
    os.environ.setdefault("TEXTUAL_FPS", _FRAMES_PER_S)


def open_console() -> int:
    """Open the console on the given server; return its exit code."""
    need_console()
    given = settings()
    target = given.target()
    read_only = read_only_hint(target, given.confirm) is not None
    with loading():
        from qdeck_console.run_console import run_console

    return run_console(target.url, read_only=read_only, target=target, configuration=given.configuration())


@command("console", examples=("qdeck console", "qdeck console --context prod"))
@click.pass_context
def console(ctx: click.Context) -> None:
    """Open the console, as qdeck alone does."""
    ctx.exit(open_console())


@command("demo", examples=("qdeck demo", "qdeck demo --incident 1", "qdeck demo --headless --seconds 60"))
@click.option("--headless", is_flag=True, help="Print the URL and run without the console until SIGTERM.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Exit after this many seconds. Default: never.",
)
@click.option("--cluster", is_flag=True, help="Start a cluster of three servers.")
@click.option("--incident", type=click.IntRange(1, 5), metavar="N", help="Start one of five incidents to solve.")
@click.pass_context
def demo(ctx: click.Context, *, headless: bool, seconds: float | None, cluster: bool, incident: int | None) -> None:
    """Start a demo server with a workload, and open the console.

    Without a terminal, it prints the URL of the server, its status and one frame, and runs until it is stopped.
    The server and its data are removed at the end.
    """
    if not headless:
        need_textual()
    from qdeck_console.demo import run

    ctx.exit(run(headless=headless, seconds=seconds, json=settings().as_json, cluster=cluster, incident=incident))
