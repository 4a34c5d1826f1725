"""The driver of the terminal: Textual's own, for a terminal that may vanish or stop reading at any time.

Textual writes from a thread, behind a short queue. A write that fails ends that thread, and one that waits for a
terminal that does not read never comes back: in both cases the queue fills, and the app waits for it for ever, without
keys and signals. Here neither happens: what cannot be written is let go, and the whole screen is drawn anew when the
terminal reads again.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

from textual.drivers.linux_driver import LinuxDriver

from qdeck_console.textual_compat import write_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App
    from textual.geometry import Size

VANISHED: Final = 129
"""The exit code when the terminal is gone: that of the signal for it."""
STALL_S: Final = 1.0  # after which a terminal that reads nothing is not waited for
_ABORT: Final = b"\x18"  # ends a sequence that was written in part


class TerminalFile:
    """The file that the driver writes to: output that the terminal does not read in time is dropped."""

    def __init__(self, stream: IO[str], *, gone: Callable[[], None], back: Callable[[], None]) -> None:
        self._stream, self._gone, self._back = stream, gone, back
        self._kept: list[str] = []
        self._stalled = self._is_gone = False
        self._file = _opened_anew(stream.fileno())

    def fileno(self) -> int:
        """Return the number of the file."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream.isatty()

    def write(self, text: str) -> None:
        """Keep a text until it is flushed."""
        self._kept.append(text)

    def flush(self) -> None:
        """Write what was kept."""
        data = "".join(self._kept).encode("utf-8", "replace")
        self._kept.clear()
        if self._is_gone:
            return
        try:
            self._write(data)
        except OSError:
            self._is_gone = True
            self._gone()

    def _write(self, data: bytes) -> None:
        if self._stalled:
            if not self._is_writable(0.0):
                return
            # What was drawn meanwhile is lost, and so may be half of what was drawn before.
            self._stalled = False
            data = _ABORT + data
            self._back()
        view = memoryview(data)
        while view:
            if not self._is_writable(STALL_S):
                self._stalled = True
                return
            with suppress(BlockingIOError):
                view = view[os.write(self._file, view) :]

    def _is_writable(self, seconds: float) -> bool:
        return bool(select.select([], [self._file], [], seconds)[1])


def _opened_anew(number: int) -> int:
    """The same terminal, opened again so that writing to it need not wait: the shell that has it, too, must not notice.
    Where its name does not lead to it, the number itself.
    """
    with suppress(OSError):
        anew = os.open(os.ttyname(number), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        if os.fstat(anew).st_rdev == os.fstat(number).st_rdev:
            return anew
        os.close(anew)
    return number


class TerminalDriver(LinuxDriver):
    """Textual's driver, which ends the app when the terminal is gone."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: Size | tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._console, self._running_in = app, asyncio.get_running_loop()
        assert sys.__stderr__ is not None  # noqa: S101 - `check_terminal` saw it
        # Textual asks of it what it asks of the stream, and that is all here.
        write_through(self, TerminalFile(sys.__stderr__, gone=self._end, back=self._draw_anew))
        self._keys_from = select.poll()
        self._keys_from.register(self.fileno, 0)  # reports a hang-up

    def write(self, data: str) -> None:
        """Write. Keys may come from another terminal: Textual would ask that again and again once it is gone."""
        if any(event & select.POLLHUP for _, event in self._keys_from.poll(0)):
            self._end()
        super().write(data)

    def run_input_thread(self) -> None:
        """Wait for keys until the app or the terminal ends."""
        try:
            super().run_input_thread()
        except OSError:
            self._end()

    def _end(self) -> None:
        self._tell(lambda: self._console.exit(return_code=VANISHED))

    def _draw_anew(self) -> None:
        self._tell(self._refresh)

    def _refresh(self) -> None:
        self._console.screen.refresh()

    def _tell(self, what: Callable[[], object]) -> None:
        """The app lives in another thread, and may have ended."""
        with suppress(RuntimeError):
            self._running_in.call_soon_threadsafe(what)
