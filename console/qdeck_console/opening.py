"""What is seen at once: the first lines of the console, drawn before the libraries behind it are loaded.

Loading takes three times as long as starting Python. An operator shall see in the meantime that it comes, and where
it looks; keys that are pressed wait for it, unseen.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final

from qdeck._hidden import is_shown
from qdeck_console.terminal import wants_ascii, wants_no_colour
from qdeck_console.web import is_served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ENDING: Final = {signal.SIGTERM: 143, signal.SIGHUP: 129}
"""Signals that end the console, with its exit code then."""

# Nothing wraps in between: a sign may be wider than it is counted here.
_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J\x1b[H"
_WRAP: Final = "\x1b[?7h"
_LEAVE: Final = "\x1b[?1049l\x1b[?25h"
_BAR: Final = "\x1b[48;2;30;36;40m\x1b[38;2;207;213;211m"
_WINE: Final = "\x1b[48;2;58;20;39m\x1b[38;2;246;220;230m"
_PAGE: Final = "\x1b[48;2;16;19;21m\x1b[38;2;148;160;164m"


def first_lines(title: str, columns: int, rows: int, *, coloured: bool, production: bool = False) -> str:
    """The lines as they are written; the title is shown, whatever is in it."""
    name = "".join(char if is_shown(char) else "?" for char in title)[: max(0, columns - 10)]
    bar, words = f" qdeck  {name}".ljust(columns), f" {'...' if wants_ascii() else '…'} reading the queues"
    if not coloured:
        return f"{_ENTER}\x1b[7m{bar}\x1b[0m\r\n{words}{_WRAP}"
    blank = " " * columns
    page = "\r\n".join([words.ljust(columns), *[blank] * (rows - 2)])
    return f"{_ENTER}{_WINE if production else _BAR}{bar}\r\n{_PAGE}{page}\x1b[0m{_WRAP}"


@contextlib.contextmanager
def opening(title: str, *, production: bool = False) -> Iterator[Callable[[], None]]:
    """Shows the first lines while the block loads the console; the function that it gets ends that, when the console
    takes the terminal over. When the block fails or is ended by a signal before, the terminal is left as it was.
    """
    stream, size = sys.__stderr__, (0, 0)  # where Textual draws
    if stream is None or is_served() or os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        yield lambda: None
        return
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(stream.fileno())
    if not (stream.isatty() and sys.stdin.isatty()) or min(size) < 2:
        yield lambda: None
        return
    import termios

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    quiet = termios.tcgetattr(keyboard)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    shown = True

    def ready() -> None:
        nonlocal shown
        if shown:
            shown = False
            termios.tcsetattr(keyboard, termios.TCSANOW, before)

    coloured = os.environ.get("COLORTERM") in {"truecolor", "24bit"} and not wants_no_colour()
    with _ended_by_signals():
        try:
            termios.tcsetattr(keyboard, termios.TCSANOW, quiet)
            stream.write(first_lines(title, *size, coloured=coloured, production=production))
            stream.flush()
            yield ready
        finally:
            if shown:
                stream.write(_LEAVE)
                stream.flush()
            ready()


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Signals end the block as an exception does."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
