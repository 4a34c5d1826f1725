"""Switches one safeguard off in a copy of the source and runs the tests that have to notice.

`python tests/ablations/ablate.py [WORDS…]` does so for all, or for those whose name has one of the words, and prints
the table of the tests' README.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]

from ablations.safeguards import SAFEGUARDS, Safeguard  # noqa: E402 - the path has to be set first

_TIMEOUT_S: Final = 300


def failing_test(guard: Safeguard) -> str:
    """Return the first test that fails without a safeguard; empty when none notices."""
    with tempfile.TemporaryDirectory(prefix="qdeck-ablation-") as folder:
        copy = Path(folder)
        for root in ("core", "console"):
            shutil.copytree(ROOT / root, copy / root, ignore=shutil.ignore_patterns("__pycache__", "docs"))
        changed = copy / guard.file
        text = changed.read_text("utf-8")
        if text.count(guard.text) != 1:
            raise ValueError(f"{guard.file} has {text.count(guard.text)} times what {guard.name!r} switches off")
        changed.write_text(text.replace(guard.text, guard.without), "utf-8")
        path = os.pathsep.join(str(part) for part in (copy / "core", copy / "console", ROOT / "tests"))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "--hypothesis-profile=first-failure", "-m", "not slow", *guard.tests]
        ran = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
            timeout=_TIMEOUT_S, check=False,
        )  # fmt: skip
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if ran.returncode == 1 and failed:
        return failed[0].split(" ", 1)[1].partition(" - ")[0].partition("[")[0].partition("::")[2]
    if ran.returncode != 0:
        raise RuntimeError(f"the tests of {guard.name!r} did not run: {ran.stdout[-500:]}{ran.stderr[-500:]}")
    return ""


def main(words: list[str]) -> int:
    """Run the ablations whose name has one of the words; return how many no test noticed."""
    unnoticed = 0
    sys.stdout.write("| safeguard | prevents | noticed by |\n|---|---|---|\n")
    for guard in SAFEGUARDS:
        if words and not any(word in guard.name for word in words):
            continue
        found = failing_test(guard)
        unnoticed += not found
        sys.stdout.write(f"| {guard.name} | {guard.prevents} | {f'`{found}`' if found else 'NO TEST'} |\n")
        sys.stdout.flush()
    return unnoticed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
