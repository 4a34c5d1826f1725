"""What each command loads, in a process of its own: packages of others, and how many modules of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench.console import fill, names
from characterisation.recorded import check

if TYPE_CHECKING:
    from pathlib import Path

    import redis

GOLDEN: Final = "modules.json"
# No packages that anybody chose: what runs, what installs, the interpreter's settings, what old Pythons lack.
NOBODY: Final = ("__main__", "__mp_main__", "_distutils_hack", "_sysconfigdata", "typing_extensions")
QUEUE: Final = names(1)[0]
JOB: Final = "THE_JOB"
COMMANDS: Final = (
    "--version", "--help", "config --help", "serve --help", "demo --help", "agent --help", "worker --help",
    "status", "status --json", "health --nagios", "health", "queues",
    f"jobs {QUEUE}", f"job {QUEUE} {JOB}", f"job {QUEUE} {JOB} --json",
    f"find {JOB}", "dead", "dead --group", f"dead {QUEUE} --where error:Timeout*", "dead export", "stuck", "requeue",
    "purge", "activity", "workers", "schedule list", "clean --orphans", "doctor", "snapshot", "dead retry",
    "dead retry --yes", "undo --yes", f"enqueue {QUEUE} send", f"queues pause {QUEUE}", f"queues resume {QUEUE}",
)  # fmt: skip
pytestmark = pytest.mark.filterwarnings("default::characterisation.recorded.Lower")
RUN: Final = """
import atexit, json, pathlib, runpy, sys
file = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: file.write_text(json.dumps(sorted(sys.modules))))
runpy.run_module("qdeck_console", run_name="__main__", alter_sys=True)
"""


def loaded(file: Path) -> dict[str, Any]:
    """How many modules of ours, and which packages of others."""
    modules = json.loads(file.read_text())
    packages = {name.partition(".")[0] for name in modules}
    others = packages - set(sys.stdlib_module_names) - {"qdeck", "qdeck_console"}
    return {
        "core": sum(name.partition(".")[0] == "qdeck" for name in modules),
        "console": sum(name.partition(".")[0] == "qdeck_console" for name in modules),
        "others": sorted(name for name in others if not name.startswith(NOBODY)),
    }


def test_commands(url: str, raw: redis.Redis, tmp_path: Path) -> None:
    fill(raw, 3, 30)
    dead: Any = raw.zrange(f"{{{QUEUE}}}:dead_letter", 0, 0)
    job = dead[0].decode()
    file, seen = tmp_path / "modules", {}
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(file), *command.replace(JOB, job).split()],
            env={**os.environ, "QDECK_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, 1, 2), (command, done.stderr)
        seen[command] = loaded(file)
        file.unlink()
    check(GOLDEN, "commands", seen)
