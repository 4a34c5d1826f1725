"""A rolling deployment: old and new workers side by side, killed at random, with jobs that the old ones do not know."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from chaos.rolling import QUEUE, make_app
from qdeck._engine import keys, programs, transitions
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.processes import PythonProcess


@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [600, pytest.param(10_000, marks=pytest.mark.slow)])
def test_none_is_lost_and_none_is_dead(
    url: str, raw: Any, make_process: Callable[..., PythonProcess], jobs: int, record_property: Any
) -> None:
    dice = random.Random(17)
    app = make_app(url, "new")
    app.client.run(programs.make_queue(QUEUE))
    app.client.run(programs.call(transitions.configure(QUEUE, {"done_max": "1000000"})))

    def start(version: str) -> PythonProcess:
        return make_process("-m", "chaos.rolling", url, version)

    fleet = [start("old") for _ in range(3)]
    for worker in fleet:
        worker.wait_for('"started"', 60)
    began, kills, ids = time.monotonic(), 0, []
    for at in range(0, jobs, 200):
        calls = [app.tasks[dice.choice(("steady", "fresh"))].call(i) for i in range(at, at + 200)]
        ids += [job.id for job in app.enqueue_many(calls)]
        if at % 600 == 400:
            # One is killed and another takes its place, by and by of the new version.
            fleet.pop(dice.randrange(len(fleet))).kill9()
            kills += 1
            fleet.append(start("new" if dice.random() < at / jobs else "old"))
            fleet[-1].wait_for('"started"', 60)
    refused = int(raw.zcard(keys.key(QUEUE, "unknown_tasks")))
    fleet.append(start("new"))
    wait_until(lambda: int(raw.zcard(keys.key(QUEUE, "done"))) == jobs, 300)
    meta = {name.decode(): value.decode() for name, value in raw.hgetall(keys.key(QUEUE, "meta")).items()}
    assert {one.decode() for one in raw.zrange(keys.key(QUEUE, "done"), 0, -1)} == set(ids)
    assert raw.zcard(keys.key(QUEUE, "dead")) == 0
    assert "n:failed" not in meta
    assert "unknown" not in meta
    record_property("figures", f"{jobs} jobs, {kills} kills, {refused} waited for a new worker")
    print(f"{jobs} jobs in {time.monotonic() - began:.1f} s, {kills} kills, {refused} waited for a new worker")  # noqa: T201 - figures
    app.close()
