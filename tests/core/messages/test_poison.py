"""Messages and registry entries that were written to do harm: they stay what they are, and their neighbours go on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import qdeck
from qdeck._engine import codec, programs
from qdeck._operations import batches, undoing
from qdeck.admin import NewJob, Writer, actor
from qdeck.messages import DomainAction, Messenger, Service, SyncDomainQueueManager, TaskCleaning
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry
from qdeck.messages import _transport as transport
from qdeck.messages._envelopes import new_message_id
from qdeck.messages._incoming_messages import Follower
from support.temporary import OWN
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

INBOX = f"{OWN}:callbacks:embedding"
EMBEDDING = "nooble4:dev:embedding:actions"


def callback(correlation: str, **more: Any) -> DomainAction:
    return DomainAction(action_type="embedding.completed", correlation_id=correlation, **more)


def listen(service: Service, sender: str = "embedding", kind: str = "embedding.completed") -> list[str | None]:
    got: list[str | None] = []

    @service.on_callback(sender, kind, retries=0)
    async def completed(action: DomainAction) -> None:
        got.append(action.correlation)

    return got


POISON = {
    "large": b'{"action_id":"1","action_type":"embedding.completed","data":{"x":"' + b"x" * 3_000_000 + b'"}}',
    "deep": b'{"action_id":"1","action_type":"embedding.completed","data":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
    "bytes": b"\xff\xfe\x00",
    "empty": b"",
    "null": b"null",
    "surrogate": b'{"action_id":"\\ud800","action_type":"embedding.completed","data":{}}',
    "name": b'{"action_id":"1","action_type":"a b\\u0000","data":{}}',
    "number": b'{"action_id":"1","action_type":"embedding.completed","data":{"n":1e999}}',
    "integer": b'{"action_id":"1","action_type":"embedding.completed","data":{"n":' + b"9" * 5000 + b"}}",
    "task": b'{"action_id":"1","action_type":"embedding.completed","task_id":"' + b"t" * 900_000 + b'","data":{}}',
    "id": b'{"action_id":"' + b"i" * 900_000 + b'","action_type":"embedding.completed","data":{}}',
    "time": b'{"action_id":"1","action_type":"embedding.completed","timestamp":"99999999-99","data":{}}',
    "zero": b"x" * 40_000_000,
}


@pytest.mark.parametrize("kind", POISON)
async def test_a_callback_that_cannot_be_read_does_not_stop_the_next(
    kind: str, make_service: Callable[..., Service], serve: Any, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qdeck.messages._incoming_messages.SWEEP_S", 0.2)
    service = make_service("ingestion_service")
    got = listen(service)
    for name in ("a", "b"):
        await service.arequest_callback(service.new_action("embedding.x", correlation_id=name, task_id="mine"))
    raw.rpush(f"{INBOX}:a", POISON[kind], callback("after").to_json())
    raw.rpush(f"{INBOX}:b", callback("beside").to_json())
    await serve(service)
    await until(lambda: {"after", "beside"} <= set(got), 15)


@pytest.mark.parametrize("kind", POISON)
async def test_an_event_that_cannot_be_read_does_not_stop_the_next(
    kind: str, make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    service = make_service("ingestion_service")
    got: list[str | None] = []

    @service.on_notification("catalogue", "changed", start="0", retries=0)
    async def changed(event: DomainAction) -> None:
        got.append(event.correlation)

    stream = "nooble4:dev:catalogue:notifications:changed"
    raw.xadd(stream, {"data": POISON[kind]})
    raw.xadd(stream, {b"\xff": b"other"})
    raw.xadd(stream, {"data": callback("after").to_json()})
    await serve(service)
    await until(lambda: "after" in got, 15)


@pytest.mark.parametrize("kind", ["string", "list"])
async def test_a_topic_that_holds_something_else_does_not_stop_the_service(
    kind: str, make_service: Callable[..., Service], serve: Any, raw: redis.Redis
) -> None:
    service = make_service("ingestion_service")
    got = listen(service)
    topics: list[str | None] = []

    @service.on_notification("catalogue", "changed", start="0", retries=0)
    async def changed(event: DomainAction) -> None:
        topics.append(event.correlation)

    stream = "nooble4:dev:catalogue:notifications:changed"
    raw.set(stream, "x") if kind == "string" else raw.rpush(stream, "x")
    await serve(service)
    service.app.client.run(transport.send(INBOX, transport.job_of(callback("c"), retries=0)))
    await until(lambda: got)
    raw.delete(stream)
    raw.xadd(stream, {"data": callback("event").to_json()})
    await until(lambda: topics)


async def test_a_plain_task_that_is_declared_for_an_inbox_runs_there(
    make_service: Callable[..., Service], serve: Any
) -> None:
    service = make_service("ingestion_service")
    listen(service)
    got: list[int] = []

    @service.app.task(name="own", queue=INBOX)
    def own(value: int) -> None:
        got.append(value)

    await serve(service)
    await own.aenqueue(1)
    await until(lambda: got, 15)


async def test_a_handler_gets_only_what_came_on_its_own_queue(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis
) -> None:
    embedding, ingestion = make_service("embedding"), make_service("ingestion_service")
    got = listen(ingestion)
    wiped: list[Any] = []

    @ingestion.on_action("ingestion_service.wipe")
    async def wipe(action: DomainAction) -> None:
        wiped.append(action)

    @ingestion.app.task(name="plain")
    def plain(value: Any) -> None:
        wiped.append(value)

    @ingestion.on_callback("billing", "billing.paid")
    async def paid(action: DomainAction) -> None:
        wiped.append(action)

    @embedding.on_action("embedding.generate", retries=0)
    async def generate(action: DomainAction) -> dict[str, Any]:
        return {}

    await serve(embedding, ingestion)
    for kind in ("ingestion_service.wipe", "plain", "billing.paid"):
        for target in (INBOX, f"{INBOX}:{kind}"):
            client.send(
                DomainAction(
                    action_type="embedding.generate", callback_queue_name=target, callback_action_type=kind,
                    correlation_id=kind,
                ), retries=0,
            )  # fmt: skip
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:done") + raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 6)
    client.send(
        DomainAction(
            action_type="embedding.generate", callback_queue_name=INBOX, callback_action_type="embedding.completed"
        )
    )
    await until(lambda: got)
    await until(lambda: raw.zcard(f"{{{INBOX}}}:ready") == raw.zcard(f"{{{INBOX}}}:running") == 0)
    assert wiped == []


async def test_an_answer_gives_a_list_of_others_no_end(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")

    @embedding.on_action("embedding.generate", retries=0)
    async def generate(action: DomainAction) -> dict[str, Any]:
        return {}

    await serve(embedding)
    names = ("nooble4:dev:legacy:callbacks:billing:all", "nooble4:dev:legacy:responses:x:all")
    for name in names:
        raw.rpush(name, b"of the legacy service")
        client.send(DomainAction(action_type="embedding.generate", callback_queue_name=name, correlation_id="c"))
    await until(lambda: all(raw.llen(name) == 2 for name in names))
    await until(lambda: raw.zcard(f"{{{EMBEDDING}}}:running") == 0)
    assert [raw.pttl(name) for name in names] == [-1, -1]
    assert raw.zscore(registry.QUEUES, names[0]) is None, "it would be removed when its time is over"


async def test_invented_services_and_tiers_do_not_grow_the_counts(
    make_service: Callable[..., Service], serve: Any, client: Messenger, raw: redis.Redis
) -> None:
    embedding = make_service("embedding")

    @embedding.on_action("embedding.generate", retries=0)
    async def generate(action: DomainAction) -> dict[str, Any]:
        return {}

    await serve(embedding)
    for n in range(50):
        target = f"nooble4:dev:s{n}:callbacks:embedding:x"
        tier = "t" * 10_000 + str(n)
        client.send(DomainAction(action_type="embedding.generate", callback_queue_name=target, tenant_tier=tier))
    await until(lambda: raw.zcard(registry.QUEUES) == 50)
    assert sum(len(field) for field in raw.hkeys(registry.METRICS)) < 10_000


@pytest.mark.parametrize("about", [b"garbage", b"", b"\xff", b"1 2 3", b"x 1 a b - t", b"1 2 a b -"])
def test_a_registration_that_cannot_be_read_does_not_keep_the_others(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str, about: bytes
) -> None:
    names = [f"{INBOX}:{n}" for n in range(3)]
    for name in names:
        client.app.client.run(registry.register(name, "callbacks", "x", task="t", tier="", ttl_ms=1000))
    raw.hset(registry.ABOUT, names[1], about)
    raw.zadd(registry.QUEUES, dict.fromkeys(names, 1))
    assert client.app.client.run(registry.touch(names)) >= 2
    raw.zadd(registry.QUEUES, dict.fromkeys(names, 1))
    with Writer(url) as writer:
        writer.temporary_queues()
        writer.temporary_tasks()
    assert manager.clean_expired_queues().removed >= 2
    assert raw.zcard(registry.QUEUES) == 0


def test_names_that_are_no_temporary_queues_are_never_removed(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    names = ["celery", "nooble4:dev:pay:actions", "x" * 5000, "{a}:responses:b", "nooble4:dev:pay:notifications:x"]
    for name in names:
        raw.rpush(name, b"of others")
        raw.zadd(registry.QUEUES, {name: 1})
        raw.hset(registry.ABOUT, name, b"1 1 a b - t")
        raw.zadd(registry.TASKS, {f"t\0{name}": 0})
    with Writer(url) as writer:
        assert writer.clean(TaskCleaning("t", idle_s=0)).removed == 0
    manager.clean_task_queues("t")
    manager.clean_expired_queues()
    assert [raw.llen(name) for name in names] == [1] * len(names)


def test_names_that_are_no_text_do_not_keep_the_others(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    name = f"{INBOX}:mine"
    client.app.client.run(registry.register(name, "callbacks", "x", task="t", tier="", ttl_ms=1000))
    for kind in (b"\xff%d", b"celery%d", INBOX.encode() + b":%d"):
        raw.zadd(registry.QUEUES, {kind % n: 1 for n in range(cleaning.SLICE + 5)})
    raw.zadd(registry.QUEUES, {name: 2})
    for _ in range(5):
        manager.clean_expired_queues()
    assert raw.zscore(registry.QUEUES, name) is None


def test_a_task_whose_id_goes_on_after_the_mark_does_not_hide_another(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    mine = client.new_action("embedding.x", task_id="t", correlation_id="zz")
    client.request_callback(mine)
    for n in range(cleaning.SLICE + 5):
        asked = client.new_action("embedding.x", task_id=f"t\0{n}", correlation_id=f"a{n}")
        client.request_callback(asked)
    assert len(manager.task_queues("t")) == 1
    assert manager.clean_task_queues("t") == 1


def test_bare_names_do_not_end_what_may_have_a_prefix(url: str, raw: redis.Redis) -> None:
    bank = Messenger(qdeck.App(url, queue="bank:pay:actions"), service="pay")
    name = str(bank.request_callback(bank.new_action("embedding.x", task_id="t", correlation_id="c")))
    raw.rpush(name, b"of the bank")
    for own, service in (
        ("ingestion:actions", None),
        ("bank:actions", None),
        ("ingestion:tenant:actions", "ingestion"),
    ):
        bare = Messenger(qdeck.App(url, queue=own), service=service)
        mine = str(bare.request_callback(bare.new_action("embedding.x", task_id="t", correlation_id="m")))
        assert SyncDomainQueueManager(bare).clean_task_queues("t") == 1
        assert not raw.zscore(registry.QUEUES, mine)
        assert raw.llen(name) == 1
        bare.close()
    bank.close()


def test_a_list_that_looks_small_is_measured_before_it_is_copied(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis
) -> None:
    asked = client.new_action("embedding.x", task_id="t", correlation_id="c")
    name = str(client.request_callback(asked))
    for _ in range(60):
        raw.rpush(name, b"x" * 7000)
    for _ in range(20):
        raw.rpush(name, b"y" * 1_000_000)
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    assert report.undoable == 0
    assert sum(raw.memory_usage(key) or 0 for key in raw.scan_iter(f"{{{name}}}:undo:*")) < 2_000_000


def test_ends_of_tasks_leave_the_undo_of_operators(
    client: Messenger, raw: redis.Redis, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST", 10)
    service = Service(qdeck.App(url, queue=f"{OWN}:actions"))
    app = qdeck.App(url, queue="work:actions")
    kept = batches.Batch(id="b-mine", verb="discard", by="x", at_ms=1, until_ms=2**50, applied=1)
    app.client.run(batches.write(kept))
    for n in range(20):
        asked = service.new_action("embedding.x", task_id=f"t{n}", correlation_id=f"c{n}")
        raw.rpush(str(service.request_callback(asked)), b"x")
        [found] = service.end_task(f"t{n}")
        assert found.outcome == ("removed" if n < 5 else "uncopied")
    assert len(found_batches := app.client.run(batches.read())) == 6
    assert "b-mine" in found_batches
    with Writer(url) as writer:
        assert len(writer.activity()) == 5
        assert writer.undo().restored == 1
    service.close()
    app.close()


async def test_a_flood_of_callbacks_of_one_task_leaves_the_others_their_turn(
    make_service: Callable[..., Service], raw: redis.Redis
) -> None:
    service = make_service("ingestion_service")
    follower, run = Follower(INBOX, 0), service.app.aclient().run
    for name in ("a", "b"):
        await service.arequest_callback(service.new_action("embedding.x", correlation_id=name))
    raw.rpush(f"{INBOX}:a", *(callback(str(n)).to_json() for n in range(150)))
    raw.rpush(f"{INBOX}:b", callback("b").to_json())
    assert await run(follower.sweep()) == 101
    assert (raw.llen(f"{INBOX}:a"), raw.llen(f"{INBOX}:b")) == (50, 0)
    assert raw.lpop(transport.wakeup_key(INBOX)) == f"{INBOX}:a".encode(), (
        "the rest comes when the others had their turn"
    )
    await service.aclose()


def test_a_broken_count_stops_nothing(client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis) -> None:
    raw.set(registry.METRICS, "x")
    asked = client.new_action("embedding.x", task_id="t", correlation_id="c")
    client.request_callback(asked)
    assert manager.clean_task_queues("t") == 1


def test_what_is_counted_is_bounded(client: Messenger, raw: redis.Redis) -> None:
    raw.hset(registry.METRICS, mapping={f"made s{n} callbacks -": 1 for n in range(5000)})
    for n in range(20):
        client.app.client.run(registry.register(f"{INBOX}:{n}", "callbacks", f"new{n}", task="", tier="", ttl_ms=1000))
    assert raw.hlen(registry.METRICS) == 5001
    assert raw.hget(registry.METRICS, "made other other -") == b"20"


@pytest.mark.parametrize("own", ["a:a:actions", "a:b:a:actions", "a:a:a:actions"])
def test_a_service_that_stands_twice_in_its_name_is_refused(url: str, own: str) -> None:
    with pytest.raises(qdeck.InvalidOption, match="more than one way"):
        Messenger(qdeck.App(url, queue=own), service="a")


def test_a_service_called_like_its_prefix_keeps_its_environment(url: str) -> None:
    made = Messenger(qdeck.App(url, queue="a:dev:a:actions"), service="a")
    assert str(made.names.actions("b")) == "a:dev:b:actions"


def test_a_task_id_that_is_too_long_is_refused(client: Messenger, raw: redis.Redis) -> None:
    with pytest.raises(qdeck.UsageError, match="task id"):
        client.request_callback(client.new_action("embedding.x", task_id="t" * 2000))
    assert not raw.keys("*")


def test_an_unreadable_registration_does_not_keep_the_others_from_coming_back(
    client: Messenger, manager: SyncDomainQueueManager, raw: redis.Redis, url: str
) -> None:
    asked = (client.new_action("embedding.x", task_id="t", correlation_id=f"c{n}") for n in range(3))
    names = [str(client.request_callback(one)) for one in asked]
    for name in names:
        raw.rpush(name, b"x")
    raw.hset(registry.ABOUT, names[0], b"garbage")
    report = manager.report_task_queues("t", dry_run=False, undo=True)
    with Writer(url) as writer:
        done = writer.undo(report.batch)
    assert (done.restored, done.error) == (3, None)
    assert raw.exists(*names) == 3


def test_undo_takes_what_an_operator_did_before_what_a_service_ended(client: Messenger, url: str) -> None:
    run = client.app.client.run
    for batch, at_ms, automatic in (("b-operator", 1, False), ("b-service", 2, True)):
        kept = batches.Batch(
            id=batch, verb="clean", by=actor(), at_ms=at_ms, until_ms=2**50, applied=1, automatic=automatic
        )
        run(batches.write(kept))
    assert run(undoing.find(None)).id == "b-operator"


async def test_a_wakeup_for_something_else_does_not_delay_the_others(
    make_service: Callable[..., Service], raw: redis.Redis
) -> None:
    service = make_service("ingestion_service")
    follower, run = Follower(INBOX, 0), service.app.aclient().run
    raw.set(f"{INBOX}:a", "x")
    assert await run(follower.forward_named(f"{INBOX}:a")) == 0
    await service.aclose()


@pytest.mark.parametrize("task", ["", "other"])
def test_no_depth_of_a_callback_raises(task: str) -> None:
    """Near the interpreter's limit a value can be read and then not be written with one level more around it."""
    follower = Follower(INBOX, 0)
    for depth in range(300, 1100):
        data = b'{"a":' * depth + b"1" + b"}" * depth
        raw = b'{"action_id":"1","action_type":"a.b","task_id":"t","data":%s}' % data
        assert follower.job(raw, task).body


