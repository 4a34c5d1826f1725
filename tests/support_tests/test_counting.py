"""The proxy that counts requests and round trips."""

from __future__ import annotations

import redis

from support.counting import CountingProxy


def test_requests_and_round_trips(url: str) -> None:
    with CountingProxy.before(url) as proxy, redis.Redis.from_url(proxy.url) as client:
        client.ping()
        before = len(proxy.requests())
        client.set("one", 1)
        with client.pipeline(transaction=False) as pipe:
            for number in range(3):
                pipe.get(f"key {number}")
            pipe.execute()
        client.set("large", b"x" * 300_000)  # comes in several parts
        seen = proxy.requests()[before:]
    assert [(request.name, request.key) for request in seen] == [
        ("set", "one"), ("get", "key 0"), ("get", "key 1"), ("get", "key 2"), ("set", "large"),
    ]  # fmt: skip
    assert [request.starts_trip for request in seen] == [True, True, False, False, True]
