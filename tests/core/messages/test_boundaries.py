"""What a message names is acted on within the service's own prefix and environment only, and its task is proved."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck import QueueName
from qdeck.admin import Writer
from qdeck.messages import DomainAction, Messenger, Names, Service, SyncDomainQueueManager, response_to
from qdeck.messages import _registry as registry
from qdeck.messages import _transport as transport
from support.temporary import OWN
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

EMBEDDING = "nooble4:dev:embedding:actions"
INBOX = f"{OWN}:callbacks:embedding"


def ask(target: str, **more: Any) -> DomainAction:
    """A request that wants its answer there."""
    return DomainAction(action_type="embedding.generate", callback_queue_name=target, **more)


def reasons(raw: redis.Redis, url: str, queue: str) -> list[str]:
    """What the dead letters of a queue failed with."""
    ids: list[bytes] = raw.zrange(f"{{{queue}}}:dead_letter", 0, -1)  # type: ignore[assignment] # it decodes nothing
    with Writer(url) as writer:
        return [str(writer.job(queue, one.decode())) for one in ids]


def refused(raw: redis.Redis) -> int:
    """How many messages were refused, as the registry counts them."""
    counts: dict[bytes, bytes] = raw.hgetall("{qdeck:messages}:metrics")  # type: ignore[assignment] # it decodes nothing
    return sum(int(count) for field, count in counts.items() if field.startswith(b"refused "))


def answer(service: Service, name: str = "embedding.generate") -> list[DomainAction]:
    """A handler that answers; the actions it got."""
    got: list[DomainAction] = []

    @service.on_action(name, retries=0)
    async def generate(action: DomainAction) -> dict[str, Any]:
        got.append(action)
        return {"vectors": 2}

    return got


@pytest.mark.parametrize(
    "target",
    [
        "bank:prod:pay:callbacks:transfer",
        "bank:prod:pay:callbacks:embedding:transfer",
        "bank:prod:pay:responses:transfer:c-1",
        "nooble4:prod:pay:callbacks:transfer",
        "bank:dev:pay:responses:transfer:c-1",
        "pay:callbacks:embedding:c-1",
        "bank:qa:pay:callbacks:embedding:c-1",
        "nooble4:dev:pay:callbacks:embedding:dead_letter",
    ],
)
async def test_an_answer_does_not_leave_the_prefix_and_the_environment(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis, url: str, target: str
) -> None:
    pay = "bank:prod:pay:callbacks:transfer"
    client.app.client.run(transport.send(pay, transport.job_of(ask("x"), retries=0)))
    before = set(raw.keys("*bank*"))
    service = make_service("embedding")
    got = answer(service)
    await serve(service)
    for action in (
        ask(target, callback_action_type="pay.transfer"),
        DomainAction(action_type="embedding.generate", data={"callback_queue_name": target}),
    ):
        client.send(action, retries=0)
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 2)
    assert got == []
    assert set(raw.keys("*bank*")) == before
    assert not raw.exists(target)
    assert [target in reason for reason in reasons(raw, url, EMBEDDING)] == [True] * 2
    assert refused(raw) == 2


async def test_an_allow_list_names_whole_segments(url: str, serve: Any, client: Messenger, raw: redis.Redis) -> None:
    service = Service(qdeck.App(url, queue=EMBEDDING), replies_to=("partner:prod:shop",))
    got = answer(service)
    await serve(service)
    client.send(ask("partner:prod:shop:responses:x:c-1"), retries=0)
    client.send(ask("partner:prod:shopping:responses:x:c-1"), retries=0)
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 1)
    await until(lambda: raw.llen("partner:prod:shop:responses:x:c-1") == 1)
    assert len(got) == 1
    assert not raw.exists("partner:prod:shopping:responses:x:c-1")
    with pytest.raises(qdeck.InvalidOption, match="replies_to"):
        Service(qdeck.App(url, queue=EMBEDDING), replies_to=("partner:*",))


async def test_without_an_environment_a_context_may_be_another_prefix(
    url: str, serve: Any, client: Messenger, raw: redis.Redis
) -> None:
    service = Service(qdeck.App(url, queue="embedding:actions"))
    got = answer(service)
    await serve(service)
    outside = ("bank:pay:callbacks:embedding:c-1", "bank:blue:pay:responses:x:c-1", "bank:prod:pay:responses:x:c-1")
    for target in (*outside, "ingestion:responses:x:c-1", "ingestion:default:responses:x:c-1"):
        job = transport.job_of(ask(target), retries=0)
        client.app.client.run(transport.send("embedding:actions", job))
    await until(lambda: raw.zcard("{embedding:actions}:dead_letter") == len(outside))
    await until(lambda: raw.llen("ingestion:default:responses:x:c-1") == 1)
    assert len(got) == 2
    assert not raw.exists(*outside)


@pytest.mark.parametrize(
    ("own", "service", "environments", "embedding"),
    [
        ("nooble4:management:actions", "management", (), "nooble4:embedding:actions"),
        ("nooble4:blue:management:actions", "management", (), "nooble4:blue:embedding:actions"),
        ("nooble4:blue:management:tenant_x:actions", "management", (), "nooble4:blue:embedding:actions"),
        ("nooble4:qa:management:actions", None, ("qa",), "nooble4:qa:embedding:actions"),
        ("qa:management:actions", None, ("qa",), "qa:embedding:actions"),
        ("dev:management:actions", "management", (), "dev:embedding:actions"),
        ("management:tenant_x:actions", "management", (), "embedding:actions"),
        ("management:default:actions", None, (), "embedding:actions"),
        ("nooble4:dev:management:tenant_x:actions", None, (), "nooble4:dev:embedding:actions"),
    ],
)
def test_a_service_keeps_to_what_its_name_begins_with(
    url: str, own: str, service: str | None, environments: tuple[str, ...], embedding: str
) -> None:
    made = Messenger(qdeck.App(url, queue=own, environments=environments), service=service)
    names = made.names
    assert names.service == "management"
    assert str(names.actions("embedding")) == embedding
    begin = embedding.removesuffix("embedding:actions")
    assert str(names.notifications("done", "embedding")) == f"{begin}embedding:notifications:done"
    assert str(names.own) == own.replace(":default:", ":")
    # What it is configured with is recognised in other names as well.
    other = names.parse(f"{begin}pay:callbacks:management:c-1")
    assert (other.prefix, other.env, other.service) == (names.own.prefix, names.own.env, "pay")
    assert names.parse(str(names.responses("a.b", "c"))) == names.responses("a.b", "c")


@pytest.mark.parametrize("own", ["nooble4:management:actions", "nooble4:blue:management:actions"])
def test_a_name_that_can_be_read_in_two_ways_is_refused(url: str, own: str) -> None:
    with pytest.raises(qdeck.InvalidOption, match="more than one way") as told:
        Messenger(qdeck.App(url, queue=own))
    assert "service='management'" in told.value.hint


@pytest.mark.parametrize(("own", "service"), [("a:b:c:management:actions", "management"), ("a:b:actions", "other")])
def test_a_service_that_its_name_does_not_hold_is_refused(url: str, own: str, service: str) -> None:
    with pytest.raises(qdeck.InvalidOption, match=service):
        Messenger(qdeck.App(url, queue=own), service=service)


def victim(client: Messenger, raw: redis.Redis, task: str = "victim-task") -> str:
    """A queue of a task, with an answer that was not read yet."""
    asked = client.new_action("embedding.generate", task_id=task, correlation_id=f"of-{task}")
    name = f"{OWN}:responses:generate:of-{task}"
    client.app.client.run(registry.register(name, "responses", "x", task=task, tier="", ttl_ms=3_600_000))
    client.app.client.run(transport.reply(name, asked, response_to(asked), None))
    assert raw.llen(name) == 1
    return name


def ends(service: Service) -> list[DomainAction]:
    """A handler that ends the task; the callbacks it got."""
    got: list[DomainAction] = []

    @service.on_callback("embedding", "embedding.completed", ends_task=True, retries=0)
    async def completed(action: DomainAction) -> None:
        got.append(action)

    return got


def claim(task: str, correlation: str, **more: Any) -> DomainAction:
    """A callback that says it belongs to a task."""
    data = {"task_id": task, "correlation_id": correlation}
    return DomainAction(action_type="embedding.completed", task_id=task, correlation_id=correlation, data=data, **more)


async def test_a_callback_cannot_end_a_task_that_did_not_ask_for_it(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis, url: str
) -> None:
    name = victim(client, raw)
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got, _ = ends(ingestion), answer(embedding)
    mine = ingestion.new_action("embedding.generate", task_id="mine", correlation_id="m")
    held = str(await ingestion.arequest_callback(mine, callback_action_type="embedding.other"))
    raw.delete(f"{{{EMBEDDING}}}:ready")  # nothing answers that one
    # Straight into the workers' queue, on the queue of another task, and by way of a service that calls back.
    client.app.client.run(transport.send(INBOX, transport.job_of(claim("victim-task", "free"), retries=0)))
    client.app.client.run(transport.send(INBOX, transport.job_of(claim("victim-task", "m"), retries=0)))
    raw.rpush(held, claim("victim-task", f"of-{'victim-task'}").to_json())
    await serve(embedding, ingestion)
    await until(lambda: raw.zcard(f"{{{INBOX}}}:dead_letter") == 3)
    for target in (INBOX, f"{INBOX}:evil"):
        client.send(
            ask(target, task_id="victim-task", correlation_id="evil", callback_action_type="embedding.completed")
        )
    await until(lambda: raw.zcard(f"{{{INBOX}}}:dead_letter") == 5)
    assert got == []
    assert raw.llen(name) == 1
    assert [one.name for one in SyncDomainQueueManager(client).task_queues("victim-task")] == [name]
    assert ["victim-task" in reason for reason in reasons(raw, url, INBOX)] == [True] * 5
    assert refused(raw) == 5


async def test_what_a_task_leaves_is_copied_when_it_ends(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis, url: str
) -> None:
    mine, other = victim(client, raw, "t"), "bank:prod:pay:responses:x:c"
    client.app.client.run(registry.register(other, "responses", "pay", task="t", tier="", ttl_ms=3_600_000))
    raw.rpush(other, b"of the bank")
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got, _ = ends(ingestion), answer(embedding)
    await serve(embedding, ingestion)
    asked = ingestion.new_action("embedding.generate", task_id="t")
    await ingestion.arequest_callback(asked, callback_action_type="embedding.completed")
    await until(lambda: got and not raw.exists(mine))
    await until(lambda: raw.zcard("{qdeck:messages}:queues") == 1)
    assert raw.lrange(other, 0, -1) == [b"of the bank"], "a task of that name in another environment is another task"
    with Writer(url) as writer:
        await until(lambda: [one for one in writer.activity() if one.verb == "clean" and one.outcome == "done"])
        assert writer.undo().restored == 1
    assert json.loads(raw.lrange(mine, 0, 0)[0])["correlation_id"] == "of-t"


def test_what_cannot_be_copied_stays_when_a_task_ends(client: Messenger, raw: redis.Redis, url: str) -> None:
    service = Service(qdeck.App(url, queue=f"{OWN}:actions"))
    name = victim(client, raw, "t")
    raw.rpush(name, *(b"x" * 100_000 for _ in range(20)))
    [found] = service.end_task("t")
    assert found.outcome == "uncopied"
    assert raw.llen(name) == 21
    assert [one.name for one in SyncDomainQueueManager(client).task_queues("t")] == [name]
    service.close()


async def test_a_late_callback_of_a_task_that_left_nothing_is_handled(
    make_service: Callable[..., Service], serve: Any, client: Messenger
) -> None:
    ingestion = make_service("ingestion_service")
    got = ends(ingestion)
    client.app.client.run(transport.send(INBOX, transport.job_of(claim("over", "long-ago"), retries=0)))
    await serve(ingestion)
    await until(lambda: got)


async def test_a_queue_that_stays_ends_the_task_that_asked(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis
) -> None:
    left = victim(client, raw, "t")
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    answer(embedding)
    got: list[DomainAction] = []

    @ingestion.on_callback("embedding", "embedding.completed", event="all", ends_task=True, retries=0)
    async def completed(action: DomainAction) -> None:
        got.append(action)

    await serve(embedding, ingestion)
    asked = ingestion.new_action("embedding.generate", task_id="t")
    target = ingestion.names.callbacks("embedding", "all")
    await ingestion.arequest_callback(asked, target, callback_action_type="embedding.completed")
    await until(lambda: got and not raw.exists(left))
    await until(lambda: raw.zcard("{qdeck:messages}:queues") == 0)


@pytest.mark.parametrize("ttl_ms", [600_000, -1])
def test_an_answer_never_shortens_the_life_of_another(client: Messenger, raw: redis.Redis, ttl_ms: int) -> None:
    name = f"{OWN}:responses:generate:c"
    raw.rpush(name, b"unread")
    if ttl_ms > 0:
        raw.pexpire(name, ttl_ms)
    evil = ask(name, correlation_id="c")
    deadline = round(time.time() * 1000) + 60_000
    assert client.app.client.run(transport.reply(name, evil, response_to(evil), deadline)) == "joined"
    assert raw.pttl(name) == -1 if ttl_ms < 0 else raw.pttl(name) > 500_000


def test_a_configured_name_is_read_where_it_stands() -> None:
    found = QueueName.parse("nooble4:management:tenant:actions", prefixes=["nooble4"])
    assert (found.prefix, found.env, found.service, found.context) == ("nooble4", None, "management", "tenant")
    assert str(found.callbacks("a", "b")) == "nooble4:management:tenant:callbacks:a:b"
    assert QueueName.parse("nooble4:actions", prefixes=["nooble4"]).service == "nooble4"
    found = QueueName.parse("qa:management:actions", environments=["qa"])
    assert (found.prefix, found.env, found.service) == (None, "qa", "management")
    with pytest.raises(qdeck.InvalidName, match="would be read"):
        QueueName(service="nooble4", context="x", prefixes=["nooble4"])
    assert isinstance(Names(found, {}).parse("qa:pay:callbacks:x"), QueueName)
