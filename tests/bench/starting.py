"""How long it takes to start: the console's first frame beside that of a bare Textual app, and a command that looks
beside one that only tells its version.

Installed programs are compiled: what is started here may write bytecode, and is started once before it is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final

from bench.console import Terminal, before_others
from bench.figures import Figure, Sample, Setting
from bench.machine import on_cpu
from qdeck.admin import Writer
from qdeck_console.demo.others import seed_others

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

STARTS: Final = 9
OTHER_KEYS: Final = 1_000_000
_PART: Final = 20_000
_BARE: Final = """
from textual.app import App
from textual.widgets import Footer, Static
class Bare(App):
    def compose(self):
        yield Static("a bare app")
        yield Footer()
Bare().run()
"""
_FILL: Final = "for i = ARGV[1], ARGV[2] do redis.call('SET', 'other:key:' .. i, string.rep('x', 40)) end"


def best_ms(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The shortest of some starts of each way, in turns; the first of each is not counted."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(STARTS + 1):
        for name, way in ways.items():
            took[name].append(way())
    return {name: 1000 * min(times[1:]) for name, times in took.items()}


def frame_s(arguments: Sequence[str], wanted: bytes, cpu: int | None) -> float:
    """From the start of a process to the frame that has something."""
    with Terminal(arguments, cpu) as terminal, before_others():
        terminal.until(wanted)
        return time.perf_counter() - terminal.started


def first_frame(setting: Setting) -> Sample:
    """The console's first whole frame (bar, verdict, tabs and footer) beside the frame of an app that is one line and a
    footer. Noted too is the first data.
    """
    with setting.server() as server:
        cpu, ours = setting.pins.client, ["-m", "qdeck_console", "--url", server.url, "console"]
        found = best_ms(
            {
                "bare_ms": lambda: frame_s(["-c", _BARE], b"a bare app", cpu),
                "whole_ms": lambda: frame_s(ours, b"Activity", cpu),  # the last tab; the footer comes with it
                "data_ms": lambda: frame_s(ours, b"no queue yet", cpu),
            }
        )
    return Sample(reached=found["whole_ms"] / found["bare_ms"], more=found)


def _fill(raw: redis.Redis, url: str) -> None:
    """All five adapters, among very many keys of others."""
    script = raw.register_script(_FILL)
    for start in range(0, OTHER_KEYS, _PART):
        script(args=[start, start + _PART - 1])
    seed_others(url, 1)
    with Writer(url) as writer:
        writer.enqueue("bench:actions", "noop")


def command_s(arguments: Sequence[str], cpu: int | None, state: str) -> float:
    """How long a command takes, from its start to its end."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables["XDG_STATE_HOME"] = state
    with on_cpu(cpu):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "qdeck_console", *arguments], env=variables, stdout=subprocess.DEVNULL
        )
    with before_others():
        process.wait()
        return time.perf_counter() - began


def status(setting: Setting) -> Sample:
    """`qdeck status` beyond `qdeck --version`, when it looked once before: it remembers then what it found."""
    with setting.server() as server, tempfile.TemporaryDirectory(prefix="qdeck-bench-") as state:
        _fill(server.raw, server.url)
        cpu, ours = setting.pins.client, ["--url", server.url, "status"]
        first_s = command_s(ours, cpu, state)
        for _ in range(5):  # a scan that a busy machine did not let come to its end goes on
            command_s(ours, cpu, state)
        found = best_ms(
            {
                "version_ms": lambda: command_s(["--version"], cpu, state),
                "status_ms": lambda: command_s(ours, cpu, state),
            }
        )
    more: dict[str, Any] = {"first_ms": 1000 * first_s, **found}
    return Sample(reached=found["status_ms"] - found["version_ms"], more=more)


def figures() -> list[Figure]:
    """The figures of starting."""
    common: dict[str, Any] = {"at_least": False, "once": True}
    return [
        Figure(
            key="console_start",
            title="console's first whole frame, in those of a bare Textual app",
            unit="",
            aim=1.5,
            measure=first_frame,
            **common,
        ),
        Figure(
            key="status_start",
            title=f"`qdeck status` beyond `qdeck --version`, five adapters among {OTHER_KEYS:,} keys",
            unit=" ms",
            aim=100,
            measure=status,
            **common,
        ),
    ]
