"""The signals that IFDB's unit and its web processes send to the worker."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.compat.site_tasks import CloneFile
from qdeck.compat import ifdb
from qdeck.compat.ifdb import Enqueue
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes import PythonProcess

KEY = f"{{{ifdb.QUEUE}}}"
MAIN = "import logging; logging.basicConfig(level='INFO'); from qdeck.compat.ifdb import Worker; Worker()"
pytestmark = pytest.mark.usefixtures("site")


@pytest.fixture
def process(url: str, make_process: Callable[..., PythonProcess]) -> PythonProcess:
    made = make_process(
        "-c", MAIN, env={"REDIS_URL": url, "QDECK_TASK_MODULES": "core.compat.site_tasks,core.compat.slow_tasks"}
    )
    wait_until(lambda: "event=started" in made.output or made.code is not None, why="the worker starts")
    assert made.code is None, made.output
    return made


def done(raw: Any) -> int:
    return int(raw.zcard(f"{KEY}:done"))


def test_sigterm_lets_it_finish_its_task(raw: Any, process: PythonProcess) -> None:
    from core.compat.slow_tasks import Slow

    Enqueue(Slow, 1.0)
    wait_until(lambda: raw.zcard(f"{KEY}:running") == 1)
    process.signal(signal.SIGTERM)
    wait_until(lambda: process.code is not None)
    assert process.code == 0, process.output
    assert (done(raw), raw.zcard(f"{KEY}:running")) == (1, 0)
    assert raw.hlen("qdeck:workers") == 0


def test_sigusr1_wakes_it_when_no_bell_told(raw: Any, process: PythonProcess) -> None:
    Enqueue(CloneFile, 1)
    wait_until(lambda: done(raw) == 1)
    time.sleep(0.3)
    # A job that came without a ring, as after a lost bell.
    raw.hset(f"{KEY}:head", "0silent", f"{time.time_ns() // 1_000_000} 100 3 core.compat.site_tasks.CloneFile")
    raw.hset(f"{KEY}:body", "0silent", b"[[1],{}]")
    raw.zadd(f"{KEY}:ready", {"0silent": 1})
    time.sleep(0.5)
    assert done(raw) == 1
    process.signal(signal.SIGUSR1)
    wait_until(lambda: done(raw) == 2, 5)


def test_sighup_starts_it_anew(raw: Any, process: PythonProcess) -> None:
    wait_until(lambda: raw.hlen("qdeck:workers") == 1)
    [before] = raw.hkeys("qdeck:workers")
    process.signal(signal.SIGHUP)
    wait_until(lambda: raw.hkeys("qdeck:workers") not in ([], [before]))
    assert process.code is None
    Enqueue(CloneFile, 1)
    wait_until(lambda: done(raw) == 1)
