"""The question of a command before it writes. Without `--yes` it needs a terminal; without one nothing is changed."""

from __future__ import annotations

import sys
from typing import Final

import click

from qdeck_console.cli.base import read_only_hint, settings
from qdeck_console.cli.output import note, safe

NOT_CHANGED: Final = 1  # the exit code of a command that showed what it would do, and was not told to do it


def agrees(question: str) -> bool:
    """Ask at a terminal whether to go on. Without one, with `--json` and where nothing may be written: no."""
    given = settings()
    if given.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    if read_only_hint(given.target(), given.confirm) is not None:
        return False
    return click.confirm(safe(question), default=False, err=True)


def confirmed(question: str, about: str, *, yes: bool) -> bool:
    """Return whether to go on: with `--yes`, or after a yes at the terminal. Without `--yes`, print `about` first."""
    if yes:
        return True
    note(safe(about))
    if agrees(question):
        return True
    note("nothing was changed; --yes does it")
    return False
