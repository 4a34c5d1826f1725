"""The four patterns, in asyncio and in blocking code."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck.messages import DomainAction, DomainActionResponse, Messenger, Service, response_to
from qdeck.messages import _transport as transport
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

EMBEDDING = "nooble4:dev:embedding:actions"


def temporary(raw: redis.Redis) -> list[bytes]:
    return [key for key in raw.scan_iter(count=1000) if b":once:" not in key and key.startswith(b"nooble4")]


async def test_a_request_is_answered_and_leaves_nothing(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, client = make_service("embedding"), make_service("client")

    @embedding.on_action("embedding.count")
    async def count(action: DomainAction) -> dict[str, Any]:
        return {"count": len(action.data["texts"])}

    @embedding.on_action("embedding.plain")
    def plain(action: DomainAction) -> int:
        return 7

    @embedding.on_action("embedding.own")
    async def own(action: DomainAction) -> DomainActionResponse:
        return response_to(action, data={"made": "by hand"})

    await serve(embedding)
    answer = await client.arequest(
        client.new_action("embedding.count", {"texts": ["a", "b"]}, task_id="t-1"), timeout=10
    )
    assert (answer.success, answer.data, answer.task_id) == (True, {"count": 2}, "t-1")
    assert (await client.arequest(client.new_action("embedding.plain"), timeout=10)).data == {"result": 7}
    assert (await client.arequest(client.new_action("embedding.own"), timeout=10)).data == {"made": "by hand"}
    assert temporary(raw) == []
    assert raw.zcard("{qdeck:messages}:queues") == raw.zcard("{qdeck:messages}:waiting") == 0
    assert raw.zcard("{qdeck:messages}:tasks") == raw.hlen("{qdeck:messages}:about") == 0
    await client.aclose()


def test_blocking_code_asks_as_well(make_service: Callable[..., Service], url: str, raw: redis.Redis) -> None:
    embedding = make_service("embedding")

    @embedding.on_action("embedding.count")
    def count(action: DomainAction) -> dict[str, Any]:
        return {"count": len(action.data["texts"])}

    async def work() -> None:
        await embedding.serve(grace=1.0)
        await embedding.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        client = Messenger(qdeck.App(url, queue="nooble4:dev:client:actions"))
        answer = client.request(client.new_action("embedding.count", {"texts": ["a"]}), timeout=10)
        assert answer.data == {"count": 1}
        name = client.request_callback(client.new_action("embedding.count", {"texts": []}, task_id="t"))
        assert str(name) == "nooble4:dev:client:callbacks:embedding:t"
        assert client.wait_callback(name, timeout=10).data["count"] == 0
        with pytest.raises(qdeck.ResultTimeout):
            client.wait_callback(name, timeout=0.05)
        client.send(client.new_action("embedding.count", {"texts": []})).result(timeout=10)
        client.close()
    finally:
        embedding.stop()
        thread.join(30)
    assert temporary(raw) == []


async def test_a_failure_is_the_answer_after_the_last_try_and_a_dead_letter(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, client = make_service("embedding"), make_service("client")
    runs = []

    @embedding.on_action("embedding.fail")
    async def fail(action: DomainAction) -> None:
        runs.append(action.action_id)
        raise ValueError("no such model")

    await serve(embedding)
    asked = client.new_action("embedding.fail")
    answer = await client.arequest(asked, timeout=10, retries=2, retry_delay=0.01)
    assert len(runs) == 3
    assert answer.error is not None
    assert (answer.success, answer.error.error_type, answer.error.message) == (False, "ValueError", "no such model")
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 1)
    assert raw.zrange(f"{{{EMBEDDING}}}:dead_letter", 0, -1) == [asked.action_id.encode()]
    await client.aclose()


async def test_no_answer_in_time_is_a_timeout_and_a_late_one_does_not_stay(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, client = make_service("embedding"), make_service("client")
    begun, over, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @embedding.on_action("embedding.slow")
    async def slow(action: DomainAction) -> dict[str, Any]:
        begun.set()
        await over.wait()
        ended.set()
        return {"too": "late"}

    await serve(embedding)
    with pytest.raises(qdeck.ResultTimeout, match="not answered within"):
        await client.arequest(client.new_action("embedding.slow"), timeout=1.5)
    assert begun.is_set()
    over.set()
    await ended.wait()
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:done") == 1)
    assert temporary(raw) == []
    await client.aclose()


async def test_a_request_nobody_took_in_time_is_not_begun(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, client = make_service("embedding"), make_service("client")
    runs = []

    @embedding.on_action("embedding.count")
    async def count(action: DomainAction) -> None:
        runs.append(1)

    with pytest.raises(qdeck.ResultTimeout):
        await client.arequest(client.new_action("embedding.count"), timeout=0.1)
    # The action's own time counts from when it came to the server, which is later where connecting took long.
    await asyncio.sleep(0.3)
    await serve(embedding)
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:cancelled") == 1)
    assert runs == []
    await client.aclose()


async def test_a_rerun_does_not_answer_twice(make_service: Callable[..., Service], raw: redis.Redis) -> None:
    client = make_service("client")
    run = client.app.aclient().run
    asked = client.new_action("embedding.count", correlation_id="c")
    name = "nooble4:dev:client:responses:count:c"
    told = [await run(transport.reply(name, asked, response_to(asked, data={"n": n}), None)) for n in (1, 2)]
    assert told == ["sent", "again"]
    assert raw.llen(name) == 1
    assert 0 < raw.pttl(name) <= 3_600_000
    assert await run(transport.reply(name, asked.replace(action_id="x"), response_to(asked), 1)) == "late"
    await client.aclose()


async def test_an_answer_to_something_else_is_passed_over(
    make_service: Callable[..., Service], raw: redis.Redis
) -> None:
    client = make_service("client")
    asked = client.new_action("embedding.count", correlation_id="c")
    task = asyncio.create_task(client.arequest(asked, timeout=10))
    name = "nooble4:dev:client:responses:count:c"
    raw.rpush(name, response_to(asked.replace(correlation_id="other")).to_json())
    await asyncio.sleep(0.1)
    raw.rpush(name, response_to(asked, data={"right": True}).to_json())
    assert (await task).data == {"right": True}
    assert temporary(raw) == []
    await client.aclose()


async def test_fire_and_forget_retries_then_is_a_dead_letter_of_the_actions(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, client = make_service("embedding"), make_service("client")
    runs: list[str] = []

    @embedding.on_action("embedding.save")
    async def save(action: DomainAction) -> None:
        runs.append(action.action_id)
        if action.data.get("bad"):
            raise RuntimeError("broken")

    await serve(embedding)
    good = await client.asend(client.new_action("embedding.save"))
    bad = await client.asend(client.new_action("embedding.save", {"bad": True}), retries=1, retry_delay=0.01)
    again = await client.asend(client.new_action("embedding.save", action_id=good.id))
    assert not again.created
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 1)
    assert sorted(runs) == sorted([good.id, bad.id, bad.id])
    await client.aclose()


async def test_an_envelope_that_is_none_is_a_dead_letter_at_once(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")

    @embedding.on_action("embedding.save")
    async def save(action: DomainAction) -> None:
        raise AssertionError

    await serve(embedding)
    await embedding.app.find_task("embedding.save").aenqueue(
        {"action_id": "1", "action_type": "embedding.save", "data": 7}
    )
    reply_to = {"callback_queue_name": "not a name"}
    await embedding.asend(embedding.new_action("embedding.save", reply_to))
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 2)


async def test_a_callback_comes_back_with_its_correlation_and_ends_the_task(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got: list[DomainAction] = []
    seen: list[DomainAction] = []

    @embedding.on_action("embedding.generate_batch")
    async def generate(action: DomainAction) -> dict[str, Any]:
        seen.append(action)
        if action.data.get("bad"):
            raise ValueError("no")
        return {"vectors": 2}

    @ingestion.on_callback("embedding", "embedding.batch_completed", ends_task=True)
    async def completed(action: DomainAction) -> None:
        got.append(action)

    await serve(embedding, ingestion)
    for task, bad in (("task_1", False), ("task_2", True)):
        asked = ingestion.new_action("embedding.generate_batch", {"bad": bad}, task_id=task, trace_id=f"trace-{task}")
        name = await ingestion.arequest_callback(asked, callback_action_type="embedding.batch_completed", retries=0)
        assert str(name) == f"nooble4:dev:ingestion_service:callbacks:embedding:{task}"
    await until(lambda: len(got) == 2)
    assert all(one.data["callback_queue_name"] == one.callback_queue_name for one in seen)
    by_task = {one.task: one for one in got}
    assert (by_task["task_1"].data["vectors"], by_task["task_1"].correlation) == (2, "task_1")
    assert by_task["task_1"].trace_id == "trace-task_1"
    assert by_task["task_2"].data["error"]["message"] == "no"
    await until(lambda: raw.zcard("{qdeck:messages}:queues") == 0)
    assert temporary(raw) == []


async def test_a_callback_to_a_queue_that_stays_is_a_job_there(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got: list[DomainAction] = []

    @embedding.on_action("embedding.generate_batch")
    def generate(action: DomainAction) -> dict[str, Any]:
        return {"vectors": 2}

    @ingestion.on_callback("embedding", "embedding.batch_completed", event="batch_completed")
    def completed(action: DomainAction) -> None:
        got.append(action)

    await serve(embedding, ingestion)
    name = ingestion.names.callbacks("embedding", "batch_completed")
    asked = ingestion.new_action("embedding.generate_batch", correlation_id="corr123")
    await ingestion.arequest_callback(asked, name, callback_action_type="embedding.batch_completed")
    await until(lambda: got)
    assert got[0].data["correlation_id"] == "corr123"
    assert raw.exists(f"{{{name}}}:meta")
    assert temporary(raw) == []


async def test_what_a_foreign_service_pushes_to_a_callback_queue_is_found(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.1)
    ingestion = make_service("ingestion_service")
    got: list[DomainAction] = []

    @ingestion.on_callback("embedding", "embedding.batch_completed")
    async def completed(action: DomainAction) -> None:
        got.append(action)

    await serve(ingestion)
    asked = ingestion.new_action("embedding.generate_batch", task_id="t")
    name = str(await ingestion.arequest_callback(asked, callback_action_type="embedding.batch_completed"))
    raw.lpush(name, b"no envelope")
    raw.lpush(name, b'{"action_id":"f-1","action_type":"embedding.batch_completed","data":{"correlation_id":"t"}}')
    await until(lambda: got and not raw.exists(name))
    assert got[0].correlation == "t"
    await until(lambda: raw.zcard("{nooble4:dev:ingestion_service:callbacks:embedding}:dead_letter") == 1)


@pytest.mark.parametrize("queue", ["nooble4:dev:x:callbacks:a", "x:notifications:y"])
def test_a_messenger_needs_an_actions_queue(queue: str) -> None:
    with pytest.raises(qdeck.InvalidOption, match="not an actions queue"):
        Messenger(qdeck.App("redis://127.0.0.1:1", queue=queue))
