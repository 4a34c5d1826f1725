"""A master that goes away under Sentinels, while an application works: how long it waits, and what is lost."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck._engine import programs
from qdeck._redis import AsyncClient, Endpoint, SyncClient
from qdeck.admin import Writer
from qdeck_console.embedded_cluster import ask
from servers.load import Load
from support.clusters import MASTER, Trio, replicas_of, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUES = ["dock:north:actions", "dock:south:actions"]
# What the Sentinels of these tests need: a second to believe it, and the vote.
DOWN_MS = 1000


def told(load: Load) -> str:
    """What the application saw, for the output of a run with `-s`."""
    states = {state: len(ids) for state, ids in load.states().items()}
    return (
        f"{load.made} jobs, the longest enqueue took {load.longest_s:.1f} s, errors {load.errors}, "
        f"looks {load.looks} of which {len(load.unseen)} came to nothing, states {states}, "
        f"run twice {sum(count > 1 for count in Counter(load.ran).values())}"
    )


def fail_over(load: Load, trio: Trio, how: Callable[[], None]) -> list[str]:
    """Lets a master go under load; returns the ids that are not known any more afterwards."""
    time.sleep(1.0)
    old = trio.master()
    how()
    wait_for(lambda: trio.master() is not old, "new master")
    made = load.made
    wait_for(lambda: load.made > made + 100, "service with the new master")
    load.stop()
    load.drain()
    print(told(load))  # noqa: T201 - the figures of a run
    # A producer waits, and is not told of it; nothing was refused.
    assert load.errors == []
    return load.states().get("unknown", [])


def test_an_application_a_worker_and_a_deck_behind_sentinels(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio()
    with Load(trio.url, QUEUES) as load, Writer(trio.url) as writer:
        wait_for(lambda: load.made > 50, "jobs")
        load.stop()
        assert load.drain() == {"ready": 0, "running": 0, "done": load.made, "dead": 0}
        assert writer.snapshot().server.role == "master"
        assert writer.pause(QUEUES[0]).paused
    # Whoever starts later asks the Sentinels that are left.
    trio.sentinels[0].kill9()
    assert SyncClient(Endpoint(trio.url)).run(programs.exists(QUEUES[0], ["none"])) == [False]
    with pytest.raises(qdeck.QdeckError, match="no service 'other'"):
        Writer(trio.url.replace(MASTER, "other")).snapshot()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:a blocking enqueue:RuntimeWarning")  # both clients, on the same servers
async def test_writes_that_a_replica_refuses_go_to_the_master(make_trio: Callable[..., Trio]) -> None:
    """A client whose connection outlives the change of roles, as with `SENTINEL FAILOVER` or an operator's hand."""
    trio = make_trio()
    app = qdeck.App(trio.url, queue=QUEUES[0])
    step = app.task(name="step")(print)
    aclient, old = AsyncClient(app.endpoint), trio.master()
    step.enqueue()
    await step.aenqueue()
    wait_for(lambda: replicas_of(old) == 1, "replica")
    ask(trio.sentinels[1], "SENTINEL", "FAILOVER", MASTER)
    wait_for(lambda: trio.master() is not old, "new master")
    assert step.enqueue().state() == "ready"
    assert await (await step.aenqueue()).astate() == "ready"
    assert await aclient.run(programs.exists(QUEUES[0], ["none"])) == [False]
    await aclient.close()
    await app.aclose()
    app.close()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_master_that_is_killed(make_trio: Callable[..., Trio]) -> None:
    trio = make_trio(down_after_ms=DOWN_MS)
    with Load(trio.url, QUEUES) as load:
        made_before: dict[str, int] = {}

        def kill() -> None:
            made_before.update({queue: len(ids) for queue, ids in load.ids.items()})
            trio.master().kill9()

        lost = fail_over(load, trio, kill)
        # Replication is asynchronous: what was acknowledged in the last moments may be lost, and nothing before.
        for queue, ids in load.ids.items():
            assert not set(lost) & set(ids[: made_before[queue] - 50])
        assert len(lost) < 50
        assert load.longest_s < 30


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_master_that_freezes_and_comes_back(make_trio: Callable[..., Trio]) -> None:
    """What it did not answer was sent again to the new master; what it still does then, nobody has been told of."""
    trio = make_trio(down_after_ms=DOWN_MS)
    with Load(trio.url, QUEUES) as load:
        old = trio.master()
        lost = fail_over(load, trio, old.freeze)
        assert len(lost) < 50
        old.thaw()
        wait_for(lambda: b"role:slave" in ask(old, "INFO", "replication"), "demotion of the old master")
        assert load.states().get("unknown", []) == lost
        counts = Counter(load.ran)
        assert max(counts.values()) <= 2, "once more at most: by a worker whose acknowledgement was lost"
