"""Long commands draw a bar on a terminal, with the rate and the time left; nothing of it is left at the end."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Final

import pytest

from support.scene import QUEUE, Scene, make_scene
from support.terminals import terminals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from support.commands import Ran
    from support.terminals import Terminal

terminal = pytest.fixture(terminals)
QDECK: Final = "import sys; from qdeck_console.__main__ import main; sys.exit(main(sys.argv[1:]))"
AT_ONCE: Final = "from qdeck_console.cli import progress; progress._QUIET_S = progress._EVERY_S = 0; "
TO_FILE: Final = "import sys; sys.stdout = open(sys.argv.pop(1), 'w'); "
ERASED: Final = b"\x1b[2K"


@pytest.fixture
def scene(url: str, raw: redis.Redis) -> Scene:
    return make_scene(url, raw)


def test_a_paced_retry_draws_rate_and_time_left(scene: Scene, url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "dead", "retry", QUEUE, "--rate", "1/s", "--yes", "--url", url)
    shown.wait_for(b" left", 20)
    assert re.search(rb"retry  \S+.*?\d of 3, \d+/\w+, \d+s left", re.sub(rb"\x1b\[[0-9;]*m", b"", shown.output))
    shown.process.send_signal(signal.SIGINT)
    assert shown.end() == 130
    after = shown.output.rpartition(ERASED)[2]
    assert b"retried" in after, "the batch is told after the bar is gone"
    assert b" left" not in after


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("dead", "retry", QUEUE, "--dry-run"), rb"plan  3 read, 3 match, "),
        (("purge", "--now", "--yes", "--rule", "dead_too_old", "--set", "dlq_ttl=0.00001"), rb"purge .*, 0s left"),
        (("undo", "$BATCH", "--yes"), rb"undo  \S+  1 of 1, .* 0s left"),
        (("find", "nowhere"), rb"find  [\d,]+ read, 0 match, "),
    ],
)  # fmt: skip
def test_every_long_step_has_a_bar(
    scene: Scene, url: str, terminal: Callable[..., Terminal], command: tuple[str, ...], words: bytes
) -> None:
    shown = terminal(AT_ONCE + QDECK, *(word.replace("$BATCH", scene.batch) for word in command), "--url", url)
    shown.end(30)
    assert re.search(words, re.sub(rb"\x1b\[[0-9;]*m", b"", shown.output)), shown.output


def test_an_export_to_a_file_has_a_bar_and_one_to_the_terminal_has_none(
    scene: Scene, url: str, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    file = tmp_path / "dead.jsonl"
    shown = terminal(AT_ONCE + TO_FILE + QDECK, str(file), "dead", "export", "--url", url)
    assert shown.end(30) == 0
    assert b"3 of 3" in shown.output
    assert len(file.read_text("utf-8").splitlines()) == 3
    shown = terminal(AT_ONCE + QDECK, "dead", "export", "--url", url)
    assert shown.end(30) == 0
    assert b"export" not in shown.output


def test_a_dumb_terminal_gets_lines_and_a_pipe_nothing(
    scene: Scene, url: str, terminal: Callable[..., Terminal], qdeck: Callable[..., Ran]
) -> None:
    shown = terminal(AT_ONCE + QDECK, "dead", "retry", QUEUE, "--dry-run", "--url", url, env={"TERM": "dumb"})
    shown.end(30)
    assert b"qdeck: plan: 3 read, 3 match, " in shown.output
    assert b"\x1b" not in shown.output
    assert qdeck("dead", "retry", QUEUE, "--dry-run").err == ""


def test_a_short_command_draws_no_bar(scene: Scene, url: str, terminal: Callable[..., Terminal]) -> None:
    shown = terminal(QDECK, "dead", "retry", QUEUE, "--dry-run", "--url", url)
    shown.end(30)
    assert b"read, 3 match" not in shown.output
