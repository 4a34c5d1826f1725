"""Every subscriber gets every event, also what its process did not live to hand over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    import redis

    from qdeck.messages import DomainAction, Messenger, Service

STREAM = "nooble4:dev:ingestion:notifications:document_processed"


def subscriber(make_service: Callable[..., Service], name: str) -> tuple[Service, list[int]]:
    service = make_service(name)
    got: list[int] = []

    @service.on_notification("ingestion", "document_processed")
    async def processed(event: DomainAction) -> None:
        got.append(event.data["n"])

    return service, got


async def test_every_subscriber_gets_every_event(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.1)
    emitter = make_service("ingestion")
    first, got_first = subscriber(make_service, "search")
    second, got_second = subscriber(make_service, "audit")
    again, _ = subscriber(make_service, "audit")
    await serve(first, second, again)
    for n in range(50):
        await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": n}))
    await until(lambda: len(got_first) == 50)
    assert got_first == list(range(50))
    await until(lambda: raw.xlen(STREAM) == 0)
    assert len(set(got_second)) <= 50
    await emitter.aclose()


async def test_an_event_that_a_dead_process_held_is_taken_over(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.05)
    monkeypatch.setattr("qdeck.messages._incoming_messages.RECLAIM_MS", 50)
    raw.xgroup_create(STREAM, "search", id="$", mkstream=True)
    emitter = make_service("ingestion")
    for n in range(3):
        await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": n}))
    raw.xreadgroup("search", "dead", {STREAM: ">"})
    # One was taken up again and again by processes that died with it.
    entries: Any = raw.xrange(STREAM)
    raw.xclaim(STREAM, "search", "dead", 0, [entries[2][0]], retrycount=50)
    service, got = subscriber(make_service, "search")
    await serve(service)
    await until(lambda: len(got) == 2)
    inbox = "{nooble4:dev:search:notifications:ingestion:document_processed}"
    await until(lambda: raw.zcard(f"{inbox}:dead_letter") == 1)
    await until(lambda: raw.xlen(STREAM) == 0)
    assert sorted(got) == [0, 1]
    await emitter.aclose()


async def test_what_one_group_has_not_acknowledged_is_not_trimmed(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.05)
    raw.xgroup_create(STREAM, "asleep", id="0", mkstream=True)
    service, got = subscriber(make_service, "search")
    await serve(service)
    emitter = make_service("ingestion")
    for n in range(5):
        await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": n}))
    await until(lambda: len(got) == 5)
    await asyncio.sleep(0.3)
    assert raw.xlen(STREAM) == 5
    raw.xreadgroup("asleep", "x", {STREAM: ">"}, count=3)
    entries: Any = raw.xrange(STREAM)
    raw.xack(STREAM, "asleep", entries[0][0])
    await until(lambda: raw.xlen(STREAM) == 4)
    await emitter.aclose()


async def test_the_end_of_the_last_subscription_takes_the_stream_along(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    service, _ = subscriber(make_service, "search")
    await serve(service)
    assert raw.exists(STREAM)
    await service.aunsubscribe()
    assert not raw.exists(STREAM)


async def test_a_subscriber_whose_stream_was_removed_subscribes_again(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    service, got = subscriber(make_service, "search")
    await serve(service)
    emitter = make_service("ingestion")
    await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": 0}))
    await until(lambda: got == [0])
    raw.delete(STREAM)
    # Also what comes before it noticed.
    for n in (1, 2):
        await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": n}))
    await until(lambda: got == [0, 1, 2])
    await emitter.aclose()


async def test_who_unsubscribed_while_it_runs_does_not_subscribe_again_and_another_stays(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    first, got_first = subscriber(make_service, "search")
    second, got_second = subscriber(make_service, "audit")
    await serve(first, second)
    await first.aunsubscribe()
    emitter = make_service("ingestion")
    await emitter.anotify("document_processed", emitter.new_action("ingestion.document_processed", {"n": 1}))
    await until(lambda: got_second == [1])
    groups: Any = raw.xinfo_groups(STREAM)
    assert [group["name"] for group in groups] == [b"audit"]
    await second.aunsubscribe()
    await asyncio.sleep(0.2)
    assert (got_first, raw.exists(STREAM)) == ([], 0)
    await emitter.aclose()


def test_a_topic_without_subscribers_keeps_a_bounded_number_of_events(
    client: Messenger, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._transport.MOST_UNHEARD", 200)
    stream = str(client.names.notifications("changed"))
    event = client.new_action("ingestion.changed")
    for _ in range(700):
        client.notify("changed", event)
    assert 200 <= raw.xlen(stream) < 500
    raw.xgroup_create(stream, "asleep", id="0")
    before = raw.xlen(stream)
    for _ in range(300):
        client.notify("changed", event)
    # Somebody subscribed: from then on nothing goes before it was taken.
    assert raw.xlen(stream) == before + 300
