"""What reading asks of a server is bounded: no command takes a whole list, and no list of jobs takes large payloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from core._operations.yard import Yard
from qdeck._engine import keys
from qdeck.adapters.native.list_window import read_stretch
from qdeck.admin import Writer
from support.bounds import read_commands, too_much, unbounded
from support.breaking import fill
from support.listening import listening

if TYPE_CHECKING:
    import redis


def test_the_rule_finds_what_is_unbounded() -> None:
    for text in (
        "SCAN 0 COUNT 2000000",
        "SMEMBERS k",
        "LRANGE k 0 -1",
        "HGETALL {q}:body",
        "ZRANGE k 0 -1",
        "ZRANGEBYSCORE k 0 1",
    ):
        assert too_much(text.encode().split()), text
    for text in ("SCAN 0 COUNT 5000", "HGETALL {q}:groups", "ZRANGEBYSCORE k 0 1 LIMIT 0 5"):
        assert not too_much(text.encode().split()), text


def test_no_command_that_looks_is_unbounded(url: str, raw: redis.Redis) -> None:
    ids = fill(url, raw)
    with listening(url) as heard:
        read_commands(url, ids)
    assert len(heard) > 100
    assert unbounded(heard) == []


@pytest.mark.timeout(120)
def test_a_refresh_and_a_list_take_no_large_payload(url: str, raw: Any) -> None:
    yard = Yard(url, raw)
    job = yard.add(1)
    raw.hset(keys.key(yard.queue, "body"), job, b"x" * 64 * 1024 * 1024)
    with Writer(url) as writer:
        writer.snapshot()
        before = raw.info("stats")["total_net_output_bytes"]
        writer.snapshot()
        writer.page(yard.queue, bodies=False)
        writer.run(read_stretch(yard.queue, "ready", 0, 50))
        assert raw.info("stats")["total_net_output_bytes"] - before < 100_000
    yard.client.close()
