"""What processes hold: a console at rest over very many queues, and a command at its peak."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from bench.console import DEAD, QUEUES, Terminal, fill
from characterisation.recorded import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Server

GOLDEN: Final = "memory.json"
ABOVE: Final = 0.15  # of the recorded figure: what an allocator takes differs from run to run
STEADY: Final = 10  # seconds without a new peak
pytestmark = pytest.mark.filterwarnings("default::characterisation.recorded.Lower")
# Its child's peak, and not that of any other process that the tests waited for.
PEAK: Final = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "qdeck_console", "status"], stdout=subprocess.DEVNULL)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(done.returncode, peak // 1024 if sys.platform != "darwin" else peak // 2**20)
"""


def test_a_command(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with server.client(timeout_s=60) as raw:
        fill(raw, 1000, 10)
    done = subprocess.run(
        [sys.executable, "-c", PEAK],
        env={**os.environ, "QDECK_URL": server.url},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    code, peak = map(int, done.stdout.split())
    assert code in (0, 1, 2), done.stderr
    check(GOLDEN, "commands", {"status, 1,000 queues": {"peak_mb": peak}}, above=ABOVE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_console_at_rest(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with server.client(timeout_s=60) as raw:
        fill(raw, QUEUES, DEAD)
    with Terminal(["-m", "qdeck_console", "--url", server.url, "console"], None) as terminal:
        terminal.until(f"{QUEUES:,}".encode())
        peak, steady = 0, 0
        while steady < STEADY:
            terminal.rest(1.0)
            now = terminal.process.memory_info().rss // 2**20
            peak, steady = (now, 0) if now > peak else (peak, steady + 1)
        check(GOLDEN, "console", {f"at rest, {QUEUES:,} queues": {"rss_mb": now}}, above=ABOVE)
