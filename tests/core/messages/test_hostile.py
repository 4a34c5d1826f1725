"""What others may send by mistake or on purpose: it is refused with a reason, and nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck.messages import DomainAction, Messenger, SyncDomainQueueManager, response_to
from qdeck.messages import _transport as transport
from qdeck.messages._incoming_messages import Follower
from support.temporary import OWN
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck.messages import Service

HEAD = b'{"action_id":"1","action_type":"a.b","data":'
SENT: dict[str, bytes] = {
    "deep": HEAD + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "nearly too deep": HEAD + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}",
    "deep and broken": b"[" * 100_000,
    "big number": HEAD + b'{"n":123456789012345678901234567890}}',
    "infinite": HEAD + b'{"n":1e400}}',
    "not a number": HEAD + b'{"n":NaN}}',
    "half a character": HEAD + b'{"n":"\\ud800"}}',
    "no UTF-8": HEAD + b'{"\xff":1}}',
    "too big": HEAD + b'{"x":"' + b"y" * 2_000_000 + b'"}}',
    "a type that is none": b'{"action_id":"1","action_type":"a b/\\u0000","data":{}}',
    "a long type": json.dumps({"action_id": "1", "action_type": "a" * 5000, "data": {}}).encode(),
    "a long id": json.dumps({"action_id": "ä\0" * 5000, "action_type": "a.b", "data": {}}).encode(),
    "a strange tier": json.dumps({"action_id": "1", "action_type": "a", "data": {}, "tenant_tier": "x y\n"}).encode(),
    "nothing": b"",
}


@pytest.mark.parametrize("raw", SENT.values(), ids=SENT.keys())
def test_whatever_comes_to_a_callback_queue_becomes_a_job(raw: bytes) -> None:
    job = Follower(f"{OWN}:callbacks:x", 3).job(raw)
    assert 0 < len(job.id) <= 100
    assert json.loads(job.body)[1] == {}
    assert Follower(f"{OWN}:callbacks:x", 3).job(raw).id == job.id  # handed over twice, it is one


@pytest.mark.parametrize(
    "value",
    [
        {"data": None},
        {"data": {}, "metadata": {}, "extra": {"extra": 5}, "correlation_id": None},
        {"data": {"n": 123456789012345678901234567890}},
        {"data": {"ä\u2028": "\U0001f600\u0000"}, "\u202e": []},
    ],
)
def test_strange_envelopes_survive_a_round_trip(value: dict[str, Any]) -> None:
    sent = {"action_id": "1", "action_type": "a.b", **value}
    assert json.loads(DomainAction.parse(json.dumps(sent)).to_json()) == sent


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"correlation_id": 5}, "field correlation_id: text is expected, not a number"),
        ({"task_id": b"x"}, "field task_id: text"),
        ({"metadata": None}, "field metadata: an object is expected, not null"),
        ({"data": [1]}, "field data: an object is expected, not an array"),
        ({"action_id": None}, "field action_id"),
        ({"tenant_tier": ["free"]}, "field tenant_tier"),
    ],
)
def test_a_new_action_is_refused_where_it_is_made(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(qdeck.UsageError, match=why):
        DomainAction(action_type="a.b", **fields)


@pytest.mark.parametrize("within", [10**30, 10**17, -5, True, "soon", None, 1.5])
def test_a_deadline_that_cannot_be_meant_leaves_no_queue_for_ever(
    client: Messenger, raw: redis.Redis, within: object
) -> None:
    asked = client.new_action("embedding.x", correlation_id="c", metadata={transport.WITHIN: within})
    deadline = transport.deadline_of(asked, round(time.time() * 1000))
    name = f"{OWN}:responses:x:c"
    assert client.app.client.run(transport.reply(name, asked, response_to(asked), deadline)) == "sent"
    assert 0 < raw.pttl(name) <= 3_600_000


def test_who_says_he_waits_for_months_has_his_answer_kept_for_a_day(client: Messenger, raw: redis.Redis) -> None:
    asked = client.new_action("embedding.x", correlation_id="c", metadata={transport.WITHIN: 100 * 86_400_000})
    deadline = transport.deadline_of(asked, round(time.time() * 1000))
    name = f"{OWN}:responses:x:c"
    assert client.app.client.run(transport.reply(name, asked, response_to(asked), deadline)) == "sent"
    assert 3_600_000 < raw.pttl(name) <= 86_400_000


async def test_an_answer_that_cannot_be_read_is_told_and_leaves_nothing(client: Messenger, raw: redis.Redis) -> None:
    name = f"{OWN}:responses:x:c"
    asked = client.new_action("embedding.x", correlation_id="c", task_id="t")

    def ask() -> None:
        client.request(asked, timeout=20)

    for way in (client.arequest(asked, timeout=20), asyncio.to_thread(ask)):
        task = asyncio.ensure_future(way)
        await until(lambda: raw.zscore("{qdeck:messages}:waiting", name) is not None)
        raw.rpush(name, b'{"success": 1}')
        with pytest.raises(qdeck.UsageError, match="DomainActionResponse"):
            await task
        assert not raw.exists(name)
        assert raw.zcard("{qdeck:messages}:queues") == raw.zcard("{qdeck:messages}:waiting") == 0
    await client.aclose()


async def test_a_callback_that_comes_after_the_time_of_its_queue_is_still_found(
    make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.1)
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got: list[DomainAction] = []

    @embedding.on_action("embedding.generate_batch")
    async def generate(action: DomainAction) -> None: ...

    @ingestion.on_callback("embedding", "embedding.batch_completed")
    async def completed(action: DomainAction) -> None:
        got.append(action)

    asked = ingestion.new_action("embedding.generate_batch", task_id="t")
    name = str(await ingestion.arequest_callback(asked, callback_action_type="embedding.batch_completed"))
    manager = SyncDomainQueueManager(ingestion)
    assert await asyncio.to_thread(manager.clean_task_queues, "t") == 1
    await serve(embedding)
    await until(lambda: raw.llen(name) == 1)
    await until(lambda: raw.zcard("{qdeck:messages}:callbacks") == 1)
    # Nobody took the wake-up: who follows from now on finds it by a sweep.
    await until(lambda: raw.zcard("{nooble4:dev:embedding:actions}:running") == 0)
    raw.delete(transport.wakeup_key(name))
    await serve(ingestion)
    await until(lambda: got)
    assert got[0].correlation == "t"
