"""How far a long command is: on a terminal a bar on stderr, with the rate and the time left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.live import Live

_QUIET_S: Final = 0.5  # what takes less needs no bar
_EVERY_S: Final = 0.2
_NOTED_EVERY_S: Final = 10.0  # where a terminal cannot draw in place
_BAR: Final = 24  # cells


class Progress:
    """The progress of one step; nothing is written where stderr is no terminal. It is gone when the step ends."""

    def __init__(self, verb: str, total: int | None = None, *, is_shown: bool = True) -> None:
        self._verb = verb
        self._total = total
        self._began = time.monotonic()
        self._next = self._began + _QUIET_S if is_shown and sys.stderr.isatty() else float("inf")
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, done: int, found: int | None = None) -> None:
        """Draw how many are done, or read, and how many of those match."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        self._draw(done, found, now - self._began)

    def _draw(self, done: int, found: int | None, passed_s: float) -> None:
        from qdeck.admin import duration
        from qdeck_console.cli import drawing
        from qdeck_console.cli.output import note

        total = self._total if self._total is not None and done <= self._total else None
        rate = done / passed_s
        words = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        words += "" if found is None else f" read, {found:,} match"
        words += f", {rate:,.0f}/s" if rate >= 1 else f", {60 * rate:,.0f}/min"
        words += f", {duration(1000 * (total - done) / rate)} left" if total is not None and done else ""
        out = drawing.console(err=True)
        if out.is_dumb_terminal:
            self._next += _NOTED_EVERY_S
            note(f"qdeck: {self._verb}: {words}")
            return
        if self._live is None:
            from rich.live import Live

            self._live = Live(console=out, auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        full = 0 if not total else _BAR * done // total
        bar = [] if total is None else [("━" * full, "ok"), ("─" * (_BAR - full), "faint"), ("  ", "")]
        text = drawing.text_of(((f"{self._verb}  ", ""), *bar, (words, "")))
        text.truncate(max(1, drawing.room() - 1))
        self._live.update(text, refresh=True)
