"""Run what a page of the documentation has in its blocks of code, in order, and compare the results with the page.

| block | what is done with it |
|---|---|
| `sh` | each line is run; a comment may have the exit code if it is not 0, and text to show: `# exit 64, shows "Did you mean"` |
| `python`, `toml` | a block that begins with a comment such as `# shop/jobs.py` is written to this file; other Python is run, other TOML is loaded as a configuration |
| `json` | is read |
| `text`, `console`, `ini` | is for people: output, or what cannot be run here |

Words with `$` are filled in from the server's data. `<!-- scene: NAME -->`, which no reader sees, prepares the server for
the blocks below.
"""  # noqa: E501 - a table

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import tomllib
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck.admin import load_configuration
from support.commands import write_trusted
from support.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.commands import Ran

_PART: Final = re.compile(
    r"^## (?P<heading>[^\n]*)$|^<!-- scene: (?P<scene>[\w -]+) -->$|^```(?P<kind>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FENCE: Final = re.compile(r"^\s*```", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:^|\s+)# (?P<said>.*)$")
_FILE: Final = re.compile(r"# (?P<name>[\w./-]+\.(?:py|toml))\n")
_EXIT: Final = re.compile(r"\bexit (\d+)")
_SHOWS: Final = re.compile(r'shows "([^"]*)"')
_SHELL: Final = re.compile(r"[|>&]")
_PLAN: Final = re.compile(r"--apply (\w+)")
_BATCH: Final = re.compile(r"qdeck undo (b-[\w-]+)")
_LOCAL: Final = re.compile(r"redis://(?:localhost|127\.0\.0\.1)(?::6379)?(?:/0)?(?![\w:/.])")
_PORT: Final = "9180"
_UNTIL_STOPPED: Final = re.compile(r"qdeck (worker|agent|serve)\b(?!.*--(help|new-user))")
READ_ONLY_KINDS: Final = frozenset({"text", "console", "ini"})


class Step(NamedTuple):
    """A line or a block of a page, with the result that the page states."""

    heading: str
    kind: str
    text: str
    code: int = 0
    shows: tuple[str, ...] = ()


def read_steps(page: Path) -> Iterator[Step]:
    """Return the lines and blocks of a page, in order."""
    text = page.read_text("utf-8")
    parts = list(_PART.finditer(text))
    assert len(_FENCE.findall(text)) == 2 * sum(part["body"] is not None for part in parts), "a block is not closed"
    heading = ""
    for part in parts:
        heading = part["heading"] or heading
        if part["scene"]:
            yield Step(heading, "scene", part["scene"])
        elif part["kind"] == "sh":
            yield from _lines(heading, part["body"])
        elif part["body"] is not None:
            yield Step(heading, part["kind"], part["body"])


def _lines(heading: str, block: str) -> Iterator[Step]:
    for line in block.replace("\\\n", " ").splitlines():
        comment = _COMMENT.search(line)
        said = comment["said"] if comment else ""
        code = _EXIT.search(said)
        text = (line[: comment.start()] if comment else line).strip()
        if text and not text.startswith("export "):
            yield Step(heading, "sh", text, int(code[1]) if code else 0, tuple(_SHOWS.findall(said)))


class _Beside:
    """A command that runs in the background, and its output."""

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
        """Wait for its end."""
        code = self.process.wait(seconds)
        self._reader.join(seconds)
        return code


class Guide:
    """Runs the steps of a page. `$WORDS` are filled in; `$PLAN` and `$BATCH` are the last ones that were shown."""

    def __init__(
        self, run: Callable[..., Ran], raw: redis.Redis, url: str, words: dict[str, str], folder: Path, port: int
    ) -> None:
        self.run = run
        self.raw = raw
        self.url = url
        self.words = words
        self.folder = folder
        self.port = str(port)
        self._modules: list[str] = []
        self._beside: list[_Beside] = []
        qdeck = folder / "bin" / "qdeck"
        qdeck.parent.mkdir()
        qdeck.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m qdeck_console "$@"\n')
        qdeck.chmod(0o755)

    def do(self, step: Step) -> None:
        """Run a step, and compare the result with the page."""
        if step.kind == "sh":
            self._do_line(step)
        elif step.kind in ("python", "toml"):
            self._do_block(step)
        elif step.kind == "json":
            json.loads(step.text)
        else:
            assert step.kind in READ_ONLY_KINDS, f"{step.heading}: a block of {step.kind or 'no language'}"

    def end(self) -> None:
        """Stop the commands in the background, as an operator does; each has to end well."""
        while self._beside:
            one = self._beside.pop()
            one.process.send_signal(signal.SIGTERM)
            code = one.close(30)
            assert code == 0, "".join(one.told)

    def kill(self) -> None:
        """Kill the commands that are left after a failure."""
        for one in self._beside:
            one.process.kill()
            one.close(10)

    def _do_line(self, step: Step) -> None:
        line = _LOCAL.sub(self.url, step.text.replace(_PORT, self.port))
        if _is_of_the_repository(line):
            return
        if step.code == 0 and _UNTIL_STOPPED.match(line):
            self._start(line)
            return
        if line.startswith("redis-cli "):
            self.raw.execute_command(*shlex.split(line)[3:])
            return
        code, told = self._ran(_without_a_terminal(line))
        assert code == step.code, f"{step.heading}: {line}\n{told}"
        for text in step.shows:
            assert text in told, f"{step.heading}: {line}\n{told}"
        if "retry" in line and "--yes" in line and (batches := _BATCH.findall(told)):
            self.words["RETRIED"] = batches[-1]
        self._note(told)

    def _ran(self, line: str) -> tuple[int, str]:
        if line.startswith("qdeck ") and not _SHELL.search(_unquoted(line)):
            ran = self.run(*shlex.split(self._filled(line))[1:])
            return ran.code, ran.out + ran.err
        done = subprocess.run(  # noqa: S602 - a page's lines are for a shell
            line, shell=True, executable="/bin/bash", cwd=self.folder, env=self._environment(), capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def _do_block(self, step: Step) -> None:
        text = _LOCAL.sub(self.url, step.text)
        if named := _FILE.match(text):
            file = self.folder / named["name"]
            file.parent.mkdir(parents=True, exist_ok=True)
            if step.kind == "toml":
                write_trusted(file, text)
                load_configuration(file)
            else:
                file.write_text(text, "utf-8")
                self._modules.append(named["name"].removesuffix(".py").replace("/", "."))
        elif step.kind == "toml":
            tomllib.loads(text)
            file = self.folder / "block.toml"
            file.write_text(text, "utf-8")
            load_configuration(file)
        else:
            self._run_python(step.heading, text)

    def _run_python(self, heading: str, text: str) -> None:
        """Run a block with the names of the files of the page; `await` may stand outside of functions."""
        done = subprocess.run(
            [sys.executable, "-m", "support.run_block", *self._modules], input=text, cwd=self.folder,
            env=self._environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{heading}: {text}\n{done.stderr}"

    def _start(self, line: str) -> None:
        words = shlex.split(self._filled(line))
        process = subprocess.Popen(
            [sys.executable, "-m", "qdeck_console", *words[1:]], cwd=self.folder, env=self._environment(),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        one = _Beside(process)
        self._beside.append(one)
        until = time.monotonic() + 30
        while not re.search("started|http://", "".join(one.told)):
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


def _without_a_terminal(line: str) -> str:
    """Return the command that draws one frame where the line opens the console, and a demo without its console."""
    words = line.split()
    if words[0] == "qdeck" and (len(words) == 1 or (words[1].startswith("--") and len(words) == 3)):
        return f"qdeck snapshot {' '.join(words[1:])}"
    return f"{line} --headless --seconds 1" if words[:2] == ["qdeck", "demo"] and "--headless" not in words else line


def _is_of_the_repository(line: str) -> bool:
    """Return whether a line is for the repository or installs qdeck. It is not run, but its files have to exist."""
    words = shlex.split(line)
    if words[0] == "make":
        known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        wanted = [word for word in words[1:] if "=" not in word]
        assert set(wanted) <= set(known), line
        return True
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        named = re.findall(r"qdeck\[([\w,]+)\]", line)
        assert {extra for group in named for extra in group.split(",")} <= set(extras), line
        return True
    if words[0].startswith((".venv/", ".ci/")) or words[:1] == ["python"]:
        paths = [word for word in words if "/" in word and not word.startswith(".venv/")]
        assert paths, line
        assert all((ROOT / path.partition("::")[0]).exists() for path in paths), line
        return True
    return False
