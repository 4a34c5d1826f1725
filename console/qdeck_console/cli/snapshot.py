"""`qdeck snapshot`: print one frame of the console."""

from __future__ import annotations

import asyncio
import importlib.util
import re

import click

from qdeck_console.cli.base import command, read_only_hint, settings, suggesting
from qdeck_console.cli.output import line

THEMES = ("ink", "paper", "16")


class Size(click.ParamType[tuple[int, int]]):
    """Columns and rows, as `160x48`."""

    name = "size"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Parse it."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(\d{2,3})[x×](\d{2,3})", value)
        if match is None:
            self.fail(f"{value!r} is not a size. Write columns and rows, such as 160x48.", param, ctx)
        return int(match[1]), int(match[2])


@command("snapshot", examples=("qdeck snapshot --screen dead", "qdeck snapshot --svg --theme paper > queues.svg"))
@click.option("--size", type=Size(), default="160x48", metavar="WxH", show_default=True, help="Columns and rows.")
@click.option(
    "--screen",
    shell_complete=suggesting("screens"),
    default="queues",
    metavar="NAME",
    show_default=True,
    help="Screen to draw: queues, dead, …",
)
@click.option(
    "--theme",
    type=click.Choice(THEMES),
    metavar="THEME",
    default="ink",
    show_default=True,
    help="Colours of --svg: ink, paper or 16.",
)
@click.option("--svg", is_flag=True, help="Print SVG instead of text.")
def snapshot(size: tuple[int, int], screen: str, theme: str, *, svg: bool) -> None:
    """Print one frame of the console, as text or SVG.

    This needs no terminal.
    """
    from qdeck import UsageError

    if importlib.util.find_spec("textual") is None:
        raise UsageError("qdeck snapshot needs Textual: pip install 'qdeck[console]'")
    given = settings()
    target = given.target()
    from qdeck_console.app import ConsoleApp
    from qdeck_console.contexts import Contexts
    from qdeck_console.snapshot import take

    if screen not in ConsoleApp.MODES:
        raise UsageError(f"unknown screen {screen!r}", hint=f"Use one of: {', '.join(ConsoleApp.MODES)}.")
    with given.reader() as reader:
        reader.snapshot()  # an error of the server ends the command: it is not drawn
    contexts = Contexts(target, given.configuration())
    read_only = read_only_hint(target, given.confirm) is not None
    context = contexts.describe(target, read_only=read_only)
    app = ConsoleApp(contexts, context, theme=f"qdeck-{theme}")
    frame = asyncio.run(take(app, screen, size))
    line(frame.svg if svg else frame.text)
