"""The clock of the server jumps under leases: they change by the jump only, and a live worker loses no job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.fleet import Fleet
from chaos.jobs import make_app
from qdeck._engine import codec
from support.clocks import NEEDS_FAKETIME, Clock, server_with_clock
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from support.processes import PythonProcess
    from support.proxy import FaultProxy
    from support.servers import Server

pytestmark = [pytest.mark.slow, NEEDS_FAKETIME, pytest.mark.timeout(240)]
LEASE_S = 2.0


@pytest.fixture
def jumping(
    make_server: Callable[..., Server],
    url: str,
    raw: redis.Redis,
    tmp_path: Path,
    make_process: Callable[..., PythonProcess],
) -> Iterator[tuple[Fleet, Clock]]:
    """Workers on a server whose clock the test sets."""
    server, clock = server_with_clock(make_server, tmp_path / "clock")
    app = make_app(server.url)
    with server.client(timeout_s=60) as client:
        yield Fleet(app, server.url, client, raw, url, make_process), clock
    app.close()


@pytest.mark.parametrize("jump_s", [600, -600, 86_400, -86_400])
def test_a_jump_takes_no_job_from_a_worker_that_lives(jumping: tuple[Fleet, Clock], jump_s: int) -> None:
    """Jobs that take longer than a lease run under two workers when the clock jumps: each runs once, none is blamed."""
    fleet, clock = jumping
    for _ in range(2):
        fleet.start(lease=LEASE_S, concurrency=5)
    fleet.add("aquick", 4.0, count=5)
    fleet.add("quick", 4.0, count=5)
    fleet.wait_notes(10)
    clock.set(jump_s)
    fleet.add("aquick", 0.01, count=20)
    fleet.wait_notes(40, 60)  # what is new runs at once, beside them
    fleet.books.drain(60)
    tale = fleet.books.check()
    assert tale.reruns == 0
    fleet.check_alive()


@pytest.mark.parametrize("jump_s", [600, -3600])
def test_jobs_of_a_lost_worker_come_back_in_spite_of_a_jump(jumping: tuple[Fleet, Clock], jump_s: int) -> None:
    """A worker is killed and the clock jumps before its leases end: another worker runs its jobs soon all the same."""
    fleet, clock = jumping
    victim = fleet.start(lease=LEASE_S, concurrency=5)
    fleet.add("aquick", 1.0, count=5)
    fleet.wait_notes(5)
    fleet.kill(victim)
    clock.set(jump_s)
    fleet.start(lease=LEASE_S, concurrency=5)
    fleet.books.drain(150)  # it looks for leases that end too late once a minute
    tale = fleet.books.check()
    assert tale.reruns <= 5


def test_a_failover_to_a_replica_with_another_clock(
    make_server: Callable[..., Server],
    make_proxy: Callable[[str], FaultProxy],
    url: str,
    raw: redis.Redis,
    tmp_path: Path,
    make_process: Callable[..., PythonProcess],
) -> None:
    """The replica that takes over is ten minutes ahead: jobs that run go on, and run once."""
    master = make_server()
    replica, _ = server_with_clock(make_server, tmp_path / "clock", ahead_s=600)
    proxy = make_proxy(master.url)
    app = make_app(proxy.url)
    with master.client(timeout_s=60) as before, replica.client(timeout_s=60) as after:
        after.execute_command("REPLICAOF", "127.0.0.1", master.port)
        wait_until(lambda: after.info("replication").get("master_link_status") == "up")
        fleet = Fleet(app, proxy.url, after, raw, url, make_process)
        fleet.start(lease=LEASE_S, concurrency=10)
        fleet.add("aquick", 4.0, count=10)
        fleet.wait_notes(10)
        wait_until(lambda: len(fleet.books.picture().hashes["lease"]) == 10)
        before.execute_command("CLIENT", "PAUSE", "60000", "WRITE")  # nothing more is written there
        after.execute_command("REPLICAOF", "NO", "ONE")
        proxy.retarget(replica.port)
        later = fleet.add("quick", 0.01, count=10)
        for job_id in later:
            fleet.wait_done(job_id)
        fleet.books.drain(60)
        tale = fleet.books.check()
        assert tale.reruns == 0
        blamed = [codec.read_attempts(raw).crashes for raw in fleet.books.picture().hashes["attempts"].values()]
        assert not any(blamed)
    app.close()
