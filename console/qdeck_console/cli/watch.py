"""`--watch`: what a command shows, drawn in place again and again."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.live import Live

from qdeck.admin import duration
from qdeck_console.cli import drawing
from qdeck_console.format import clock
from qdeck_console.visible import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from qdeck_console.format import Line

_PATIENCE_S: Final = 3.0  # until a read that goes on is told
_BELOW: Final = 4  # lines at most of the totals, and of when they were read


def watch(draw: Callable[[], None], every_s: float) -> None:
    """Draw in place until Ctrl-C; keep the last frame while the server is lost, and leave it on the terminal."""
    out = drawing.console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the terminal gets its cursor back
    frames = _Frames(draw, every_s)
    frames.read()
    if out.is_dumb_terminal:
        while True:
            drawing.draw(frames.lines())
            time.sleep(every_s)
            frames.read()
    try:
        with Live(console=out, screen=True, auto_refresh=False) as live:

            def show(*_: object) -> None:
                out.size = shutil.get_terminal_size()
                live.update(_fitting(frames.lines(), out), refresh=True)

            signal.signal(signal.SIGALRM, show)  # a server that hangs: the read goes on, and the frame says so
            while True:
                show()
                time.sleep(every_s)
                signal.setitimer(signal.ITIMER_REAL, _PATIENCE_S, 1.0)
                frames.read()
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        drawing.draw(frames.lines())


class _Frames:
    """The last frame that could be read, and why there is no newer one."""

    def __init__(self, draw: Callable[[], None], every_s: float) -> None:
        self._draw = draw
        self._every_s = every_s
        self._last: list[Line] = []
        self._read_ms = 0.0
        self._error = ""
        self._asked_ms: float | None = None

    def read(self) -> None:
        """Read the next frame; raise where there was none before."""
        from qdeck import QdeckError

        self._asked_ms = 1000 * time.time()
        try:
            with drawing.keeping() as lines:
                self._draw()
        except QdeckError as error:
            if not self._last:
                raise
            self._error = str(error)
            return
        finally:
            self._asked_ms = None
        self._last, self._read_ms, self._error = lines, 1000 * time.time(), ""

    def lines(self) -> list[Line]:
        """Return the frame and when it was read; faint where the server is lost."""
        at = clock(self._read_ms)
        error = self._error
        if self._asked_ms is not None:
            error = error or f"no answer for {duration(1000 * time.time() - self._asked_ms)}"
        if not error:
            return [*self._last, ((f"{at}, every {self._every_s:g}s; Ctrl-C ends", "faint"),)]
        old: list[Line] = [tuple((text, "faint") for text, _ in line) for line in self._last]
        lost = f"server lost, shown as of {at}; trying again every {self._every_s:g}s: {error}"
        return [*old, *drawing.sentence_lines([(safe_text(lost), "bad")], 0)]


def _fitting(lines: Sequence[Line], out: Console) -> Group:
    """Return the lines that fit the terminal: the first ones, which are the worst, and the totals after the table."""
    hidden = len(lines) - out.height
    if hidden > 0:
        blank = max((at for at, line in enumerate(lines) if not any(text for text, _ in line)), default=len(lines))
        below = min(len(lines) - blank - 1, _BELOW) if blank < len(lines) else 1
        more: Line = ((f"{hidden + 1:,} more lines: enlarge the window, or run it without --watch", "faint"),)
        lines = [*lines[: max(0, out.height - below - 1)], more, *lines[len(lines) - below :]]
    return Group(*map(drawing.text_of, lines))
