"""The first lines of the console: there at once, and the terminal is left as it was when nothing follows them."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest

from qdeck_console.opening import first_lines

CODE = """
import sys, time
from qdeck_console.opening import opening
with opening("eu \\x1b[2Jqueue") as ready:
    print("loading", file=sys.stderr, flush=True)
    sys.stdin.readline() if sys.argv[1] == "wait" else None
    if sys.argv[1] == "fail":
        raise ValueError("broken")
    ready()
"""


@pytest.mark.parametrize(
    ("how", "number", "code", "leaves"),
    [
        ("fail", 0, 1, True),
        ("ready", 0, 0, False),
        ("wait", signal.SIGTERM, 143, True),
        ("wait", signal.SIGHUP, 129, True),
    ],
)
def test_the_terminal_is_as_it_was(how: str, number: int, code: int, leaves: bool) -> None:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    before = termios.tcgetattr(slave)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE, how], stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}, start_new_session=True,
        )  # fmt: skip
        output, until = b"", time.monotonic() + 20
        while b"loading" not in output and time.monotonic() < until:
            output += os.read(master, 65536)
        if number:
            process.send_signal(number)
        assert process.wait(20) == code
        os.set_blocking(master, False)
        with contextlib.suppress(BlockingIOError):
            output += os.read(master, 65536)
        assert (b"\x1b[?1049l" in output) == leaves
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)


def test_the_first_lines_show_a_title_and_obey_none() -> None:
    for coloured in (True, False):
        shown = first_lines("eu \x1b[2Jqueue", 60, 16, coloured=coloured)
        assert "qdeck  eu ?[2Jqueue" in shown
        assert "reading the queues" in shown
        assert shown.count("\x1b[2J") == 1
        assert shown.index("\x1b[?7l") < shown.index("qdeck") < shown.index("\x1b[?7h")  # nothing wraps


def test_the_first_lines_are_ascii_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDECK_ASCII", "1")
    assert first_lines("eu", 60, 16, coloured=True).isascii()
