"""The queue systems themselves, installed for the tests that run them: each in a folder of its own beside the tests.

They are not among what the project is developed with, since some need other versions of redis-py than qdeck.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER: Final = Path(__file__).parents[2] / ".systems"
WAIT_S: Final = 300


@cache
def python_with(*packages: str) -> str:
    """Return the Python of an environment that has these packages; skips the test where they cannot be installed."""
    home = _installed("python", packages)
    return str(home / "bin" / "python")


@cache
def node_with(*packages: str) -> str:
    """Return the folder of an installation of npm that has these packages; skips the test where there is no Node."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node is not installed")
    return str(_installed("node", packages) / "node_modules")


def _installed(kind: str, packages: tuple[str, ...]) -> Path:
    home = FOLDER / f"{kind}-{hashlib.sha256(' '.join(packages).encode()).hexdigest()[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (home / ".installed").exists():
            failed = _run(_COMMANDS[kind](home, packages))
            if failed:
                pytest.skip(f"{' '.join(packages)} cannot be installed here: {failed[-200:]}")
            (home / ".installed").write_text(" ".join(packages))
    return home


_COMMANDS: Final[dict[str, Callable[[Path, tuple[str, ...]], list[list[str]]]]] = {
    "python": lambda home, packages: [
        [sys.executable, "-m", "venv", str(home)],
        [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages],
    ],
    "node": lambda home, packages: [["npm", "install", "--silent", "--prefix", str(home), *packages]],
}


def _run(commands: list[list[str]]) -> str:
    """Run some commands; return what the first that fails says."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return done.stderr
    return ""
