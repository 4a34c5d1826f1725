"""SIGTERM."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from chaos.jobs import QUEUE
from chaos.ledger import read_notes
from chaos.test_lease import events_of
from qdeck._engine import codec, keys
from support.waiting import wait_until

if TYPE_CHECKING:
    from chaos.fleet import Fleet
    from support.servers import Server


@pytest.mark.timeout(60)
def test_finishes_what_runs(fleet: Fleet) -> None:
    """Asked to stop, a worker ends what runs, takes nothing new, gives what waits in its hand back at once, takes its
    name off the list and exits with 0."""
    worker = fleet.start(concurrency=4, lease=20)
    before = fleet.notes()
    fleet.add("aquick", 3.0, count=2)
    fleet.add("quick", 3.0, count=2)
    wait_until(lambda: fleet.notes() >= before + 4, 60, fleet.tell)
    fleet.add("aquick", 0.01, count=30)
    worker.terminate()
    assert worker.wait(30) == 0, worker.output
    picture = fleet.books.picture()
    assert (len(picture.zsets["done"]), len(picture.zsets["ready"]), len(picture.zsets["running"])) == (4, 30, 0)
    assert not picture.hashes["attempts"]
    assert fleet.books.raw.hlen("qdeck:workers") == 0
    fleet.workers.remove(worker)
    fleet.start()
    fleet.books.drain()
    assert fleet.books.check().runs == 34


@pytest.mark.timeout(60)
@pytest.mark.parametrize("task", ["aquick", "await_loss", "deaf", "stubborn"])
def test_gives_back_after_the_grace(fleet: Fleet, task: str) -> None:
    """What still runs when the grace is over is stopped and given back, also when its handler does not listen: it runs
    elsewhere at once, without an attempt or a crash in its books, and the worker exits with 0."""
    worker = fleet.start(lease=20, grace=0.3)
    job = fleet.add(task, 50.0)[0]
    fleet.wait_notes(1)
    fleet.books.raw.hset(keys.key(QUEUE, "body"), job, b"[[0.01],{}]")  # the next run is quick
    worker.terminate()
    other = fleet.start()
    fleet.wait_done(job, 20)
    assert worker.wait(20) == 0, worker.output
    picture = fleet.books.picture()
    assert job not in picture.hashes["attempts"]
    assert "n:crashed" not in picture.meta
    starts = [note for note in read_notes(fleet.books.notebook) if note.kind == "start"]
    assert [(note.pid, note.attempt) for note in starts] == [(worker.pid, 1), (other.pid, 1)]


@pytest.mark.timeout(60)
def test_asked_twice(fleet: Fleet) -> None:
    """Asked a second time, a worker does not wait for the grace."""
    worker = fleet.start(lease=20, grace=600)
    job = fleet.add("aquick", 500.0)[0]
    fleet.wait_notes(1)
    worker.terminate()
    wait_until(lambda: events_of(worker, "stopping"), 20, fleet.tell)
    time.sleep(0.1)
    assert worker.code is None
    worker.terminate()
    assert worker.wait(20) == 0, worker.output
    assert fleet.books.picture().states()[job] == ["ready"]


@pytest.mark.timeout(90)
def test_rolling_restart_under_load(fleet: Fleet) -> None:
    """Workers are replaced one after another under load, half by SIGTERM and half by SIGHUP: nothing runs twice,
    nothing counts as a crash."""
    for _ in range(2):
        fleet.start(lease=5)
    for number in range(6):
        fleet.load()
        fleet.wait_notes(5)
        worker = fleet.workers.pop(0)
        worker.signal(signal.SIGHUP if number % 2 else signal.SIGTERM)
        fleet.start(lease=5)
        assert worker.wait(40) == 0, worker.output
        assert events_of(worker, "ended")[0]["why"] == ("reload" if number % 2 else "stop")
    fleet.books.drain()
    assert fleet.books.check().reruns == 0
    picture = fleet.books.picture()
    assert "n:crashed" not in picture.meta
    assert all(codec.read_attempts(raw).crashes == 0 for raw in picture.hashes["attempts"].values())


@pytest.mark.timeout(120)
def test_server_away_at_the_end(hurt_fleet: Fleet, server: Server) -> None:
    """SIGTERM while the server is gone: the worker ends all the same, within a bounded time."""
    fleet = hurt_fleet
    worker = fleet.start(grace=0.5, tuned={"farewell": 1.0})
    fleet.add("aquick", 0.2, count=4)
    fleet.wait_notes(4)
    server.kill9()
    worker.terminate()
    assert worker.wait(60) == 0, worker.output
