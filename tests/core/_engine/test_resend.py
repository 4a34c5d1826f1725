"""Answers that are lost and requests that are cut: the client sends again, and the effect is that of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from core._engine.harness import OTHER, START_MS, Rig
from qdeck._engine import programs, transitions
from qdeck._redis import AsyncClient, Endpoint
from support.proxy import Side

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from core._engine.picture import Picture
    from qdeck._engine.transitions import ClaimedJob
    from support.proxy import FaultProxy

    MakeProxy = Callable[[str], FaultProxy]


class Scene(Rig):
    """A rig that remembers what its worker has in hand."""

    held: list[ClaimedJob]


def _produce(rig: Rig) -> None:
    rig.enqueue(*(rig.job(f"p{n}", retries=1) for n in range(6)))


def _produce_linked(rig: Rig) -> None:
    rig.enqueue(
        rig.job("u", unique="name", after=["p0"], on_failure=f"mend {OTHER}"),
        rig.job("later", delay_ms=5),
        rig.job("far", after=[f"elsewhere@{OTHER}"]),
    )


def _claim(rig: Scene) -> None:
    rig.held = rig.poll(number=1, free_slots=5).jobs


def _work(rig: Scene) -> None:
    a, b, c, d, e = rig.held
    endings = [
        transitions.Ending(kind="failed", id=b.id, token=b.token, delay_ms=0, event=b'{"class":"Boom"}'),
        transitions.Ending(kind="failed", id=c.id, token=c.token, delay_ms=-1),
        transitions.Ending(kind="done", id=d.id, token=d.token, result=b"1", log=b"x"),
        transitions.Ending(kind="crashed", id=e.id, token=e.token),
    ]
    reply = rig.poll(number=2, free_slots=2, acks=[(a.id, a.token)], endings=endings)
    assert reply.refused == []
    assert len(reply.jobs) == 2


def _beat(rig: Rig) -> None:
    lease = rig.picture().hashes["lease"]
    pairs = [(job_id, raw.decode().partition(" ")[0] + " ") for job_id, raw in sorted(lease.items())]
    assert rig.call(transitions.renew_leases(rig.queue, pairs, rig.now)).lost == []


def _cancel(rig: Rig) -> None:
    rig.change("cancel", "u", "later")


def _sweep(rig: Rig) -> None:
    rig.reap()


STEPS: Final[tuple[Callable[[Scene], object], ...]] = (
    _produce,
    _produce_linked,
    _claim,
    _work,
    _beat,
    lambda rig: rig.configure(limit="3"),
    lambda rig: rig.tick(1_001),
    _sweep,
    lambda rig: rig.tick(501),
    _sweep,
    _cancel,
    lambda rig: rig.deliver(),
    lambda rig: rig.trim(),
)


def play(rig: Scene, raw: redis.Redis, before: Callable[[int], None]) -> dict[str, Picture]:
    """The whole scenario on an empty server; gives what is written at its end."""
    raw.flushall()
    rig.queues.add(OTHER)
    rig.call(transitions.init(OTHER))
    rig.call(transitions.init(rig.queue))
    for number, step in enumerate(STEPS):
        before(number)
        step(rig)
    rig.check()
    return {queue: rig.picture(queue) for queue in rig.queues}


@pytest.mark.parametrize("lost", ["reply", "request"])
def test_what_is_lost_on_the_wire_is_done_once(url: str, raw: redis.Redis, make_proxy: MakeProxy, lost: str) -> None:
    """Of every step of a queue's life, one at a time (reliability 2 and 19)."""
    undisturbed = play(Scene(url, raw), raw, lambda _: None)
    for victim in range(len(STEPS)):
        proxy = make_proxy(url)
        rig = Scene(proxy.url, raw)

        def before(number: int, victim: int = victim, proxy: FaultProxy = proxy) -> None:
            if number == victim:
                (proxy.drop_next_reply if lost == "reply" else proxy.drop_next_request)(b"EVALSHA")

        assert play(rig, raw, before) == undisturbed, f"step {victim}"
        rig.client.close()


@pytest.mark.parametrize("side", list(Side))
def test_a_connection_that_breaks_at_any_byte(url: str, raw: redis.Redis, make_proxy: MakeProxy, side: Side) -> None:
    """All or nothing, wherever the request or the answer is cut (reliability 20)."""
    undisturbed = play(Scene(url, raw), raw, lambda _: None)
    proxy = make_proxy(url)
    rig = Scene(proxy.url, raw)
    for count in range(0, 600, 31 if side is Side.TO_SERVER else 13):
        rig.now, rig._made, rig._turns = START_MS, 0, 0

        def before(number: int, count: int = count) -> None:
            if number in (1, 3):
                proxy.reset_after(count, side)

        assert play(rig, raw, before) == undisturbed, f"cut after {count} bytes"
    rig.client.close()


async def test_an_asyncio_client_sends_again_too(url: str, raw: redis.Redis, make_proxy: MakeProxy) -> None:
    proxy = make_proxy(url)
    client = AsyncClient(Endpoint(proxy.url))
    rig = Rig(url, raw)
    await client.run(programs.call(transitions.init(rig.queue)))
    proxy.drop_next_reply(b"EVALSHA", times=2)
    made = await client.run(programs.enqueue(rig.queue, [rig.job("a"), rig.job("b")], rig.now))
    assert [one.id for one in made] == ["a", "b"]
    proxy.drop_next_reply(b"EVALSHA", times=2)
    reply = await client.run(
        programs.call(transitions.poll(rig.queue, "w", 1, free_slots=2, lease_ms=1_000, now=rig.now))
    )
    assert [job.id for job in reply.jobs] == ["a", "b"]
    assert proxy.hits == 4
    rig.check()
    assert (rig.sizes(), rig.total("enqueued")) == ({"running": 2}, 2)
    await client.close()
