"""The question of a command before it writes. Without `--yes` it needs a terminal; without one nothing is changed."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from qdeck_console.cli.base import read_only_hint, settings
from qdeck_console.cli.output import age, note, safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck.admin import Pause

NOT_CHANGED: Final = 1  # the exit code of a command that showed what it would do, and was not told to do it


def agrees(question: str) -> bool:
    """Ask at a terminal whether to continue. Without one, with `--json` or on a read-only server, return no."""
    return _can_ask() and click.confirm(safe(question), default=False, err=True)


def _can_ask() -> bool:
    given = settings()
    if given.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    return read_only_hint(given.target(), given.confirm) is None


@contextlib.contextmanager
def above_question(*, asks: bool = True) -> Iterator[None]:
    """Write to stderr what a question is about, if stdout is no terminal: a question does not stand alone."""
    beside = asks and not sys.stdout.isatty() and _can_ask()
    with contextlib.redirect_stdout(sys.stderr) if beside else contextlib.nullcontext():
        yield


def may_lift(question: str, what: str, stands: Pause, *, yes: bool) -> bool:
    """Return whether a pause may be lifted or replaced, after the question where it concerns others."""
    from qdeck.admin import actor

    return not stands.concerns_others(actor()) or confirmed(question, f"{what} {pause_words(stands)}", yes=yes)


def pause_words(stands: Pause) -> str:
    """Return who paused something, when and why, in words."""
    return stands.words("" if stands.at_ms is None else age(max(0.0, time.time() - stands.at_ms / 1000)))


def confirmed(question: str, about: str, *, yes: bool) -> bool:
    """Return whether to go on: with `--yes`, or after a yes at the terminal. Without `--yes`, print `about` first."""
    if yes:
        return True
    note(safe(about))
    if agrees(question):
        return True
    note("nothing was changed; --yes does it")
    return False
