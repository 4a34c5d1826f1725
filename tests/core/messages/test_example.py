"""The example runs from one command, both ways, and leaves no key behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).parents[3] / "core"


@pytest.mark.timeout(320)
def test_the_example_runs_from_end_to_end() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.ingestion", "--http"],
        cwd=CORE,
        capture_output=True,
        text=True,
        timeout=300,  # seconds of a machine that is busy; it takes three
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for task in ("task_001", "task_002", "task_003"):
        hops = [line for line in done.stdout.splitlines() if f"[{task}]" in line]
        assert "callback to nooble4:dev:ingestion_service:callbacks:embedding:" + task in hops[0]
        assert "ends the task, 1 temporary queue cleaned" in hops[-1]
    assert "now the same over queues" in done.stdout
    assert "0 temporary queues left" in done.stdout
    assert "0 keys left" in done.stdout
