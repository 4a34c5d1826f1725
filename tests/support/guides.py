"""Runs the commands of a page of the documentation, in their order, and compares what comes with what the page says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.commands import Ran

_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"\s+# (?P<said>.*)$")
_EXIT: Final = re.compile(r"\bexit (\d+)")
_SHOWS: Final = re.compile(r'shows "([^"]*)"')
_SHELL: Final = re.compile(r"[|>&]")
_PLAN: Final = re.compile(r"--apply (\w+)")
_BATCH: Final = re.compile(r"qdeck undo (b-[\w-]+)")
_PORT: Final = "9180"


class Step(NamedTuple):
    """A command of a page, with what the page says comes of it."""

    heading: str
    line: str
    code: int
    shows: tuple[str, ...]


def read_steps(page: Path) -> Iterator[Step]:
    """The commands of the `sh` blocks of a page."""
    heading = ""
    for part in re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        heading = part.splitlines()[0]
        for block in _BLOCK.findall(part):
            for line in block.splitlines():
                comment = _COMMENT.search(line)
                said = comment["said"] if comment else ""
                code = _EXIT.search(said)
                text = (line[: comment.start()] if comment else line).strip()
                if text and not text.startswith("export "):
                    yield Step(heading, text, int(code[1]) if code else 0, tuple(_SHOWS.findall(said)))


class _Beside:
    """A command that goes on while others are run, and what it told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            for line in out:
                self.told.append(line)

    def close(self, seconds: float) -> int:
        """Waits for its end."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code


class Guide:
    """Runs the steps of a page. `$WORDS` are filled in; a plan and a batch are those that were told last."""

    def __init__(
        self, run: Callable[..., Ran], raw: redis.Redis, words: dict[str, str], folder: Path, port: int
    ) -> None:
        self.run = run
        self.raw = raw
        self.words = words
        self.folder = folder
        self.port = str(port)
        self._beside: list[_Beside] = []
        qdeck = folder / "bin" / "qdeck"
        qdeck.parent.mkdir()
        qdeck.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m qdeck_console "$@"\n')
        qdeck.chmod(0o755)

    def do(self, step: Step) -> None:
        """Runs a step and looks at what came of it."""
        line = step.line.replace(_PORT, self.port)
        if step.code == 0 and line.startswith(("qdeck worker ", "qdeck agent ")):
            self._start(line)
            return
        if line.startswith("redis-cli "):
            self.raw.execute_command(*shlex.split(line)[3:])
            return
        if line.startswith("qdeck ") and not _SHELL.search(_unquoted(line)):
            ran = self.run(*shlex.split(self._filled(line))[1:])
            code, told = ran.code, ran.out + ran.err
        else:
            done = subprocess.run(  # noqa: S602 - a page's lines are for a shell
                line, shell=True, executable="/bin/bash", cwd=self.folder, env=self._environment(), capture_output=True,
                text=True, timeout=60, check=False,
            )  # fmt: skip
            code, told = done.returncode, done.stdout + done.stderr
        assert code == step.code, f"{step.heading}: {line}\n{told}"
        for text in step.shows:
            assert text in told, f"{step.heading}: {line}\n{told}"
        if "retry" in line and "--yes" in line:
            self.words["RETRIED"] = _BATCH.findall(told)[-1]
        self._note(told)

    def end(self) -> None:
        """Ends what runs beside, as an operator would; each has to end well."""
        while self._beside:
            one = self._beside.pop()
            one.process.send_signal(signal.SIGTERM)
            code = one.close(30)
            assert code == 0, "".join(one.told)

    def kill(self) -> None:
        """Ends what is left after a failure."""
        for one in self._beside:
            one.process.kill()
            one.close(10)

    def _start(self, line: str) -> None:
        words = shlex.split(self._filled(line))
        process = subprocess.Popen(
            [sys.executable, "-m", "qdeck_console", *words[1:]], cwd=self.folder, env=self._environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        one = _Beside(process)
        self._beside.append(one)
        until = time.monotonic() + 30
        while "started" not in "".join(one.told):
            assert process.poll() is None, "".join(one.told)
            assert time.monotonic() < until, "it does not start"
            time.sleep(0.02)

    def _note(self, told: str) -> None:
        for name, pattern in (("PLAN", _PLAN), ("BATCH", _BATCH)):
            if found := pattern.findall(told):
                self.words[name] = found[-1]

    def _filled(self, line: str) -> str:
        return re.sub(r"\$([A-Z]+)", lambda found: self.words[found[1]], line)

    def _environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {**os.environ, **self.words, "PATH": path, "PYTHONPATH": f"{self.folder}:{':'.join(sys.path)}"}


def _unquoted(line: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
