"""Slots move from server to server while an application works: it notices nothing."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from qdeck_console.embedded_cluster import ask
from servers.load import Load
from support.clusters import Cluster, queue_slot

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = [f"yard:part{number}:actions" for number in range(4)]


def check(load: Load) -> None:
    """Nobody saw an error, and every job was done, once."""
    counts = load.drain()
    assert load.errors == []
    assert load.unseen == []
    assert load.events == []
    assert counts == {"ready": 0, "running": 0, "done": load.made, "dead": 0}
    assert set(Counter(load.ran).values()) == {1}
    assert len(load.ran) == load.made


def test_a_slot_moves_while_jobs_wait_in_it(cluster: Cluster) -> None:
    with Load(cluster.url, QUEUES[:1], pause_s=0.002) as load:
        time.sleep(0.1)
        slot = queue_slot(QUEUES[0])
        for node in cluster.nodes:
            cluster.move_slot(slot, node)
            time.sleep(0.1)
        load.stop()
        check(load)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_slots_move_key_by_key_under_load(cluster: Cluster) -> None:
    moved = 0
    with Load(cluster.url, QUEUES) as load:
        began = time.monotonic()
        turn = 0
        # On a slow machine a turn takes longer: then it has more time for the same turns.
        while time.monotonic() < began + 12 or (turn <= 10 and time.monotonic() < began + 60):
            turn += 1
            for queue in QUEUES:
                # Slowly, one key at a time: half of a queue's keys are here and half are there for a while.
                moved += cluster.move_slot(queue_slot(queue), cluster.nodes[turn % 3], pause_s=0.005, most=1)
        load.stop()
        check(load)
    assert turn > 10
    assert moved > 100


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_slots_move_to_a_server_that_joined_and_back_from_one_that_leaves(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    with Load(cluster.url, QUEUES) as load:
        time.sleep(0.5)
        fourth = cluster.join()
        ask(fourth, "CLUSTER", "MEET", "127.0.0.1", cluster.nodes[0].port)
        cluster.wait()
        homes = {queue: cluster.owner(queue_slot(queue)) for queue in QUEUES}
        for queue in QUEUES:
            cluster.move_slot(queue_slot(queue), fourth)
        time.sleep(1.0)
        for queue, home in homes.items():
            cluster.move_slot(queue_slot(queue), home)
        name = ask(fourth, "CLUSTER", "MYID").decode()
        for node in cluster.nodes[:3]:
            ask(node, "CLUSTER", "FORGET", name)
        fourth.stop()
        cluster.nodes.remove(fourth)
        time.sleep(0.5)
        load.stop()
        check(load)
