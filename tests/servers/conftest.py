"""Several servers at once: a cluster and a Sentinel trio, shared by the tests that do not hurt them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.clusters import Cluster, Trio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Three nodes; tests may move slots, and leave every node running."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """The shared cluster, emptied."""
    shared_cluster.flush()
    return shared_cluster


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """Starts clusters to be hurt."""
    made: list[Cluster] = []

    def make(**options: object) -> Cluster:
        cluster = Cluster(**options)  # type: ignore[arg-type]  # the options of Cluster
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.stop()


@pytest.fixture
def make_trio() -> Iterator[Callable[..., Trio]]:
    """Starts a master with replicas and three Sentinels, to be hurt."""
    made: list[Trio] = []

    def make(**options: object) -> Trio:
        trio = Trio(**options)  # type: ignore[arg-type]  # the options of Trio
        made.append(trio)
        trio.__enter__()
        return trio

    yield make
    for trio in made:
        trio.stop()