def test_an_action_that_is_too_deep_is_a_dead_letter(manager: SyncDomainQueueManager, raw: redis.Redis) -> None:
    template = codec.JobHead(enqueued_ms=0, priority=100, retries=3, task="embedding.x", keep_ms=0).template()
    deep = NewJob("deep", 100, template, b"[[" + b"[" * 100_000)
    manager.app.client.run(programs.enqueue(EMBEDDING, [deep]))
    assert manager.dequeue_action("embedding") is None
    assert raw.zcard(f"{{{EMBEDDING}}}:dead_letter") == 1


def test_members_that_name_no_task_hide_none(client: Messenger, raw: redis.Redis, url: str) -> None:
    client.request_callback(client.new_action("embedding.x", task_id="t"))
    raw.zadd(registry.TASKS, {f"!{n}": 0 for n in range(20)})
    found, after = [], ""
    with Writer(url) as writer:
        while True:
            page = writer.temporary_tasks(after=after, most=5)
            found += [row.task for row in page.rows]
            if page.next is None:
                break
            after = page.next
    assert found == ["t"]


async def test_a_failure_handler_runs_for_a_callback_of_a_service(
    make_service: Callable[..., Service], serve: Any
) -> None:
    service = make_service("ingestion_service")
    failures: list[str] = []

    @service.app.task(name="note")
    def note(failure: qdeck.Failure) -> None:
        failures.append(failure.queue)

    @service.on_callback("embedding", "embedding.completed", retries=0, on_failure=note)
    async def completed(action: DomainAction) -> None:
        raise ValueError(action.action_id)

    await serve(service)
    await service.app.tasks["embedding.completed"].aenqueue(callback("d").to_dict())
    await until(lambda: failures, 15)


def test_ids_of_messages_cannot_be_foreseen() -> None:
    found = set()
    for _ in range(2):
        random.seed(1)
        found.add(new_message_id()[19:])
    assert len(found) == 2
