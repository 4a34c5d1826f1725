"""A server that refuses writes: out of memory, too few replicas, a disk that fails."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.test_lease import events_of
from qdeck import ServerRefused
from qdeck._engine import codec
from support.waiting import wait_until

if TYPE_CHECKING:
    from chaos.fleet import Fleet


@pytest.mark.timeout(120)
def test_out_of_memory(hurt_fleet: Fleet) -> None:
    """No byte is left (noeviction): an enqueue is refused with the reason and the remedy and leaves nothing behind;
    what was enqueued before is run, fails, is tried again and ends, also for a worker that starts now; with room
    again, enqueues work."""
    fleet, server = hurt_fleet, hurt_fleet.books.raw
    for _ in range(3):
        fleet.load()
    long = fleet.add("quick", 1.5, count=4)
    server.config_set("maxmemory-policy", "noeviction")
    server.config_set("maxmemory", 1)
    before = fleet.books.picture()
    for call in (fleet.call("aquick"), fleet.call("aquick", _delay=5), fleet.call("aquick", _after=long)):
        with pytest.raises(ServerRefused, match="memory") as refused:
            fleet.app.enqueue_many([call])
        assert "maxmemory" in refused.value.hint
    assert fleet.books.picture() == before
    for _ in range(2):
        fleet.start()
    fleet.books.drain(60)
    tale = fleet.books.check()
    assert tale.reruns == 0
    assert "n:crashed" not in fleet.books.picture().meta
    server.config_set("maxmemory", 0)
    fleet.add("aquick", count=5)
    fleet.books.drain(30)
    fleet.books.check()
    fleet.check_alive()


@pytest.mark.timeout(120)
def test_too_few_replicas(hurt_fleet: Fleet) -> None:
    """`min-replicas-to-write` is not met: producers, blocking and asyncio, are told so with the remedy; workers wait,
    say why, and lose nothing of what they have in hand; they go on when writes are accepted again."""
    fleet, server = hurt_fleet, hurt_fleet.books.raw
    workers = [fleet.start(lease=20) for _ in range(2)]
    fleet.load()
    flaky = fleet.add("flaky", 2, count=4)
    fleet.add("quick", 0.5, count=10)
    fleet.wait_notes(10)
    server.config_set("min-replicas-to-write", 1)
    with pytest.raises(ServerRefused, match="NOREPLICAS") as refused:
        fleet.app.enqueue("aquick")
    assert "replicas" in refused.value.hint

    async def enqueue() -> None:
        try:
            await fleet.app.find_task("aquick").aenqueue()
        finally:
            await fleet.app.aclose()

    with pytest.raises(ServerRefused, match="NOREPLICAS"):
        asyncio.run(enqueue())
    wait_until(lambda: any(events_of(worker, "waiting") for worker in workers), 20, fleet.tell)
    told = next(event for worker in workers for event in events_of(worker, "waiting"))
    assert "NOREPLICAS" in told["error"]
    time.sleep(2)
    fleet.check_alive()
    server.config_set("min-replicas-to-write", 0)
    fleet.add("aquick", count=5)
    fleet.books.drain(60)
    assert fleet.books.check().reruns == 0
    picture = fleet.books.picture()
    assert {codec.read_attempts(picture.hashes["attempts"][job]) for job in flaky} == {codec.Attempts(2, 0, 0)}
    assert "n:crashed" not in picture.meta
    fleet.check_alive()


@pytest.mark.timeout(120)
def test_disk_that_fails(hurt_fleet: Fleet) -> None:
    """A snapshot cannot be written and the server stops writes (MISCONF): refused with the reason; work goes on when
    the disk is well."""
    fleet, server = hurt_fleet, hurt_fleet.books.raw
    worker = fleet.start(lease=20)
    fleet.load()
    fleet.wait_notes(10)
    folder, name = server.config_get("dir")["dir"], server.config_get("dbfilename")["dbfilename"]
    server.config_set("save", "3600 1")
    server.config_set("stop-writes-on-bgsave-error", "yes")
    # Its name is a folder now, so that it cannot be put in place.
    Path(str(folder), str(name)).mkdir()
    server.bgsave()
    wait_until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", 20)
    with pytest.raises(ServerRefused, match="MISCONF") as refused:
        fleet.app.enqueue("aquick")
    assert "disk" in refused.value.hint
    assert fleet.books.picture().meta  # reads go on
    server.config_set("stop-writes-on-bgsave-error", "no")
    fleet.add("aquick", count=5)
    fleet.books.drain(60)
    assert fleet.books.check().reruns == 0
    assert worker.code is None
