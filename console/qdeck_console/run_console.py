"""Runs the console in this terminal."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from qdeck.admin import Target
from qdeck_console.app import ConsoleApp
from qdeck_console.contexts import LIVE_S, Contexts
from qdeck_console.terminal import check_terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck.admin import Configuration


def run_console(
    url: str,
    *,
    read_only: bool = False,
    title: str | None = None,
    seconds: float | None = None,
    target: Target | None = None,
    configuration: Configuration | None = None,
    on_start: Callable[[ConsoleApp], None] | None = None,
) -> int:
    """Run the console until it is left, or for `seconds`; return the exit code.

    With a `target` the thresholds, colour and adapters of its context hold, and production that may be written to is
    live for half an hour only.
    """
    check_terminal()
    chosen = target or Target(url=url)
    contexts = Contexts(chosen, configuration)
    context = contexts.describe(chosen, read_only=read_only, title=title)
    if chosen.is_production and not read_only:
        context = replace(context, live_until=time.monotonic() + LIVE_S)
    app = ConsoleApp(
        contexts,
        context,
        seconds=seconds,
        in_terminal=True,
    )
    if on_start is not None:
        on_start(app)
    code = app.run()
    if app.failure is not None:
        raise app.failure
    return app.return_code or code or 0
