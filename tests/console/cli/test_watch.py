"""`qdeck status --watch`: drawn in place, also while the server is lost, until Ctrl-C."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from qdeck.admin import Writer
from support.scene import QUEUE
from support.terminals import terminals
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.commands import Ran
    from support.servers import Server
    from support.terminals import Terminal

terminal = pytest.fixture(terminals)
QDECK: Final = "import sys; from qdeck_console.__main__ import main; sys.exit(main(sys.argv[1:]))"
HOME: Final = b"\x1b[H"


def test_a_lost_server_is_named_and_comes_back(
    make_server: Callable[..., Server], terminal: Callable[..., Terminal]
) -> None:
    server = make_server()
    with Writer(server.url) as writer:
        writer.enqueue(QUEUE, "send")
    shown = terminal(QDECK, "status", "--watch", "0.2", "--url", server.url)
    shown.wait_for(b"every 0.2s; Ctrl-C ends")
    assert b"server lost" not in shown.output
    server.kill9()
    shown.wait_for(b"server lost, shown as of ")
    assert QUEUE.encode() in shown.output.rpartition(HOME)[2], "the last frame stays"
    server.relaunch()
    with Writer(server.url) as writer:
        for _ in range(7):
            writer.enqueue("shop:bills:actions", "bill")
    shown.output = b""
    shown.wait_for(b"shop:bills:actions")
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130
    assert b"\x1b[?1049l" in shown.output, "the screen of before is back"
    assert b"\x1b[?25h" in shown.output, "and its cursor"
    assert b"shop:bills:actions" in shown.output.rpartition(b"\x1b[?1049l")[2], "with the last frame"
    assert b"Traceback" not in shown.output


def test_a_server_that_hangs_is_told_while_it_hangs(
    make_server: Callable[..., Server], terminal: Callable[..., Terminal]
) -> None:
    server = make_server()
    shown = terminal(QDECK, "status", "--watch", "0.2", "--url", server.url)
    shown.wait_for(b"every 0.2s; Ctrl-C ends")
    server.freeze()
    shown.wait_for(b"no answer for ", 8)  # before the read gives up
    server.thaw()
    shown.output = b""
    shown.wait_for(b"every 0.2s; Ctrl-C ends")
    server.freeze()
    shown.wait_for(b"no answer for ", 8)
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130
    assert b"Traceback" not in shown.output


def test_a_watch_draws_in_place_and_takes_no_more_memory(url: str, terminal: Callable[..., Terminal]) -> None:
    with Writer(url) as writer:
        for number in range(60):  # more queues than lines
            writer.enqueue(f"shop:mail{number}:actions", "send")
    shown = terminal(QDECK, "status", "--watch", "0.1", "--url", url)

    def frames(count: int) -> bool:
        shown.read(0.05)
        return shown.output.count(HOME) >= count

    wait_until(lambda: frames(20), 60)
    before = psutil.Process(shown.process.pid).memory_info().rss
    wait_until(lambda: frames(120), 60)
    assert psutil.Process(shown.process.pid).memory_info().rss - before < 2_000_000
    frame = shown.output.rpartition(HOME)[0].rpartition(HOME)[2]
    assert frame.count(b"\n") < 24, frame
    assert b"more lines: enlarge the window" in frame
    assert b"60 queues" in frame
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130


def test_a_watch_that_was_terminated_gives_the_cursor_back(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "status", "--watch", "5", "--url", url)
    shown.wait_for(b"Ctrl-C ends")
    shown.process.terminate()
    shown.end()
    assert b"\x1b[?25h" in shown.output


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_watch_needs_a_terminal(qdeck: Callable[..., Ran], more: list[str]) -> None:
    ran = qdeck("status", "--watch", "2", *more)
    assert (ran.code, ran.out) == (64, "")
    assert "--watch needs a terminal" in ran.err


def test_a_watch_of_a_server_that_never_answered_ends(terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "status", "--watch", "0.2", "--url", "redis://127.0.0.1:1")
    assert shown.end(30) == 69
    assert b"\x1b[?1049h" not in shown.output


def test_a_dumb_terminal_gets_one_frame_after_another(url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "status", "--watch", "0.1", "--url", url, env={"TERM": "dumb"})

    def seen() -> bool:
        shown.read(0.05)
        return shown.output.count(b"Ctrl-C ends") >= 3

    wait_until(seen, 30)
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130
    assert b"\x1b" not in shown.output
