"""The console in a real terminal: it draws, hears keys, and leaves the terminal as it found it however it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import time
from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer
from qdeck_console.driver import VANISHED
from support.terminals import Terminal, terminals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEAVE_SCREEN, MOUSE_OFF, SHOW_CURSOR = b"\x1b[?1049l", b"\x1b[?1000l", b"\x1b[?25h"


def fill(terminal: Terminal) -> None:
    """Makes the console draw, and reads nothing: several times of what a terminal keeps for whoever reads it."""
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 240, 0, 0))
    terminal.process.send_signal(signal.SIGWINCH)
    for _ in range(30):
        terminal.send(b"2")
        time.sleep(0.06)
        terminal.send(b"8")
        time.sleep(0.06)


terminal = pytest.fixture(terminals)

CONSOLE = "import sys; from qdeck_console.run_console import run_console; sys.exit(run_console(sys.argv[1]))"


def is_left_clean(terminal: Terminal) -> bool:
    tail = terminal.output[-400:]
    same = termios.tcgetattr(terminal.slave) == terminal.before
    return LEAVE_SCREEN in tail and MOUSE_OFF in tail and SHOW_CURSOR in tail and same


def test_it_starts_hears_keys_and_quits(url: str, terminal: Callable[..., Terminal]) -> None:
    with Writer(url) as writer:
        writer.enqueue("demo:dev:mail:actions", "send", ["\x1b]0;owned\x07"])
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"1 queue")
    shown.send(b"?")
    shown.wait_for(b"keys of this screen")
    shown.send(b"\x1b")
    time.sleep(0.4)  # a key right after escape would be alt and that key
    shown.send(b"q")
    assert shown.end() == 0
    assert is_left_clean(shown)
    assert b"owned\x07" not in shown.output


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_leave_the_terminal_clean(
    url: str, terminal: Callable[..., Terminal], number: signal.Signals, code: int
) -> None:
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"no queue yet")
    shown.process.send_signal(number)
    assert shown.end() == code
    assert is_left_clean(shown)


AT_ONCE = """
import os, sys
from qdeck_console.app import ConsoleApp
from qdeck_console.run_console import run_console
take_signals = ConsoleApp.on_load
def on_load(app):
    take_signals(app)
    os.kill(os.getpid(), int(sys.argv[2]))
ConsoleApp.on_load = on_load
sys.exit(run_console(sys.argv[1]))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_before_the_first_frame_leave_the_terminal_clean(
    url: str, terminal: Callable[..., Terminal], number: signal.Signals, code: int
) -> None:
    shown = terminal(AT_ONCE, url, str(int(number)))
    assert shown.end() == code
    assert is_left_clean(shown)
    assert b"Error" not in shown.output


QDECK = "import sys; from qdeck_console.__main__ import main; sys.exit(main())"


def test_keys_that_are_pressed_while_it_loads_arrive(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "--url", url, "console")
    shown.send(b"8")  # before anything is drawn
    shown.wait_for(b"persistence")  # a check of the health screen
    shown.send(b"q")
    assert shown.end() == 0
    assert is_left_clean(shown)


@pytest.mark.parametrize("keys", [b"", b":"])
def test_a_wrong_url_is_told_when_the_terminal_is_as_it_was(terminal: Callable[..., Terminal], keys: bytes) -> None:
    shown = terminal(QDECK, "--url", "redis://host/not-a-number", "console")
    shown.send(keys)  # it waits for the first frame, and comes before there is a deck
    assert shown.end() == 64
    before, _, after = shown.output.rpartition(LEAVE_SCREEN)
    assert b"the database is not a number" in after
    assert b"the database is not a number" not in before
    assert b"Traceback" not in shown.output
    assert termios.tcgetattr(shown.slave) == shown.before


def test_a_server_that_is_away_is_waited_for(terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "--url", "redis://127.0.0.1:1", "console")
    shown.wait_for(b"server lost")
    shown.send(b"q")
    assert shown.end() == 0
    assert is_left_clean(shown)


def test_ctrl_c_quits(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"no queue yet")
    shown.send(b"\x03")
    assert shown.end() == 0
    assert is_left_clean(shown)


def test_a_dumb_terminal_is_refused(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(CONSOLE, url, env={"TERM": "dumb"})
    assert shown.end() != 0
    assert b"TERM is dumb" in shown.output
    assert LEAVE_SCREEN not in shown.output


def test_no_color_sends_no_colour(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(CONSOLE, url, env={"NO_COLOR": "1"})
    shown.wait_for(b"no queue yet")
    time.sleep(0.5)
    shown.send(b"q")
    assert shown.end() == 0
    assert b"38;2;" not in shown.output
    assert b"48;2;" not in shown.output


EDITOR = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
print("the editor has the terminal", flush=True)
path.write_text(path.read_text().replace("letter", "parcel"))
"""


def test_the_editor_of_the_user_gets_the_terminal_and_gives_it_back(
    url: str, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(EDITOR)
    with Writer(url) as writer:
        made = writer.enqueue("demo:dev:mail:actions", "send", ["letter"])
    shown = terminal(CONSOLE, url, env={"VISUAL": f"{sys.executable} {script}"})
    shown.wait_for(b"1 queue")
    shown.send(b":")
    shown.wait_for(b" run  ")
    shown.send(f"find {made.id}".encode())
    time.sleep(0.3)
    shown.send(b"\r")
    shown.wait_for(b"letter")
    shown.send(b"e")
    shown.wait_for(b"the editor has the terminal")
    assert LEAVE_SCREEN in shown.output, "the console left the screen to the editor"
    shown.wait_for(b"Edit the payload of")
    time.sleep(0.3)
    shown.send(b"\t\r")
    shown.wait_for(b"1 edited")
    shown.wait_for(b"parcel")
    shown.send(b"\x03")
    assert shown.end() == 0
    assert is_left_clean(shown)
    with Writer(url) as writer:
        assert writer.job("demo:dev:mail:actions", made.id).payload() == [["parcel"], {}]


def test_it_ends_when_the_terminal_vanishes(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"no queue yet")
    shown.hang_up()
    assert shown.process.wait(10) == VANISHED


def test_it_ends_when_the_terminal_of_its_keys_vanishes(url: str, terminal: Callable[..., Terminal]) -> None:
    master, slave = pty.openpty()
    try:
        shown = terminal(CONSOLE, url, keys_from=slave)
    finally:
        os.close(slave)
    try:
        shown.wait_for(b"no queue yet")
    finally:
        os.close(master)
    assert shown.end() == VANISHED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_by_a_signal_while_the_terminal_does_not_read(
    url: str, terminal: Callable[..., Terminal], number: signal.Signals
) -> None:
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"no queue yet")
    fill(shown)
    shown.process.send_signal(number)
    assert shown.process.wait(15) == 128 + number


def test_it_draws_anew_when_the_terminal_reads_again(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(CONSOLE, url)
    shown.wait_for(b"no queue yet")
    fill(shown)
    time.sleep(2.5)  # longer than a terminal that does not read is waited for
    shown.output = b""
    shown.wait_for(b"no queue yet")
    shown.send(b"\x1b")
    time.sleep(0.4)
    shown.send(b"\x03")
    assert shown.end() == 0
    assert is_left_clean(shown)
