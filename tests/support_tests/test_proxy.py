from __future__ import annotations

import gc
import socket
import time
import warnings
from typing import TYPE_CHECKING

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff

from support.proxy import FaultProxy, Side, Then
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def proxy(url: str, make_proxy: Callable[[str], FaultProxy]) -> FaultProxy:
    return make_proxy(url)


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[redis.Redis]:
    with raw_client(proxy.url, timeout_s=1.0) as client:
        yield client


def test_passes_everything_on(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    big = bytes(range(256)) * 20_000
    client.set("big", big)
    assert raw.get("big") == client.get("big") == big
    assert proxy.accepted == 1


@pytest.mark.parametrize(("then", "error"), [(Then.RESET, redis.ConnectionError), (Then.SILENCE, redis.TimeoutError)])
def test_dropped_reply_was_done_once(
    proxy: FaultProxy, client: redis.Redis, raw: redis.Redis, then: Then, error: type[Exception]
) -> None:
    client.ping()
    proxy.drop_next_reply(containing=b"INCR", then=then)
    client.set("other", 1)
    with pytest.raises(error):
        client.incr("n")
    proxy.wait_hit()
    assert raw.get("n") == b"1"
    assert client.incr("n") == 2, "only once"


@pytest.mark.parametrize(("then", "error"), [(Then.RESET, redis.ConnectionError), (Then.SILENCE, redis.TimeoutError)])
def test_dropped_request_was_not_done(
    proxy: FaultProxy, client: redis.Redis, raw: redis.Redis, then: Then, error: type[Exception]
) -> None:
    proxy.drop_next_request(containing=b"INCR", then=then)
    with pytest.raises(error):
        client.incr("n")
    assert raw.get("n") is None
    assert client.incr("n") == 1


async def test_dropped_reply_in_asyncio(proxy: FaultProxy, raw: redis.Redis) -> None:
    client = redis.asyncio.Redis.from_url(proxy.url, retry=AsyncRetry(NoBackoff(), 0))
    proxy.drop_next_reply(containing=b"INCR")
    with pytest.raises(redis.ConnectionError):
        await client.incr("n")
    assert raw.get("n") == b"1"
    await client.aclose()


def test_match_across_two_chunks(proxy: FaultProxy, client: redis.Redis) -> None:
    proxy.drop_next_reply(containing=b"needle")
    with pytest.raises(redis.ConnectionError):
        client.set("key", b"x" * 65_500 + b"needle" * 20 + b"x" * 70_000)
    assert proxy.hits == 1


def test_times_counts_the_faults(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    proxy.drop_next_reply(containing=b"INCR", times=2)
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.incr("n")
    assert client.incr("n") == 3


def test_blackhole_delivers_late(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    """As TCP does: what was sent into the hole arrives when the network is back, though nobody waits for it now."""
    client.ping()
    proxy.blackhole()
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert raw.get("n") is None
    proxy.heal()
    last_moment = time.monotonic() + 5
    while raw.get("n") is None and time.monotonic() < last_moment:
        time.sleep(0.01)
    assert raw.get("n") == b"1"
    assert client.incr("n") == 2


def test_blackhole_of_one_side(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    client.ping()
    proxy.blackhole(Side.TO_CLIENT)
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    assert raw.get("n") == b"1"


def test_blackhole_that_loses(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    client.ping()
    proxy.blackhole(lose=True)
    with pytest.raises(redis.TimeoutError):
        client.incr("n")
    proxy.heal()
    assert client.incr("n") == 1


def test_latency(proxy: FaultProxy, client: redis.Redis) -> None:
    client.ping()
    proxy.latency(0.1)
    started = time.monotonic()
    client.ping()
    assert time.monotonic() - started > 0.19, "a tenth of a second each way"


def test_reset_after_bytes(proxy: FaultProxy, client: redis.Redis, raw: redis.Redis) -> None:
    raw.set("value", b"x" * 1000)
    client.ping()
    proxy.reset_after(500)
    with pytest.raises(redis.ConnectionError):
        client.get("value")
    assert proxy.hits == 1
    assert client.get("value") == b"x" * 1000


def test_refuse_close_and_reset(proxy: FaultProxy, client: redis.Redis) -> None:
    client.ping()
    proxy.refuse()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.ping()
    proxy.heal()
    assert client.ping()
    for broken in (proxy.close_all, proxy.reset_all):
        connections = proxy.accepted
        broken()
        time.sleep(0.3)
        assert client.ping(), "the pool sees the end of its connection and makes another"
        assert proxy.accepted == connections + 1


def test_unreachable_server_is_a_reset(make_proxy: Callable[[str], FaultProxy]) -> None:
    with raw_client(make_proxy("redis://127.0.0.1:1/0").url) as client, pytest.raises(redis.ConnectionError):
        client.ping()


def test_nothing_stays_open_that_nobody_reads() -> None:
    """A server that reads nothing and ends its side: what is on the way to it cannot be sent any more."""
    gc.collect()  # what other tests left is not what is counted here
    with socket.create_server(("127.0.0.1", 0)) as listener, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with FaultProxy(listener.getsockname()[1]) as proxy:
            client = socket.create_connection(("127.0.0.1", proxy.port))
            server, _ = listener.accept()
            while not any(end.transport.get_write_buffer_size() for end in set(proxy._ends)):
                client.send(bytes(16_384))
                time.sleep(0.001)
            server.shutdown(socket.SHUT_WR)
            client.close()
            last_moment = time.monotonic() + 10
            while proxy._links and time.monotonic() < last_moment:
                time.sleep(0.01)
            assert not proxy._links
        server.close()
        gc.collect()
    assert [str(one.message) for one in told if issubclass(one.category, ResourceWarning)] == []
