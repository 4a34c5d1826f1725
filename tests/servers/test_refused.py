"""A user who lacks a right is refused before a script writes, also where the client has to find the server first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck_console.embedded_cluster import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from support.clusters import Cluster, Trio
    from support.servers import Server


def app_on(url: str) -> tuple[qdeck.App, qdeck.Task[..., None]]:
    app = qdeck.App(url, queue="shop:mail:actions")

    @app.task
    def step(number: int) -> None: ...

    return app, step


async def check(url: str, servers: Sequence[Server]) -> None:
    """Without one right an enqueue and its asyncio twin change nothing; with it they complete."""
    app, step = app_on(url)
    step.enqueue(0)
    await app.aclose()
    app.close()
    before = [ask(server, "DBSIZE") for server in servers]
    for server in servers:
        ask(server, "ACL", "SETUSER", "default", "-hincrby")
    app, step = app_on(url)
    with pytest.raises(qdeck.NotAllowed, match="hincrby: nothing was changed"):
        step.enqueue(1)
    with pytest.raises(qdeck.NotAllowed, match="hincrby: nothing was changed"):
        await step.aenqueue(1)
    assert [ask(server, "DBSIZE") for server in servers] == before
    for server in servers:
        ask(server, "ACL", "SETUSER", "default", "+hincrby")
    assert step.enqueue(1).created
    assert (await step.aenqueue(2)).created
    await app.aclose()
    app.close()


# Both ways to enqueue, one after the other, so that they are compared on the same servers.
@pytest.mark.filterwarnings("ignore:a blocking enqueue:RuntimeWarning")
async def test_on_a_cluster(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster()
    await check(cluster.url, cluster.nodes)


@pytest.mark.filterwarnings("ignore:a blocking enqueue:RuntimeWarning")
async def test_behind_sentinels(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio()
    await check(trio.url, [trio.master()])
