"""Programs on terminals of their own, with the keys that a test presses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# A background job of a shell that runs the tests ignores SIGINT, and so would the program.
_TAKES_CTRL_C: Final = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


class Terminal:
    """A program on a terminal of its own, and all that it wrote there; its keys may come from another one."""

    def __init__(
        self,
        code: str,
        *arguments: str,
        env: dict[str, str] | None = None,
        keys_from: int | None = None,
        columns: int = 80,
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self._open: tuple[int, ...] = (self.master, slave)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _TAKES_CTRL_C + code, *arguments],
            stdin=slave if keys_from is None else keys_from,
            stdout=slave,
            stderr=slave,
            env={**inherited, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})},
            start_new_session=True,
        )
        self.output = b""

    def read(self, seconds: float) -> bool:
        """Take in what was written; false when nothing came in that time."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            self.output += os.read(self.master, 65536)
        return True

    def wait_for(self, wanted: bytes, seconds: float = 40.0) -> None:
        """Wait until something was written."""
        last_moment = time.monotonic() + seconds
        while wanted not in self.output:
            assert time.monotonic() < last_moment, self.output[-2000:]
            self.read(0.1)

    def send(self, keys: bytes) -> None:
        """Presses keys."""
        os.write(self.master, keys)

    def end(self, seconds: float = 10.0) -> int:
        """Wait for its end and read the rest."""
        last_moment = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < last_moment, "it does not end"
            self.read(0.05)
        while self.read(0.05):
            pass
        return self.process.returncode

    def hang_up(self) -> None:
        """Go away as a window that is closed, where no signal tells of it."""
        for number in self._open:
            os.close(number)
        self._open = ()

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.hang_up()


def terminals() -> Iterator[Callable[..., Terminal]]:
    """Yield a function that runs a program on a terminal of its own; each is ended with the test."""
    made: list[Terminal] = []

    def make(code: str, *arguments: str, **options: Any) -> Terminal:
        made.append(Terminal(code, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
