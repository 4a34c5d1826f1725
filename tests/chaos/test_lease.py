"""Workers that stop, clocks that are wrong, handlers that do not listen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chaos.jobs import QUEUE
from chaos.ledger import pid_of, read_notes
from qdeck._engine import codec, keys
from qdeck._rules import health
from qdeck._server import native_queues
from qdeck.adapters.all import Adapters
from qdeck.admin import NATIVE, Limits, Status
from support.proxy import Side
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.fleet import Fleet
    from support.processes import PythonProcess
    from support.proxy import FaultProxy


def events_of(worker: PythonProcess, kind: str) -> list[dict[str, Any]]:
    """The events of one kind that a worker told."""
    told = [json.loads(line) for line in list(worker.stdout) if line.startswith("{")]
    return [event for event in told if event["event"] == kind]


def _wait_told(fleet: Fleet, worker: PythonProcess) -> None:
    wait_until(lambda: events_of(worker, "refused") or events_of(worker, "lease_lost"), 30, fleet.tell)


@pytest.mark.timeout(90)
@pytest.mark.parametrize("task", ["aquick", "quick"])
def test_worker_stopped_past_its_lease(fleet: Fleet, task: str) -> None:
    """A worker is suspended while its handler runs, until its lease is over and another worker has run the job. When it
    goes on, what it tells is refused and counted: one end, that of the worker that holds the lease."""
    suspended = fleet.start()
    job = fleet.add(task, 1.0)[0]
    fleet.wait_notes(1)
    suspended.freeze()
    other = fleet.start()
    fleet.wait_done(job, 30)
    before = fleet.books.picture()
    assert "n:refused" not in before.meta
    suspended.thaw()
    # It either ends its handler and tells so in vain, or learns first that the lease is lost.
    _wait_told(fleet, suspended)
    after = fleet.books.picture()
    assert (after.meta["n:done"], after.meta["n:crashed"]) == ("1", "1")
    assert after.zsets["done"] == before.zsets["done"]
    assert after.hashes["result"] == before.hashes["result"]
    assert after.hashes["attempts"][job] == b"0 1 0"
    fleet.books.killed.add(suspended.pid)  # it was dead for as long as its lease lasted
    assert fleet.books.check().runs == 2
    assert (suspended.code, other.code) == (None, None)


@pytest.mark.timeout(90)
def test_late_end_is_refused_and_counted(fleet: Fleet, make_proxy: Callable[[str], FaultProxy]) -> None:
    """A handler ends well while nothing comes through; when its end arrives at last, another worker has run the job.
    It is refused, told and counted, and the result of the holder of the lease stays."""
    proxy = make_proxy(fleet.url)
    cut_off = fleet.start(url=proxy.url, lease=1.5)
    job = fleet.add("whoami", 0.3)[0]
    fleet.wait_notes(1)
    proxy.blackhole(Side.TO_SERVER)
    fleet.wait_notes(1)
    other = fleet.start()
    fleet.wait_done(job)
    result = fleet.books.picture().hashes["result"][job]
    assert int(result) == other.pid
    assert "n:refused" not in fleet.books.picture().meta
    proxy.heal()
    wait_until(lambda: events_of(cut_off, "refused"), 30, fleet.tell)
    assert events_of(cut_off, "refused")[0]["ids"] == [job]
    picture = fleet.books.picture()
    assert (picture.meta["n:refused"], picture.meta["n:done"], picture.meta["n:crashed"]) == ("1", "1", "1")
    assert picture.hashes["result"][job] == result
    fleet.books.killed.add(cut_off.pid)  # for the server it was dead
    assert fleet.books.check().runs == 2
    fleet.check_alive()


def _ignored(fleet: Fleet) -> bool:
    """Whether health reports a handler that ignored its cancellation."""
    adapters = Adapters([NATIVE], "here", native_queues.RefreshCache())
    report = fleet.app.client.run(health.report(adapters, Limits(), orphans=False))
    return report.status is Status.UNHEALTHY and any("ignored cancellation" in one.text for one in report.findings)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("task", ["deaf", "stubborn"])
def test_handler_that_does_not_stop(fleet: Fleet, task: str) -> None:
    """A handler goes on after its time limit, inside one call in C or by swallowing every cancel. Its worker gives it
    up and says so, the job's next try is run, by another worker here, and its place is filled: the worker with room
    for one goes on to other jobs while the lost handler still runs."""
    stuck = fleet.start(concurrency=1, lease=20, tuned={"stuck_after": 1.5})
    job = fleet.add(task, 40.0, _time_limit=0.5, _retries=1, _retry_delay=0.0)[0]
    fleet.wait_notes(1)
    fleet.books.raw.hset(keys.key(QUEUE, "body"), job, b"[[0.01],{}]")  # the next run is quick
    fleet.app.client.run(_paused("1"))
    wait_until(lambda: events_of(stuck, "stuck_handler"), 30, fleet.tell)
    assert events_of(stuck, "stuck_handler")[0]["id"] == job
    wait_until(lambda: _ignored(fleet), 45, fleet.tell)
    # It says so before it has told the server.
    wait_until(lambda: fleet.books.picture().states()[job] != ["running"], 30, fleet.tell)
    stuck.freeze()
    # Before the other one is there: the bell might wake the frozen one, and the other would look after half a minute.
    fleet.app.client.run(_paused(""))
    other = fleet.start()
    fleet.wait_done(job, 60)
    stuck.thaw()
    fleet.kill(other)
    fleet.add("aquick", 0.01, count=5)
    fleet.add("quick", 0.01, count=5)
    fleet.books.drain()
    assert [note.pid for note in read_notes(fleet.books.notebook) if note.kind == "start" and note.id == job] == [
        stuck.pid,
        other.pid,
    ]
    picture = fleet.books.picture()
    assert codec.read_attempts(picture.hashes["attempts"][job]) == codec.Attempts(1, 0, 0)
    assert [event.kind for event in codec.read_events(picture.hashes["error"][job])] == ["timeout"]
    assert picture.meta["n:done"] == "11"
    stuck.terminate()
    assert stuck.wait(30) == 0, stuck.output


def _paused(value: str) -> Any:
    from qdeck._engine import programs, transitions

    return programs.call(transitions.configure(QUEUE, {"paused": value}))


@pytest.mark.timeout(90)
def test_wrong_clocks(fleet: Fleet) -> None:
    """Workers whose clocks are five minutes slow and fast: delays, leases, retries and takeovers are as with right
    ones, because the server's clock alone counts."""
    slow = fleet.start(skew=-300.0)
    fast = fleet.start(skew=300.0)
    for _ in range(3):
        fleet.load()
    delayed = fleet.add("aquick", _delay=1.5, count=5)
    long = fleet.add("quick", 2.0, count=4)  # several leases long
    fleet.wait_notes(20)
    fleet.kill(slow)
    fleet.start(skew=-300.0)
    fleet.books.drain()
    fleet.books.check()
    assert set(long) <= set(fleet.books.picture().states())
    notes = read_notes(fleet.books.notebook)
    starts = {note.id: note.at for note in notes if note.kind == "start" and note.id in delayed}
    heads = fleet.books.picture().hashes["head"]
    for job in delayed:
        waited_ms = starts[job] - codec.read_head(heads[job]).enqueued_ms
        assert 1_490 <= waited_ms < 15_000, waited_ms
    seen = fleet.books.raw.hgetall("qdeck:workers")
    server_s = fleet.books.raw.time()[0]
    told = [json.loads(text) for text in seen.values()]
    assert {pid_of(worker["id"]) for worker in told} >= {fast.pid}
    assert all(abs(worker["heartbeat_ms"] / 1000 - server_s) < 60 for worker in told), told
