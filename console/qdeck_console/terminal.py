"""The terminal: whether there is one, what it can show, and the text of the bar about the server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from qdeck import UsageError
from qdeck_console.browser_mode import is_served

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck_console.presenters.frame import ShownContext


def has_terminal() -> bool:
    """Return whether keys come from a terminal, and frames go to one."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)  # Textual draws on the last one
    return all(stream is not None and stream.isatty() for stream in streams)


def check_terminal(environment: Mapping[str, str] = os.environ) -> None:
    """Raise when there is no terminal to draw on: drawing would go elsewhere, and no key would ever come."""
    if is_served(environment):
        return
    if not has_terminal():
        raise UsageError("there is no terminal", hint="Use `qdeck status`, with --json in scripts.")
    name = environment.get("TERM", "")
    if name in {"", "dumb", "unknown"}:
        raise UsageError(
            f"the terminal cannot draw: TERM is {name or 'not set'}", hint="Set TERM to the type of the terminal."
        )


def wants_no_colour(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the user asked for no colour (https://no-color.org)."""
    return bool(environment.get("NO_COLOR"))


def wants_ascii(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether only ASCII is sure to be one cell wide: asked for, the Linux console, or East Asian ambiguous width."""
    if environment.get("QDECK_ASCII"):
        return True
    words = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or ""
    return environment.get("TERM") == "linux" or words[:2] in {"zh", "ja", "ko"}


def fitting_theme(color_system: str | None) -> str:
    """The theme for the colours that a terminal has: few need values that come out exactly. SSH passes TERM only, and
    with it 256 are known, whatever the terminal can do.
    """
    if wants_no_colour():
        return "ansi-dark"  # Textual's own themes without colours of their own keep those of the terminal
    return {"standard": "qdeck-16", "256": "qdeck-256"}.get(color_system or "", "qdeck-ink")


def context_at(address: str, title: str | None, *, read_only: bool) -> ShownContext:
    """Return the text of the bar about a server, whose URL has no password."""
    from qdeck_console.presenters.frame import ShownContext

    parts = urlsplit(address)
    server = parts.netloc.rpartition("@")[2] + parts.path if parts.netloc else address
    return ShownContext(title=title or parts.hostname or "local", server=server, read_only=read_only)
