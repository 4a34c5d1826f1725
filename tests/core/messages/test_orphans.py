"""A great many orphans are found in slices: no long call, no growing memory, and progress is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import ROOT


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_orphans_are_found_and_removed_in_slices() -> None:
    # A process of its own, because its memory is looked at.
    script = Path(__file__).with_name("orphans.py")
    done = subprocess.run(
        [sys.executable, str(script), "--keys", "50000"],
        cwd=ROOT, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["found"], found["removed"], found["left"]) == (50_000, 50_000, 0), found
    assert found["slow_calls"] == [], found
    assert found["slices"] >= 50, found
    assert found["progress"], found
    assert found["memory_grew_kib"] < 8 * 1024, found
