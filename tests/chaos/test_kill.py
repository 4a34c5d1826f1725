"""Workers killed at random moments under load."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.jobs import RELEASED
from chaos.twice import send_twice
from qdeck._engine import codec
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.fleet import Fleet

ROUNDS = int(os.environ.get("QDECK_ROUNDS", "40"))


def _rounds(fleet: Fleet, rounds: int, **options: object) -> str:
    for _ in range(3):
        fleet.start(wait=False, **options)
    for worker in fleet.workers:
        worker.wait_for('"started"', 60)
    began = time.monotonic()
    for _ in range(rounds):
        fleet.load()
        fleet.wait_notes(5)
        time.sleep(fleet.dice.random() * 0.05)
        ready = [worker for worker in fleet.workers if any('"started"' in line for line in worker.stdout)]
        fleet.kill(fleet.dice.choice(ready))
        fleet.start(wait=False, **options)
        wait_until(lambda: sum(any("started" in line for line in w.stdout) for w in fleet.workers) >= 2, 60, fleet.tell)
        fleet.check_alive()
    fleet.books.drain(90)
    tale = fleet.books.check()
    fleet.check_alive()
    took = time.monotonic() - began
    crashed = int(fleet.books.picture().meta.get("n:crashed", "0"))
    stale = int(fleet.books.picture().meta.get("n:refused", "0"))
    return (
        f"{rounds} rounds in {took:.1f} s: {len(fleet.books.killed)} kills, {len(fleet.books.submitted)} jobs, "
        f"{tale.runs} runs, {tale.reruns} runs again after a kill, {crashed} leases taken back, {stale} stale, "
        f"lost {len(set(fleet.books.submitted) - set(fleet.books.picture().states()))}, double {len(tale.double)}"
    )


@pytest.mark.timeout(120 + ROUNDS * 6)
@pytest.mark.parametrize("rounds", [8, pytest.param(ROUNDS, marks=pytest.mark.slow, id="many")])
def test_killed_workers_lose_nothing(fleet: Fleet, rounds: int, record_property: Callable[[str, object], None]) -> None:
    """kill -9 at a random moment under a mixed load, round after round: every job ends once, in its one right state;
    a job runs again only when the worker of the run before was killed, and crashes are counted for those alone."""
    figures = _rounds(fleet, rounds)
    record_property("figures", figures)
    if path := os.environ.get("QDECK_FIGURES"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(figures + "\n")


@pytest.mark.timeout(180)
def test_calls_sent_twice(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of all calls of producers and workers arrive twice, half of these late, while workers are killed: all
    counts are exact."""
    counts = send_twice(fleet.dice, monkeypatch.setattr)
    _rounds(fleet, 4, twice=True)
    assert counts[1] > counts[0] / 10, counts


@pytest.mark.timeout(180)
def test_all_workers_at_once(fleet: Fleet) -> None:
    """All workers are killed together six times, which is more often than a poison pill may kill: that is an outage,
    no job is blamed for it, and all end well."""
    fleet.add("held", count=12)
    fleet.add("held_in_thread", count=12)
    for _ in range(6):
        three = [fleet.start(wait=False, concurrency=8) for _ in range(3)]
        for worker in three:
            worker.wait_for('"started"', 60)
        wait_until(lambda: _holders(fleet) == 3, 30, lambda: f"{_holders(fleet)} hold jobs: {fleet.tell()}")
        for worker in three:
            worker.signal(signal.SIGKILL)
        for worker in three:
            fleet.kill(worker)
    fleet.books.notebook.set(RELEASED, 1)
    fleet.start()
    fleet.start()
    fleet.books.drain(60)
    fleet.books.check()
    most = max(codec.read_attempts(raw).crashes for raw in fleet.books.picture().hashes["attempts"].values())
    assert most <= 2, f"a job is blamed for {most} crashes"


def _holders(fleet: Fleet) -> int:
    return len({codec.read_lease(raw).worker for raw in fleet.books.picture().hashes["lease"].values()})


@pytest.mark.timeout(120)
def test_poison_pill(fleet: Fleet) -> None:
    """A job that ends its worker's process is buried with its reason when it did so five times. Its siblings in the
    same queue and in the same workers all end well, and none of them is buried."""
    pill = fleet.add("poison", end="dead")[0]
    fleet.add("aquick", 0.05, count=60)
    fleet.add("quick", 0.05, count=60)

    def tend() -> bool:
        for worker in list(fleet.workers):
            if worker.code is not None:
                assert worker.code == 9, worker.output
                fleet.workers.remove(worker)
                fleet.books.killed.add(worker.pid)
        while len(fleet.workers) < 2:
            fleet.start(wait=False)
        return any(job_id == pill for job_id, _ in fleet.books.picture().zsets["dead"])

    wait_until(tend, 90, lambda: fleet.books.picture().hashes["attempts"])
    fleet.books.drain(60)
    fleet.books.check()
    picture = fleet.books.picture()
    assert codec.read_attempts(picture.hashes["attempts"][pill]).crashes == 5
    assert codec.read_attempts(picture.hashes["attempts"][pill]).failed == 0
    assert [e.kind for e in codec.read_events(picture.hashes["error"][pill])] == ["crashed"] * 5
    others = [codec.read_attempts(raw).crashes for job, raw in picture.hashes["attempts"].items() if job != pill]
    assert max(others, default=0) < 5
