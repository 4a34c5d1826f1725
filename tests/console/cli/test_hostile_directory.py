"""What lies in the current directory is never run, unless an application there is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import qdeck
import qdeck_console

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULES: Final = ("qdeck", "qdeck_console", "json", "redis", "click", "textual", "aiohttp", "msgspec", "tomllib")
CONSOLE: Final = (sys.executable, "-P", "-m", "qdeck_console")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory with modules of known names, which leave a file behind when they are imported."""
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(f"import os\nopen({str(tmp_path / 'ran')!r}, 'a').close()\nos._exit(3)\n")
    return tmp_path


def run(command: Sequence[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, timeout=60, check=False, capture_output=True)
    assert not (folder / "ran").exists(), "a module of the directory was imported"


def test_the_demo_runs_no_module_of_the_directory(hostile: Path) -> None:
    run([*CONSOLE, "demo", "--headless", "--seconds", "0.1"], hostile)


def test_a_served_console_runs_no_module_of_the_directory(hostile: Path) -> None:
    pytest.importorskip("aiohttp")
    from qdeck_console.serving.server import console_command

    run(console_command(["--url", "redis://127.0.0.1:1"]), hostile)


def test_all_processes_are_started_that_way() -> None:
    for package in (qdeck, qdeck_console):
        for file in Path(str(package.__file__)).parent.rglob("*.py"):
            if file.name != "_subprocess_command.py":
                assert 'sys.executable, "-m"' not in file.read_text("utf-8"), file
