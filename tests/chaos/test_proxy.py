"""Faults of the network between the workers, the producers and the server."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from chaos.jobs import QUEUE, make_app
from chaos.ledger import read_notes
from qdeck import ServerUnreachable
from qdeck._engine import keys, programs, transitions
from qdeck._engine.scripts import load
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck._worker.blocking_wait import BlockingWait, WakeUps
from support.proxy import Side, Then
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from chaos.fleet import Fleet
    from chaos.ledger import Note
    from support.proxy import FaultProxy

# What is found in the request of each script and of nothing else.
_POLL = load("poll").digest
_BEAT = load("heartbeat").digest


def test_reply_of_enqueue_lost(fleet: Fleet, make_proxy: Callable[[str], FaultProxy]) -> None:
    """The answer to an enqueue is lost, in blocking code and in asyncio, by a reset and by silence: the client sends it
    again, and each job is there once."""
    proxy = make_proxy(fleet.url)
    app = make_app(f"{proxy.url}?socket_timeout=1")
    words = [app.enqueue("aquick")]
    for number, then in enumerate((Then.RESET, Then.RESET, Then.SILENCE)):
        proxy.drop_next_reply(b"EVALSHA", then=then)
        words += app.enqueue_many([app.find_task("aquick").call(_delay=number / 100) for _ in range(number + 1)])
        proxy.wait_hit(number + 1)

    async def main() -> None:
        words.append(await app.find_task("aquick").aenqueue())
        proxy.drop_next_reply(b"EVALSHA")
        words.append(await app.find_task("aquick").aenqueue())
        await app.aclose()

    asyncio.run(main())
    proxy.wait_hit(4)
    fleet.books.add(words)
    assert len(fleet.books.submitted) == 9
    fleet.start()
    fleet.books.drain()
    assert fleet.books.check().runs == 9
    app.close()


@pytest.mark.parametrize("script", [_POLL, _BEAT], ids=["poll", "beat"])
@pytest.mark.parametrize("then", list(Then))
def test_replies_of_workers_lost(
    fleet: Fleet, make_proxy: Callable[[str], FaultProxy], script: bytes, then: Then
) -> None:
    """The answer to a turn (with its claims) or to a heartbeat is lost, by a reset and by silence: each job runs
    once, and no lease runs out."""
    proxy = make_proxy(fleet.url)
    fleet.start(url=f"{proxy.url}?socket_timeout=1", lease=20 if then is Then.SILENCE else 2)
    for number in range(2 if then is Then.SILENCE else 6):
        proxy.drop_next_reply(script, then=then)
        fleet.add("aquick", 0.7 if script is _BEAT else 0.01, count=6)
        fleet.add("flaky", 1)
        if script is _BEAT:
            break  # beats are few
        proxy.wait_hit(number + 1)
    fleet.books.drain()
    tale = fleet.books.check()
    assert tale.reruns == 0
    assert "n:crashed" not in fleet.books.picture().meta
    assert "n:refused" not in fleet.books.picture().meta


class _Rig:
    """A queue behind a proxy, without a worker: its turns are taken by hand."""

    def __init__(self, url: str, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.direct = SyncClient(Endpoint(url))

    def jobs(self, name: str) -> list[transitions.NewJob]:
        return [transitions.NewJob(f"{name}-{i}", 100, "100 0 aquick", b"[[],{}]") for i in range(3)]


def _sizes(raw: redis.Redis) -> dict[str, int]:
    return {part: int(raw.zcard(keys.key(QUEUE, part))) for part in ("ready", "running", "done")}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("side", [Side.TO_CLIENT, pytest.param(Side.TO_SERVER, marks=pytest.mark.slow)])
def test_reset_at_every_byte(url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy], side: Side) -> None:
    """The connection breaks after each single byte of an enqueue and of a turn, on the way there and on the way back:
    the client sends again, all jobs are made once, claimed once and acknowledged once, however far the first call
    came."""
    proxy = make_proxy(url)
    rig = _Rig(url, proxy)
    client = SyncClient(Endpoint(proxy.url))
    rig.direct.run(programs.make_queue(QUEUE))
    rig.direct.run(programs.call(transitions.configure(QUEUE, {"done_max": "1000000"})))
    offset = number = 0
    counts = {"ready": 0, "running": 0, "done": 0}
    struck = True
    while struck:
        # Once through for the scripts and the handshake, so that the offset is within the call itself.
        client.run(programs.exists(QUEUE, ["warm"]))
        struck = False
        for step in ("enqueue", "poll"):
            hits = proxy.hits
            proxy.reset_after(offset, side)
            if step == "enqueue":
                made = client.run(programs.enqueue(QUEUE, rig.jobs(f"job{offset}")))
                assert [m.id for m in made] == [f"job{offset}-{i}" for i in range(3)]
                counts["ready"] += 3
            else:
                number += 1
                turn = client.run(programs.call(transitions.poll(QUEUE, "w1", number, free_slots=3, lease_ms=600_000)))
                assert [job.id for job in turn.jobs] == [f"job{offset}-{i}" for i in range(3)]
                assert turn.jobs[0].token == f"w1:{number} "
                struck = struck or proxy.hits > hits
                proxy.heal()
                proxy.reset_after(offset, side)
                number += 1
                acks = [(job.id, job.token) for job in turn.jobs]
                after = client.run(
                    programs.call(transitions.poll(QUEUE, "w1", number, free_slots=0, lease_ms=600_000, acks=acks))
                )
                assert (after.refused, after.jobs) == ([], [])
                counts["ready"] -= 3
                counts["done"] += 3
            struck = struck or proxy.hits > hits
            proxy.heal()
            assert _sizes(raw) == counts
        offset += 1
    meta = raw.hgetall(keys.key(QUEUE, "meta"))
    assert int(meta[b"n:enqueued"]) == int(meta[b"n:done"]) == counts["done"] == 3 * offset
    assert b"n:refused" not in meta
    assert offset > (100 if side is Side.TO_SERVER else 10)
    client.close()
    rig.direct.close()


@pytest.mark.parametrize("task", ["await_loss", "watch_loss"])
@pytest.mark.parametrize("lease", [2.0, pytest.param(8.0, marks=pytest.mark.slow)])
@pytest.mark.timeout(90)
def test_heartbeats_lost(fleet: Fleet, make_proxy: Callable[[str], FaultProxy], task: str, lease: float) -> None:
    """From one moment on nothing comes through any more. The handler is told that its lease is lost, a coroutine by
    its cancellation and a thread by `lease_lost`, before the lease ends; and another worker runs the job after that
    only."""
    proxy = make_proxy(fleet.url)
    cut_off = fleet.start(url=proxy.url, lease=lease, patience=60)
    job = fleet.add(task, 60.0)[0]
    fleet.wait_notes(1)
    # Some beats get through; with the last one the lease has its whole length before it.
    time.sleep(lease * 0.6)
    proxy.blackhole()
    deadline_ms = fleet.books.raw.zscore(keys.key(QUEUE, "running"), job)
    assert deadline_ms is not None
    wait_until(lambda: _told(fleet), lease * 2 + 20, fleet.tell)
    told = _told(fleet)[0]
    word, _, noted_later_ms = told.word.partition(" ")
    assert word == "lost"
    late_ms = told.at - int(noted_later_ms) - deadline_ms
    assert late_ms <= 0, f"told {late_ms:.0f} ms after the lease ended"
    # Who takes over gets a job that ends soon.
    fleet.books.raw.hset(keys.key(QUEUE, "body"), job, b"[[0.01],{}]")
    fleet.start()
    fleet.books.killed.add(cut_off.pid)  # for the server it is dead
    fleet.wait_done(job, 60)
    proxy.heal()
    starts = [note for note in read_notes(fleet.books.notebook) if note.kind == "start"]
    assert len(starts) == 2
    assert starts[1].at >= told.at
    # The worker that was cut off goes on.
    more = fleet.add("aquick", 0.2, count=40)
    wait_until(lambda: _ran(fleet, cut_off.pid) & set(more), 40, fleet.tell)
    fleet.books.drain()
    fleet.books.check()


def _told(fleet: Fleet) -> list[Note]:
    return [note for note in read_notes(fleet.books.notebook) if note.kind == "told"]


def _ran(fleet: Fleet, pid: int) -> set[str]:
    return {note.id for note in read_notes(fleet.books.notebook) if note.kind == "end" and note.pid == pid}


async def test_handshake_without_answer(url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy]) -> None:
    """A server that takes the connection on which a worker listens for work, and never answers the handshake, must not
    make the worker deaf for ever: it gives up after the time-out, and can try again."""
    proxy = make_proxy(url)
    proxy.drop_next_request(then=Then.SILENCE)
    wait_for_wakeup = BlockingWait(Endpoint(proxy.url, timeout=0.5), WakeUps())
    began = time.monotonic()
    with pytest.raises(ServerUnreachable):
        async with asyncio.timeout(20):
            await wait_for_wakeup.wait([b"wakeup"])
    assert time.monotonic() - began < 15
    assert proxy.hits == 1
    await wait_for_wakeup.close()
    raw.rpush("wakeup", "1")
    assert await wait_for_wakeup.wait([b"wakeup"]) == [b"wakeup"]
    await wait_for_wakeup.close()


@pytest.mark.timeout(90)
def test_slow_and_jumpy_network(fleet: Fleet, make_proxy: Callable[[str], FaultProxy]) -> None:
    """30 ms each way, connections reset now and then, and one worker killed under it: all counts are exact."""
    proxy = make_proxy(fleet.url)
    proxy.latency(0.03)
    for _ in range(3):
        fleet.start(url=proxy.url, lease=2)
    for _ in range(2):
        fleet.load()
        fleet.wait_notes(5)
        for _ in range(4):
            proxy.reset_all()
            time.sleep(0.15)
        fleet.kill(fleet.workers[0])
        # One that never met its server ends at once: its address is wrong more often than its network.
        fleet.start(url=proxy.url, lease=2)
    proxy.reset_all()
    fleet.books.drain(60)
    fleet.books.check()
    fleet.check_alive()


async def test_many_cancelled_calls(fleet: Fleet) -> None:
    """Calls cut off at any point by a cancel never let a later call read their answer."""
    client = AsyncClient(Endpoint(fleet.url), connections=4)
    jobs = [transitions.NewJob(f"c-{i}", 100, "100 0 aquick", b"[[],{}]") for i in range(300)]
    for i, job in enumerate(jobs):
        call = asyncio.create_task(client.run(programs.enqueue(QUEUE, [job])))
        for _ in range(i % 7):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await client.run(programs.enqueue(QUEUE, [job])))[0].id == job.id
    picture = fleet.books.picture()
    assert len(picture.zsets["ready"]) == len(jobs)
    await client.close()
