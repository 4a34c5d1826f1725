"""Servers whose queues no adapter reads: the system is reported by name, and the server is not called healthy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.adapters.sidekiq import records as sidekiq
from core.adapters.test_conformance import FILL
from qdeck.adapters import unknown_systems
from qdeck.admin import ADAPTERS, Code, Reader, Status, Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

LARAVEL = json.dumps(
    {"uuid": "5f0e", "displayName": "App\\Jobs\\Send", "job": "Illuminate\\Queue\\CallQueuedHandler@call"}
)
WRITES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "Resque": ("resque:queues", lambda raw: raw.sadd("resque:queues", "default")),
    "arq": ("arq:queue", lambda raw: raw.zadd("arq:queue", {"6b1c": 1_795_000_000_000})),
    "dramatiq": (
        "dramatiq:__heartbeats__",
        lambda raw: raw.zadd("dramatiq:__heartbeats__", {"5d3f": 1_795_000_000_000}),
    ),
    "asynq": ("asynq:queues", lambda raw: raw.sadd("asynq:queues", "default")),
    "taskiq": ("taskiq", lambda raw: raw.lpush("taskiq", b'{"task_id":"1","task_name":"app:send"}')),
    "huey": ("huey.redis.app", lambda raw: raw.lpush("huey.redis.app", b"\x80\x04\x95")),
    "SAQ": ("saq:default:incomplete", lambda raw: raw.zadd("saq:default:incomplete", {"saq:job:default:1": 0})),
    "Laravel": ("laravel_database_queues:default", lambda raw: raw.rpush("laravel_database_queues:default", LARAVEL)),
    "Bull 3 or 4": ("bull:mail:id", lambda raw: raw.set("bull:mail:id", 7)),
    "Redis Streams": ("orders", lambda raw: raw.xgroup_create("orders", "billing", mkstream=True)),
}
OTHERS: dict[str, Callable[[Any], object]] = {
    "nothing": lambda raw: None,
    "another type": lambda raw: raw.set("arq:queue", "1"),
    "a stream without groups": lambda raw: raw.xadd("orders", {"id": "1"}),
    "a topic of qdeck": lambda raw: raw.xgroup_create("shop:notifications:paid", "billing", mkstream=True),
    "names that only look alike": lambda raw: raw.mset({"huey.settings": "1", "my:queues": "1", "saq:x": "1"}),
}


@pytest.mark.parametrize("system", WRITES)
def test_a_system_that_no_adapter_reads_is_reported(url: str, raw: redis.Redis, system: str) -> None:
    key, write = WRITES[system]
    write(raw)
    with Reader(url) as reader:
        seen = reader.snapshot()
    assert seen.queues == ()
    assert [(one.code, one.name) for one in seen.findings if one.code is Code.UNKNOWN_SYSTEM] == [
        (Code.UNKNOWN_SYSTEM, f"{system} ({key})")
    ]
    assert seen.status is Status.DEGRADED


@pytest.mark.parametrize("what", OTHERS)
def test_other_keys_are_not(url: str, raw: redis.Redis, what: str) -> None:
    OTHERS[what](raw)
    with Reader(url) as reader:
        assert not [one for one in reader.snapshot().findings if one.code is Code.UNKNOWN_SYSTEM]


@pytest.mark.parametrize("system", WRITES)
def test_it_is_reported_beside_queues_too_unless_it_is_any_consumer_group(
    url: str, raw: redis.Redis, system: str
) -> None:
    key, write = WRITES[system]
    write(raw)
    sidekiq.fill(raw)
    with Writer(url) as writer:
        writer.enqueue("shop:actions", "send")
        seen = writer.snapshot()
    assert {row.adapter for row in seen.queues} == {"native", "sidekiq"}
    assert seen.unknown_systems == (() if system == "Redis Streams" else (f"{system} ({key})",))


def test_the_systems_that_adapters_read_are_not_reported(url: str, raw: redis.Redis) -> None:
    for filler in FILL.values():
        filler().populate(raw)
    with Reader(url) as reader:
        assert reader.snapshot().unknown_systems == ()


def test_beside_queues_it_is_searched_once_a_minute(
    url: str, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidekiq.fill(raw)
    with Reader(url) as reader:
        reader.snapshot()
        raw.sadd("resque:queues", "default")
        assert reader.snapshot().unknown_systems == ()
    monkeypatch.setattr(unknown_systems, "KNOWN_S", 0)
    with Reader(url) as reader:
        assert reader.snapshot().unknown_systems == ("Resque (resque:queues)",)
        raw.delete("resque:queues")
        assert reader.snapshot().unknown_systems == ()


def test_a_reader_of_some_adapters_does_not_search(url: str, raw: redis.Redis) -> None:
    raw.sadd("resque:queues", "default")
    with Reader(url, adapters=ADAPTERS[:2]) as reader:
        assert reader.snapshot().unknown_systems == ()


def test_a_key_that_is_gone_is_no_longer_reported(url: str, raw: redis.Redis) -> None:
    raw.lpush("huey.redis.app", b"\x80\x04\x95")
    with Reader(url) as reader:
        assert reader.snapshot().unknown_systems == ("huey (huey.redis.app)",)
        raw.delete("huey.redis.app")
        assert reader.snapshot().unknown_systems == ()
