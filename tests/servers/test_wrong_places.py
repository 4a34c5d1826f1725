"""URLs that lead to a server of another kind than they say: the error says which, and how to write it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import qdeck
from qdeck.admin import Writer
from support.clusters import MASTER, Sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.servers import Server


@pytest.fixture
def sentinel(make_server: Callable[..., Server]) -> Iterator[Sentinel]:
    made = Sentinel(make_server(), down_after_ms=60_000)
    made.start()
    yield made
    made.stop()


def told(url: str) -> str:
    """What an application is told, the same by both clients, and what a deck is."""
    said = set()
    for run in (_enqueue, lambda url: asyncio.run(_aenqueue(url))):
        with pytest.raises(qdeck.QdeckError) as caught:
            run(url)
        assert "gate" not in f"{caught.value}", "what was sent is nobody's business"
        said.add(f"{caught.value}: {caught.value.hint}")
    with pytest.raises(qdeck.QdeckError) as caught, Writer(url) as writer:
        writer.snapshot()
    said.add(f"{caught.value}: {caught.value.hint}".replace("HLEN", "EVALSHA"))
    assert len(said) == 1
    return said.pop()


def _enqueue(url: str) -> None:
    app = qdeck.App(url, queue="gate:actions")
    try:
        app.task(name="step")(print).enqueue()
    finally:
        app.close()


async def _aenqueue(url: str) -> None:
    app = qdeck.App(url, queue="gate:actions")
    try:
        await app.task(name="step")(print).aenqueue()
    finally:
        await app.aclose()


def test_a_server_where_sentinels_are_named(url: str) -> None:
    where = url.split("/")[2]
    said = told(f"redis+sentinel://{where}/{MASTER}")
    assert "is a server, not a Sentinel" in said
    assert "Write redis:// for one server" in said


def test_a_sentinel_where_servers_are_named(sentinel: Sentinel) -> None:
    where = sentinel.url.split("/")[2]
    assert "write redis+sentinel://host/service" in told(f"redis://{where}")
    assert "is not a server of a cluster" in told(f"redis+cluster://{where}")


def test_one_sentinel_that_answers_is_enough(sentinel: Sentinel) -> None:
    where = sentinel.url.split("/")[2]
    for others in ("127.0.0.1:1,127.0.0.1:2", "nowhere.invalid", "a..b"):
        url = f"redis+sentinel://{others},{where}/{MASTER}"
        for _ in range(3):  # which one is asked first is chosen by chance
            _enqueue(url)
            asyncio.run(_aenqueue(url))
        with Writer(url) as writer:
            assert writer.snapshot().totals.ready
