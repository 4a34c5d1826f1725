"""A server of a cluster goes away under load, and its replica takes its slots."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck_console.embedded_cluster import ask
from servers.load import Load
from support.clusters import Cluster, queue_slot, replicas_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = [f"pier:part{number}:actions" for number in range(4)]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_replica_takes_over(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    old = cluster.owner(queue_slot(QUEUES[0]))
    new = cluster.follow(old)
    wait_for(lambda: replicas_of(old) == 1, "replica")
    with Load(cluster.url, QUEUES) as load:
        time.sleep(1.0)
        old.kill9()
        wait_for(lambda: b"role:master" in ask(new, "INFO", "replication"), "new master")
        first = len(load.ids[QUEUES[0]])
        wait_for(lambda: len(load.ids[QUEUES[0]]) > first + 100, "service with the new master")
        load.stop()
        counts = load.drain()
        print(f"{load.made} jobs, longest enqueue {load.longest_s:.1f} s, {counts}, errors {load.errors}")  # noqa: T201 - the figures of a run
        assert load.errors == []
        assert counts["ready"] == counts["running"] == 0
        assert len(load.states().get("unknown", [])) < 50, "only of the last moment, as replication is asynchronous"
