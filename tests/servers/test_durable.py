"""Enqueues that wait until replicas or the disk have the job: what is told when they have, and when they have not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck import Durable
from qdeck_console.embedded_cluster import ask
from support.clusters import replicas_of, wait_for
from support.proxy import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.clusters import Cluster
    from support.proxy import FaultProxy
    from support.servers import Server

QUEUE = "vault:actions"


def pair(make_server: Callable[..., Server], port: int | None = None, *args: str) -> tuple[Server, Server]:
    """A master and its replica."""
    master = make_server("--repl-diskless-sync-delay", "0", *args)
    replica = make_server("--replicaof", f"127.0.0.1 {port or master.port}", *args)
    wait_for(lambda: replicas_of(master) == 1, "replica")
    return master, replica


def app_on(url: str, **options: object) -> tuple[qdeck.App, qdeck.Task[..., int]]:
    app = qdeck.App(url, queue=QUEUE, **options)  # type: ignore[arg-type]  # the options of App

    @app.task
    def step(number: int) -> int:
        return number

    return app, step


# Both ways to enqueue, one after the other, so that they are compared on the same servers.
@pytest.mark.filterwarnings("ignore:a blocking enqueue:RuntimeWarning")
async def test_a_replica_that_follows_and_one_that_is_frozen(make_server: Callable[..., Server]) -> None:
    master, replica = pair(make_server)
    app, step = app_on(master.url, durable=1)
    job = step.enqueue(1)
    assert job.durable is not None
    assert (job.durable.met, job.durable.replicas, job.durable.on_disk) == (True, 1, None)
    jobs = app.enqueue_many([step.call(n, _queue=f"vault{n % 2}:actions") for n in range(1200)])
    assert all(one.durable and one.durable.met for one in jobs)
    assert (await step.aenqueue(2)).durable == job.durable
    assert step.enqueue(3, _durable=None).durable is None

    replica.freeze()
    began = time.monotonic()
    with pytest.raises(qdeck.NotDurable, match="not on 1 replica within") as caught:
        step.enqueue(4, _durable=Durable(replicas=1, timeout=0.2))
    assert time.monotonic() - began > 0.15
    [told] = caught.value.jobs
    assert told.durable is not None
    assert (told.durable.met, told.durable.replicas) == (False, 0)
    assert told.state() == "ready", "it is enqueued all the same"
    with pytest.raises(qdeck.NotDurable, match="0 of 1"):
        await step.aenqueue(5, _durable=Durable(replicas=1, timeout=0.05))

    replica.thaw()
    again = step.enqueue(4, _id=told.id, _durable=Durable(replicas=1, timeout=10))
    assert (again.id, again.created) == (told.id, False)
    assert again.durable is not None
    assert again.durable.met
    with pytest.raises(qdeck.NotDurable, match="1 of 2 replicas"):
        step.enqueue(6, _durable=Durable(replicas=2, timeout=0.05))
    await app.aclose()
    app.close()


def test_an_answer_that_was_lost_does_not_pass_for_one_of_the_replicas(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    """`WAIT` on a new connection knows of no write and answers at once: that must not be taken for the job's."""
    master, replica = pair(make_server)
    proxy = make_proxy(master.url)
    app, step = app_on(proxy.url)
    step.enqueue(0)
    replica.freeze()
    for containing in (b"EVALSHA", b"WAIT"):
        proxy.drop_next_reply(containing)
        with pytest.raises(qdeck.NotDurable, match="0 of 1"):
            step.enqueue(1, _durable=Durable(replicas=1, timeout=0.1))
    assert proxy.hits == 2
    app.close()
    replica.thaw()  # the master would wait for it at its end


@pytest.mark.slow
def test_what_a_failover_loses_was_told(
    make_server: Callable[..., Server], make_proxy: Callable[[str], FaultProxy]
) -> None:
    """The link to the replica goes dead, the master dies, the replica takes over: every lost job was told of."""
    master = make_server("--repl-diskless-sync-delay", "0")
    link = make_proxy(master.url)
    replica = make_server("--replicaof", f"127.0.0.1 {link.port}")
    wait_for(lambda: replicas_of(master) == 1, "replica")
    app, step = app_on(master.url, durable=Durable(replicas=1, timeout=10))
    unsafe: list[str] = []
    safe = [step.enqueue(number).id for number in range(30)]
    link.blackhole(Side.TO_CLIENT)
    for number in range(30):
        with pytest.raises(qdeck.NotDurable) as caught:
            step.enqueue(number, _durable=Durable(replicas=1, timeout=0.02))
        unsafe.append(caught.value.jobs[0].id)
    app.close()
    master.kill9()
    ask(replica, "REPLICAOF", "NO", "ONE")
    after, _ = app_on(replica.url)
    lost = [job_id for job_id in safe + unsafe if qdeck.Job(after, QUEUE, job_id).state() == "unknown"]
    assert lost == unsafe, "without the link nothing got over, and nothing else is lost"
    after.close()


def test_on_disk(make_server: Callable[..., Server]) -> None:
    server = make_server(appendonly=True)
    app, step = app_on(server.url, durable=Durable(fsync=True, timeout=5))
    job = step.enqueue(1)
    assert job.durable is not None
    assert (job.durable.met, job.durable.on_disk, str(job.durable)) == (
        True, True, "0 of 0 replicas have it, the master's disk has it",
    )  # fmt: skip
    server.kill9()
    server.relaunch()
    assert job.state() == "ready"
    app.close()


def test_a_server_without_a_file_says_so(url: str) -> None:
    app, step = app_on(url)
    with pytest.raises(qdeck.NotDurable, match="no append-only file") as caught:
        step.enqueue(1, _durable=Durable(fsync=True))
    assert "appendonly yes" in caught.value.hint
    assert caught.value.jobs[0].state() == "ready"
    app.close()


def test_on_a_cluster_the_server_of_the_queue_is_asked(cluster: Cluster) -> None:
    app, step = app_on(cluster.url)
    for number in range(6):
        with pytest.raises(qdeck.NotDurable, match="0 of 1") as caught:
            step.enqueue(number, _queue=f"vault{number}:actions", _durable=Durable(replicas=1, timeout=0.01))
        assert caught.value.jobs[0].state() == "ready"
    app.close()


def test_many_queues_share_one_time_out(cluster: Cluster) -> None:
    app, step = app_on(cluster.url)
    wanted = Durable(replicas=1, timeout=0.5)
    began = time.monotonic()
    with pytest.raises(qdeck.NotDurable, match="0 of 1") as caught:
        app.enqueue_many([step.call(n, _queue=f"vault{n}:actions", _durable=wanted) for n in range(40)])
    assert time.monotonic() - began < 10, "each of 40 queues would wait for half a second"
    assert [job.durable.replicas for job in caught.value.jobs if job.durable] == [0] * 40
    app.close()


@pytest.mark.parametrize("wrong", [0, -1, 101, True, "replica", 1.5])
def test_what_can_be_wanted(wrong: object) -> None:
    with pytest.raises(qdeck.InvalidOption):
        qdeck.App("redis://localhost", queue=QUEUE, durable=wrong)  # type: ignore[arg-type]  # that is what is tested


@pytest.mark.parametrize("wrong", [{}, {"replicas": 1, "timeout": 0}, {"fsync": True, "timeout": 61}])
def test_what_can_be_said_of_it(wrong: dict[str, object]) -> None:
    with pytest.raises(qdeck.InvalidOption):
        Durable(**wrong)  # type: ignore[arg-type]  # that is what is tested
