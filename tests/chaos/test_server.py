"""The server frozen, killed, and robbed of its scripts, under load."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from chaos.fleet import Fleet
from chaos.jobs import make_app
from qdeck import OutcomeUnknown, ServerUnreachable
from qdeck._engine import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck import Job
    from support.processes import PythonProcess
    from support.servers import Server

FREEZE_S = 12.0


class _Producer(threading.Thread):
    """Enqueues from a thread of its own, as long as it is not stopped, and keeps what the server acknowledged."""

    def __init__(self, fleet: Fleet, *, size: int = 1, pause_s: float = 0.002) -> None:
        super().__init__(daemon=True)
        self._fleet = fleet
        self._size = size
        self._pause_s = pause_s
        self._ended = threading.Event()
        self.jobs: list[Job] = []
        self.unsure: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ended.wait(self._pause_s):
                calls = [self._fleet.call("aquick", 0.001) for _ in range(self._size)]
                try:
                    self.jobs += self._fleet.app.enqueue_many(calls)
                except (OutcomeUnknown, ServerUnreachable):
                    self.unsure += [call.id for call in calls]
        except BaseException as error:  # noqa: BLE001 - told in the test's thread
            self.error = error

    def end(self) -> None:
        self._ended.set()
        self.join(90)
        assert not self.is_alive()
        assert self.error is None, self.error


def _frozen(server: Server, seconds: float) -> None:
    server.freeze()
    time.sleep(seconds)
    server.thaw()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_frozen_for_12_s(hurt_fleet: Fleet, server: Server) -> None:
    """The server stops for 12 s while jobs are enqueued one by one and in bulk, acknowledged, and retried. All calls
    time out and are sent again, several times, and all copies arrive when the server goes on: every count is exact,
    no job runs twice."""
    fleet = hurt_fleet
    for _ in range(2):
        fleet.start(lease=20)
    producers = [_Producer(fleet), _Producer(fleet, size=700, pause_s=0.05)]
    for producer in producers:
        producer.start()
    flaky = fleet.add("flaky", 2, count=60, _retry_delay=0.0)
    # Their failures are told while nobody listens.
    slow = fleet.add("quick", 2.0, count=10)
    fleet.wait_notes(200, fresh=True)
    _frozen(server, FREEZE_S)
    fleet.wait_notes(200, fresh=True)
    for producer in producers:
        producer.end()
        assert not producer.unsure
        fleet.books.add(producer.jobs)
    fleet.books.drain(90)
    tale = fleet.books.check()
    picture = fleet.books.picture()
    assert tale.runs == len(fleet.books.submitted) + 2 * len(flaky)
    assert {codec.read_attempts(picture.hashes["attempts"][job_id]) for job_id in flaky} == {codec.Attempts(2, 0, 0)}
    assert not set(slow) & set(picture.hashes["attempts"])
    assert picture.meta["n:enqueued"] == picture.meta["n:done"] == str(len(fleet.books.submitted))
    assert picture.meta["n:failed"] == picture.meta["n:retried"] == str(2 * len(flaky))
    assert "n:crashed" not in picture.meta
    assert "n:refused" not in picture.meta
    fleet.check_alive()


@pytest.mark.timeout(180)
def test_frozen_longer_than_the_lease(hurt_fleet: Fleet, server: Server) -> None:
    """Workers with a lease of 0.6 s see their server stop for several time-outs, over and over sent turns included:
    when it goes on, no job is run by two living workers, and each ends once. (Handlers that run meanwhile are told
    that they lost theirs.)"""
    fleet = hurt_fleet
    for _ in range(2):
        fleet.start(url=f"{fleet.url}?socket_timeout=0.7")
    for _ in range(4):
        fleet.load()
    fleet.wait_notes(40)
    _frozen(server, 2.5)
    fleet.books.drain(60)
    tale = fleet.books.tale()
    assert not tale.at_once
    states = fleet.books.picture().states()
    assert all(states[job_id] == [end] for job_id, end in fleet.books.submitted.items())
    fleet.check_alive()


@pytest.mark.timeout(180)
def test_all_frozen_together(hurt_fleet: Fleet, server: Server) -> None:
    """Server and workers stop together for longer than the lease, as with a suspended laptop: time went by, yet nobody
    died. Each worker gets the time to say so, and no job is executed twice."""
    fleet = hurt_fleet
    three = [fleet.start(lease=2) for _ in range(3)]
    fleet.add("quick", 1.5, count=10)
    fleet.add("aquick", 1.5, count=10)
    fleet.add("flaky", 2, count=10)
    fleet.wait_notes(20)
    server.freeze()
    for worker in three:
        worker.freeze()
    time.sleep(3.5)
    server.thaw()
    for worker in three:
        worker.thaw()
    fleet.books.drain(60)
    tale = fleet.books.check()
    assert tale.reruns == 0
    fleet.check_alive()


@pytest.mark.timeout(180)
def test_killed_and_started_again(
    make_server: Callable[..., Server], url: str, raw: redis.Redis, make_process: Callable[..., PythonProcess]
) -> None:
    """kill -9 of the server under load, three times, with an AOF that is written before each answer: every enqueue that
    was acknowledged is there, one that was not can be repeated with the same id, workers go on by themselves and load
    their scripts again."""
    server = make_server("--appendfsync", "always", appendonly=True)
    app = make_app(server.url)
    with server.client(timeout_s=60) as client:
        fleet = Fleet(app, server.url, client, raw, url, make_process)
        for _ in range(2):
            fleet.start(lease=10)
        producers = [_Producer(fleet), _Producer(fleet, size=50, pause_s=0.02)]
        for producer in producers:
            producer.start()
        fleet.add("flaky", 2, count=40)
        for _ in range(3):
            fleet.wait_notes(100, fresh=True)
            time.sleep(fleet.dice.random() * 0.05)
            server.kill9()
            time.sleep(fleet.dice.random())
            server.relaunch()
        fleet.wait_notes(100, fresh=True)
        for producer in producers:
            producer.end()
            assert not producer.unsure
            fleet.books.add(producer.jobs)
        fleet.books.drain(60)
        tale = fleet.books.check()
        fleet.check_alive()
        assert tale.reruns == 0
        assert "n:crashed" not in fleet.books.picture().meta
    app.close()


@pytest.mark.timeout(120)
def test_scripts_flushed_all_the_time(fleet: Fleet) -> None:
    """SCRIPT FLUSH every millisecond under load: nobody notices."""
    ended = threading.Event()
    flushed = [0]

    def flush() -> None:
        while not ended.wait(0.001):
            fleet.books.raw.script_flush("ASYNC")
            flushed[0] += 1

    flusher = threading.Thread(target=flush, daemon=True)
    for _ in range(2):
        fleet.start()
    flusher.start()
    for _ in range(6):
        fleet.load()
    fleet.books.drain(60)
    ended.set()
    flusher.join(10)
    fleet.books.check()
    fleet.check_alive()
    assert flushed[0] > 100


@pytest.mark.timeout(120)
def test_connections_cut(hurt_fleet: Fleet, server: Server) -> None:
    """Every connection of every worker is cut six times, those that listen for work included; a job that comes after is
    started at once, not when some timer runs out."""
    fleet = hurt_fleet
    worker = fleet.start(lease=20)
    for _ in range(6):
        with server.client() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        job = fleet.add("aquick")[0]
        fleet.wait_done(job, 10)
    fleet.books.check()
    assert worker.code is None
