"""Services that take what other programs push to plain lists, with the document's calls."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import qdeck
from qdeck.messages import DomainAction, Messenger, Service
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    import redis

QUEUE = "nooble4:dev:embedding:actions"
REPLY = "nooble4:dev:ingestion_service:responses:generate_batch:c-1"


def action(name: str, **more: object) -> str:
    """A DomainAction, as the first services serialise it."""
    return json.dumps({"action_id": name, "action_type": "embedding.generate_batch", "data": {"n": name}, **more})


def counting(service: Service) -> list[str]:
    """Declares a handler; returns what it was given."""
    found: list[str] = []

    @service.on_action("embedding.generate_batch")
    async def generate_batch(action: DomainAction) -> dict[str, Any]:
        found.append(action.data["n"])
        return {"embeddings": 1}

    return found


async def test_a_service_takes_what_is_pushed_to_a_list_of_its_name(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")
    found = counting(embedding)
    raw.rpush(QUEUE, action("a1"), action("a2"))
    await serve(embedding)
    await until(lambda: found == ["a1", "a2"])
    raw.rpush(QUEUE, action("a3", callback_queue_name=REPLY, correlation_id="c-1"))
    _, answer = await asyncio.to_thread(raw.blpop, [REPLY], 10)  # type: ignore[misc]  # redis-py's own types
    assert json.loads(answer)["data"] == {"embeddings": 1}
    raw.rpush("nooble4:dev:embedding:default:actions", action("a4"))
    await until(lambda: found == ["a1", "a2", "a3", "a4"])
    await until(lambda: not raw.exists(QUEUE, "nooble4:dev:embedding:default:actions"))


async def test_an_action_that_is_pushed_twice_runs_once_and_old_workers_take_their_share(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")
    found = counting(embedding)
    raw.rpush(QUEUE, *(action(f"a{number}") for number in range(150)), action("a0"))
    assert raw.lpop(QUEUE) == action("a0").encode()  # a worker of the other fleet
    await serve(embedding)
    await until(lambda: not raw.exists(QUEUE))
    await until(lambda: len(found) == 150)
    assert sorted(found) == sorted(f"a{number}" for number in range(150))


async def test_what_is_no_action_is_a_dead_letter_and_stops_nothing(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")
    found = counting(embedding)
    raw.rpush(QUEUE, "no json", b"\xff", '{"action_type": "embedding.generate_batch"}', action("a1"))
    await serve(embedding)
    await until(lambda: found == ["a1"])
    await until(lambda: raw.zcard(f"{{{QUEUE}}}:dead_letter") == 3)
    assert not raw.exists(QUEUE)


async def test_a_callback_without_a_type_is_handled_by_its_event(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    """The document's action names the queue and the correlation id in its data, and no type of the callback."""
    queue = "nooble4:dev:execution_service:tenant_abc:session_123:callbacks:query:rag_results"
    execution = make_service("execution_service:tenant_abc:session_123")
    query = make_service("query")
    found: list[tuple[str, str]] = []

    @execution.on_callback("query", "query.rag.completed", event="rag_results")
    async def rag_results(action: DomainAction) -> None:
        found.append((action.action_type, action.correlation or ""))

    @query.on_action("query.search")
    async def search(action: DomainAction) -> dict[str, Any]:
        return {"results": []}

    await serve(execution, query)
    data = {"callback_queue_name": queue, "correlation_id": "corr123"}
    raw.rpush("nooble4:dev:query:actions", action("a1", action_type="query.search", data=data))
    await until(lambda: found == [("query.search.completed", "corr123")])
    # A service that does not use qdeck calls back by a list.
    raw.rpush(queue, action("a2", action_type="query.results", data={"correlation_id": "corr124"}))
    raw.rpush(queue, action("a3", action_type="query.rag.completed", data={"correlation_id": "corr125"}))
    await until(lambda: found[1:] == [("query.results", "corr124"), ("query.rag.completed", "corr125")])
    assert not raw.exists(queue)


async def test_a_service_without_rights_to_the_list_serves_its_queue_and_says_so_once(
    client: Messenger, serve: Any, url: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    raw.acl_setuser("bare", enabled=True, nopass=True, keys=["{*}:*", "qdeck:*", "{qdeck:*"], categories=["+@all"])
    service = Service(qdeck.App(url.replace("redis://", "redis://bare@"), queue=QUEUE))
    found = counting(service)
    try:
        await serve(service)
        client.send(DomainAction.parse(action("a1")))
        await until(lambda: found == ["a1"])
        await until(lambda: "is not read" in caplog.text)
        assert caplog.text.count("is not read") == 1
    finally:
        await service.aclose()  # its user stays: the worker of `serve` ends after this


async def test_a_key_of_another_type_with_the_name_of_a_list_is_left_alone(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    embedding = make_service("embedding")
    found = counting(embedding)
    raw.set(QUEUE, "text")
    await serve(embedding)
    await embedding.asend(DomainAction.parse(action("a1")))
    await until(lambda: found == ["a1"])
    assert raw.get(QUEUE) == b"text"
    assert QUEUE not in caplog.text
