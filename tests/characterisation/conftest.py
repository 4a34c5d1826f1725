"""A server with the seed on it, commands on that server, and golden files to compare with."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from characterisation.normal import Normal, shown
from characterisation.seed import PARTS, fill
from qdeck._server import queue_settings
from support.commands import Ran, runner
from support.servers import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import redis

GOLDEN: Final = Path(__file__).parent / "golden"
WRITES: Final = os.environ.get("QDECK_GOLDEN") == "write"
FRESH_S: Final = 3.0  # so old may a seed be before a command sees it: ages are shown
# Hashes and sets have the order of their writes only while they are stored as lists. Keys are in an order that each
# server draws anew, unless its seed is given.
_ORDERED: Final = ("hash-max-listpack-entries", "hash-max-listpack-value", "set-max-listpack-entries",
                   "set-max-listpack-value", "zset-max-listpack-entries")  # fmt: skip


@pytest.fixture(scope="session")
def ordered_server() -> Iterator[Server]:
    """A server that lists keys, hashes and sets in the same order in every run."""
    args = ["--hash-seed", "characterisation", *(word for name in _ORDERED for word in (f"--{name}", "60000"))]
    with Server(args=args) as server:
        yield server


@dataclass(slots=True)
class World:
    """The seeded server, and commands on it whose words do not differ from run to run."""

    url: str
    raw: redis.Redis
    command: Callable[..., Ran]
    folder: Path
    parts: tuple[str, ...] = ()
    filled: float = 0.0
    normal: Normal = field(default_factory=lambda: Normal(0, {}))

    def fill(self, parts: Sequence[str] = PARTS, *, anew: bool = True) -> None:
        """Puts these parts of the seed on the server."""
        if not anew and self.parts == tuple(parts) and time.monotonic() - self.filled < FRESH_S:
            return
        self.parts, self.filled = tuple(parts), time.monotonic()
        host, port = self.url.partition("//")[2].partition("/")[0].split(":")
        words = {f"{host}:{port}": "<server>", str(self.folder): "<folder>"}
        self.normal = Normal(fill(self.raw, parts), words)

    def run(self, *line: str) -> Ran:
        """Runs a command."""
        return self.command(*line)

    def told(self, line: str, *, as_json: bool = True) -> str:
        """A command line and all that came of it; its ids are numbered from one."""
        self.normal.ids.clear()
        ran = self.run(*shlex.split(line), *(["--json"] if as_json else []))
        return self.section(line, ran, as_json=as_json)

    def section(self, line: str, ran: Ran, *, as_json: bool) -> str:
        """All that came of a command."""
        out = self.json(ran.out) if as_json else self.normal.lines(ran.out, weighed=line.startswith("clean"))
        title = f"$ qdeck {line}{' --json' if as_json else ''}"
        parts = [title, f"exit {ran.code}", out, *(f"! {one}" for one in self.normal.lines(ran.err).splitlines())]
        return "\n".join(part for part in parts if part)

    def json(self, text: str) -> str:
        """What a command wrote as JSON: one document, or one for each line."""
        try:
            documents = [json.loads(text)] if text else []
        except ValueError:
            documents = [[json.loads(line) for line in text.splitlines()]]
        return "\n".join(shown(self.normal.document(one)) for one in documents)


@pytest.fixture
def world(
    ordered_server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[World]:
    """Commands of an operator called ana, far from the settings of whoever runs the tests."""
    monkeypatch.setenv("QDECK_URL", ordered_server.url)
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name, value in (("COLUMNS", "160"), ("LINES", "48"), ("TZ", "UTC")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(queue_settings, "account", lambda: "ana")
    monkeypatch.setattr(socket, "gethostname", lambda: "ops-2")
    monkeypatch.chdir(tmp_path)
    with ordered_server.client(timeout_s=30) as raw:
        raw.script_flush()
        yield World(ordered_server.url, raw, runner(capsys), tmp_path)


@pytest.fixture
def golden() -> Callable[[str, Sequence[str]], None]:
    """Compares sections with a golden file, or writes it: `QDECK_GOLDEN=write pytest tests/characterisation`."""

    def compare(name: str, sections: Sequence[str]) -> None:
        file = GOLDEN / f"{name}.txt"
        found = "\n\n".join(sections) + "\n"
        if WRITES:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(found, "utf-8")
            return
        known = file.read_text("utf-8") if file.exists() else ""
        if found != known:
            lines = difflib.unified_diff(known.splitlines(), found.splitlines(), file.name, "now", lineterm="", n=1)
            pytest.fail("\n".join([*lines, "", f"{file.name} differs; QDECK_GOLDEN=write rewrites it"]), pytrace=False)

    return compare
