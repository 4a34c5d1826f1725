from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes import PythonProcess


def test_output_and_environment(make_process: Callable[..., PythonProcess]) -> None:
    code = "import os, sys, support; print(os.environ['WORD']); print('bad', file=sys.stderr); sys.exit(3)"
    process = make_process("-c", code, env={"WORD": "wörd"})
    assert process.wait() == 3
    assert (process.stdout, process.stderr) == (["wörd"], ["bad"])
    with pytest.raises(AssertionError, match="ended without writing 'more'"):
        process.wait_for("more")


def test_kill_freeze_and_thaw(make_process: Callable[..., PythonProcess]) -> None:
    process = make_process("-c", "import time\nwhile True: print(time.monotonic()); time.sleep(0.01)")
    process.wait_for(".")
    process.freeze()
    time.sleep(0.5)
    count = len(process.stdout)
    time.sleep(0.2)
    assert len(process.stdout) == count
    process.thaw()
    last_moment = time.monotonic() + 10
    while len(process.stdout) == count and time.monotonic() < last_moment:
        time.sleep(0.01)
    assert len(process.stdout) > count
    process.kill9()
    assert process.code == -signal.SIGKILL


def test_wait_for_gives_up(make_process: Callable[..., PythonProcess]) -> None:
    process = make_process("-c", "import time; time.sleep(60)")
    with pytest.raises(AssertionError, match="did not write"):
        process.wait_for("never", timeout_s=0.3)


def test_reap_ends_the_children_too(make_process: Callable[..., PythonProcess]) -> None:
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('child', child.pid); time.sleep(60)"
    )
    process = make_process("-c", code)
    child = psutil.Process(int(process.wait_for("child").split()[1]))
    process.reap()
    child.wait(5)
    assert not child.is_running()
