"""Looking at queues: the numbers are true, nothing is left out, nothing is written, and trouble stays where it is."""

from __future__ import annotations

import inspect
import json
import time
from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidFilter, InvalidOption, NotAllowed, ServerUnreachable, UnknownJob, UsageError
from qdeck._engine import codec, keys, programs, transitions
from qdeck._engine.codec import BAND
from qdeck._engine.job_ids import new_id
from qdeck._model import payload
from qdeck._redis import Endpoint, SyncClient
from qdeck._schedules import store
from qdeck._server import native_queues
from qdeck.adapters.native import jobs as joblists
from qdeck.admin import NATIVE, AsyncReader, AsyncWriter, QueueRef, Reader, State, Status, Writer
from qdeck.admin._client import writes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from support.servers import Server

QUEUE = "demo:mail:actions"


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as made:
        yield made


@pytest.fixture
def client(url: str) -> Iterator[SyncClient]:
    made = SyncClient(Endpoint(url))
    yield made
    made.close()


def claim(
    client: SyncClient, free_slots: int = 1, lease_ms: int = 60_000, worker: str = "w1"
) -> list[transitions.ClaimedJob]:
    number = time.monotonic_ns()
    return client.run(
        programs.call(transitions.poll(QUEUE, worker, number, free_slots=free_slots, lease_ms=lease_ms))
    ).jobs


def end(client: SyncClient, kind: str, job: transitions.ClaimedJob, event: dict[str, str] | None = None) -> None:
    ending = transitions.Ending(
        kind=kind, id=job.id, token=job.token, delay_ms=-1, event=json.dumps(event or {}).encode()
    )
    client.run(
        programs.call(
            transitions.poll(QUEUE, "w1", time.monotonic_ns(), free_slots=0, lease_ms=60_000, endings=[ending])
        )
    )


def many(client: SyncClient, count: int, *, due_ms: int | None = None, priority: int = 100) -> list[str]:
    template = codec.JobHead(enqueued_ms=0, priority=priority, retries=0, task="t").template()
    made = [
        transitions.NewJob(id=new_id(), priority=priority, template=template, body=b"[[%d],{}]" % n, due_ms=due_ms)
        for n in range(count)
    ]
    client.run(programs.enqueue(QUEUE, made))
    return [job.id for job in made]


def test_an_empty_server_is_healthy(writer: Writer) -> None:
    seen = writer.snapshot()
    assert (seen.status, seen.queues, seen.findings, seen.notices) == (Status.HEALTHY, (), (), ())
    assert seen.server.version
    assert seen.server.role == "master"


def test_counts_of_every_state(writer: Writer, client: SyncClient) -> None:
    ids = many(client, 6)
    writer.enqueue(QUEUE, "t", delay=60)
    writer.enqueue(QUEUE, "t", after=[ids[5]])
    first, second, third = claim(client, 3)
    end(client, "failed", first, {"class": "pkg.Boom", "message": "no"})
    end(client, "done", second)
    writer.apply(writer.plan("cancel", QUEUE, ids=[ids[3]]))
    [row] = writer.snapshot().queues
    assert (row.ready, row.delayed, row.blocked, row.running) == (2, 1, 1, 1)
    assert (row.dead, row.done, row.cancelled, row.stuck) == (1, 1, 1, 0)
    assert row.totals["enqueued"] == 8
    assert writer.job(QUEUE, third.id).worker == "w1"


def test_rates_need_two_looks(writer: Writer, client: SyncClient) -> None:
    many(client, 1)
    assert writer.snapshot().queues[0].in_per_s is None
    many(client, 10)
    time.sleep(0.05)
    rate = writer.snapshot().queues[0].in_per_s
    assert rate is not None
    assert 10 < rate <= 200


def test_the_oldest_job_may_have_a_low_priority(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    now = int(time.time() * 1000)
    many(client, 1)
    for priority, age_ms in ((0, 1_000), (50, 5_000), (200, 90_000), (899, 2_000)):
        raw.zadd(keys.key(QUEUE, "ready"), {f"p{priority}": priority * BAND + now - age_ms})
    row = writer.snapshot().queues[0]
    assert row.oldest_s == pytest.approx(90, abs=5)
    assert row.oldest_exact


def test_more_priorities_than_are_looked_at_is_told(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    now = int(time.time() * 1000)
    raw.zadd(keys.key(QUEUE, "ready"), {f"p{n}": n * BAND + now for n in range(40)})
    assert not writer.snapshot().queues[0].oldest_exact


def test_a_due_job_that_nobody_puts_in_line_waits_too(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    raw.zadd(keys.key(QUEUE, "delayed"), {"late": int(time.time() * 1000) - 120_000})
    raw.hincrby(keys.key(QUEUE, "meta").decode(), "delayed", 1)
    assert writer.snapshot().queues[0].oldest_s == pytest.approx(120, abs=5)


def test_stuck_counts_expired_leases_graces_and_time_limits(
    writer: Writer, client: SyncClient, raw: redis.Redis
) -> None:
    many(client, 4)
    late, grace, over, _fine = claim(client, 4)
    now = int(time.time() * 1000)
    raw.zadd(keys.key(QUEUE, "running"), {late.id: now - 1})
    lease = keys.key(QUEUE, "lease").decode()
    raw.hset(lease, grace.id, raw.hget(lease, grace.id) + b" ?")  # type: ignore[operator]  # a blocking client answers at once
    raw.hset(lease, over.id, f"w1:1 {now - 60_000} 60000 0")
    raw.hset(keys.key(QUEUE, "head").decode(), over.id, f"{now} 100 0 t\nm1000")
    seen = writer.snapshot()
    assert seen.queues[0].stuck == 3
    assert any("3 jobs stuck" in reason.text for reason in seen.findings)


def test_paused_and_unserved_queues_are_reasons(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 2)
    assert [r.text for r in writer.snapshot().findings] == [f"no live worker for {QUEUE}, 2 jobs waiting"]
    said = {"queues": [QUEUE], "heartbeat_ms": int(time.time() * 1000), "state": "running", "host": "h", "pid": 1}
    raw.hset("qdeck:workers", "w1", json.dumps(said))
    assert writer.snapshot().status is Status.HEALTHY
    assert writer.workers()[0].alive
    writer.pause(QUEUE)
    assert "is paused" in writer.snapshot().findings[0].text
    writer.resume(QUEUE)
    raw.hset("qdeck:workers", "w1", json.dumps(said | {"heartbeat_ms": 1}))
    assert not writer.workers()[0].alive


def test_dead_letters_make_a_deck_degraded_then_unhealthy(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    claim(client)
    meta = keys.key(QUEUE, "meta").decode()
    for count, status in (
        (100, Status.HEALTHY),
        (101, Status.DEGRADED),
        (1000, Status.DEGRADED),
        (1001, Status.UNHEALTHY),
    ):
        raw.hset(meta, "dead_letter", count)
        assert writer.snapshot().status is status


def test_a_foreign_key_is_that_queues_problem_only(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    raw.hset("qdeck:queues", mapping={"other:x:actions": 1, "third:x:actions": 1, "gone:x:actions": 1})
    raw.rpush("{other:x:actions}:meta", "x")
    raw.hset("{third:x:actions}:meta", mapping={"v": "7"})
    rows = {row.name: row for row in writer.snapshot().queues}
    assert set(rows) == {QUEUE, "other:x:actions", "third:x:actions"}
    assert rows[QUEUE].ready == 1
    assert "another type" in str(rows["other:x:actions"].problem)
    assert "layout 7" in str(rows["third:x:actions"].problem)


def test_a_wrong_list_under_our_name_keeps_the_counts(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 3)
    raw.rename(keys.key(QUEUE, "ready"), "elsewhere")
    raw.set(keys.key(QUEUE, "ready"), "x")
    row = writer.snapshot().queues[0]
    assert row.ready == 3
    assert row.problem


def test_a_queue_that_the_registry_lacks_is_found(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    raw.delete("qdeck:queues")
    assert [row.name for row in writer.snapshot().queues] == [QUEUE]
    writer.enqueue("other:x:actions", "t")
    assert [row.name for row in writer.snapshot().queues] == [QUEUE, "other:x:actions"]


def test_details_of_hidden_queues_take_turns(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_queues, "ROTATION", 1)
    for n in range(3):
        writer.enqueue(f"q{n}:x:actions", "t")
    looks = [
        sum(row.oldest_s is not None for row in writer.snapshot(visible=[QueueRef(NATIVE, "q0:x:actions")]).queues)
        for _ in range(3)
    ]
    assert looks == [1, 2, 3]


def test_a_deck_with_many_queues_is_counted_in_turns(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_queues, "CHUNK", 2)
    monkeypatch.setattr(native_queues, "PORTION", 2)
    names = [f"q{n}:x:actions" for n in range(6)]
    for name in names:
        writer.enqueue(name, "t")
    first = writer.snapshot(visible=())
    assert first.fresh is None
    assert first.counted_ms == first.at_ms
    assert first.totals.ready == 6
    for name in names:
        writer.enqueue(name, "t")
    looks = [writer.snapshot(visible=[QueueRef(NATIVE, names[5])]) for _ in range(3)]
    assert looks[0].fresh == frozenset(QueueRef(NATIVE, name) for name in (*names[:2], names[5]))
    assert [look.totals.ready for look in looks] == [9, 11, 12]
    assert looks[0].counted_ms == first.at_ms
    assert looks[2].counted_ms == looks[0].at_ms
    assert [row.ready for row in looks[0].queues] == [2, 2, 1, 1, 1, 2]
    writer.enqueue("new:x:actions", "t")
    newer = writer.snapshot(visible=[])
    assert newer.fresh == frozenset({QueueRef(NATIVE, names[5]), QueueRef(NATIVE, "new:x:actions")})
    assert writer.snapshot().fresh is None


@pytest.mark.parametrize("state", ["ready", "delayed"])
def test_paging_gives_every_job_once_though_all_are_tied(writer: Writer, client: SyncClient, state: str) -> None:
    due = int(time.time() * 1000) + 10**7 if state == "delayed" else None
    ids = many(client, 1_300, due_ms=due)
    assert [record.id for record in writer.jobs(QUEUE, state=state)] == ids


@pytest.mark.parametrize("newest", [False, True])
def test_paging_goes_on_where_the_last_entry_was(
    writer: Writer, client: SyncClient, monkeypatch: pytest.MonkeyPatch, newest: bool
) -> None:
    """What is taken out between two pages, the last entry of the page included, makes nobody else be left out."""
    monkeypatch.setattr(joblists, "SLICE", 50)
    ids = many(client, 200, due_ms=int(time.time() * 1000) + 10**7)
    order = ids[::-1] if newest else ids
    first = writer.page(QUEUE, state="delayed", newest=newest, most=50)
    writer.apply(writer.plan("discard", QUEUE, ids=[*order[:10], order[49], order[60]]))
    rest, cursor = [], first.cursor
    while cursor is not None:
        page = writer.page(QUEUE, state="delayed", newest=newest, cursor=cursor, most=50)
        rest += [record.id for record in page.jobs]
        cursor = page.cursor
    assert [record.id for record in first.jobs] == order[:50]
    assert rest == [job_id for job_id in order[50:] if job_id != order[60]]


def test_a_filter_sees_payloads_errors_and_short_facts(writer: Writer, client: SyncClient) -> None:
    ids = many(client, 20)
    end(client, "failed", claim(client)[0], {"class": "pkg.TimeoutError", "message": "slow", "worker": "w9"})
    assert [r.id for r in writer.jobs(QUEUE, where="payload.0>=18")] == ids[18:]
    assert [r.id for r in writer.jobs(QUEUE, where="error:Timeout* message:slow worker:w9")] == ids[:1]
    assert [r.id for r in writer.jobs(QUEUE, where=f"id:{ids[3]}")] == [ids[3]]
    assert len(list(writer.jobs(QUEUE, where="state:ready -task:x"))) == 19
    assert len(list(writer.jobs(QUEUE, state="ready", limit=7))) == 7
    with pytest.raises(InvalidFilter):
        writer.jobs(QUEUE, where="nosuch:1")


def test_all_about_a_job(writer: Writer, client: SyncClient) -> None:
    parent = writer.enqueue(QUEUE, "t", [1], {"api_key": "k", "n": 2}, name="n", tags=["a", "b"])
    child = writer.enqueue(QUEUE, "t", after=[parent.id])
    running = claim(client)[0]
    seen = writer.job(QUEUE, parent.id)
    assert (seen.state, seen.worker, seen.dependents, seen.tags) == (State.RUNNING, "w1", (child.id,), ("a", "b"))
    assert [event.kind for event in seen.history] == ["enqueued", "claimed"]
    assert writer.job(QUEUE, child.id).depends_on == (parent.id,)
    end(client, "failed", running, {"class": "pkg.Boom", "message": "at redis://u:pw@h/0", "traceback": "line 1"})
    seen = writer.job(QUEUE, parent.id)
    assert seen.failure is not None
    assert (seen.failure.class_name, seen.failure.message) == ("Boom", "at redis://u:***@h/0")
    assert seen.failure.traceback == "line 1"
    assert seen.payload() == [[1], {"api_key": "***", "n": 2}]
    dead_child = writer.job(QUEUE, child.id)
    assert (dead_child.error, dead_child.message) == ("DependencyFailed", f"job {parent.id} is dead")


def test_many_dependents_are_all_told(writer: Writer) -> None:
    parent = writer.enqueue(QUEUE, "t")
    children = [writer.enqueue(QUEUE, "t", after=[parent.id]).id for _ in range(450)]
    assert sorted(writer.job(QUEUE, parent.id).dependents) == sorted(children)


def test_find_looks_in_every_queue(writer: Writer) -> None:
    writer.enqueue(QUEUE, "t", id="same")
    writer.enqueue("other:x:actions", "t", id="same", delay=60)
    assert {(place.queue, place.state) for place in writer.find("same")} == {
        (QUEUE, "ready"),
        ("other:x:actions", "delayed"),
    }
    assert writer.find("nowhere") == []


def test_unknown_things_name_what_was_meant(writer: Writer) -> None:
    writer.enqueue(QUEUE, "t")
    with pytest.raises(UsageError, match="demo:mial:actions") as caught:
        writer.pause("demo:mial:actions")
    assert QUEUE in caught.value.hint
    with pytest.raises(UsageError):
        writer.jobs("\udcff:x:actions")
    with pytest.raises(UnknownJob):
        writer.job(QUEUE, "nope")
    with pytest.raises(InvalidOption):
        writer.jobs(QUEUE, state="asleep")
    with pytest.raises(UsageError, match="no worker"):
        writer.order_worker("w1", "stop")


def test_a_plan_is_applied_to_what_it_saw_only(writer: Writer, client: SyncClient) -> None:
    ids = many(client, 450)
    plan = writer.plan("cancel", QUEUE, where="payload.0<420")
    assert plan.count == 420
    claim(client, free_slots=3)
    batch = writer.apply(plan)
    assert batch.applied == 417
    assert [(skip.id, skip.why) for skip in batch.skipped] == [(job_id, "is running now") for job_id in ids[:3]]
    assert writer.snapshot().queues[0].cancelled == 417


def test_verbs_act_in_their_states(writer: Writer, client: SyncClient) -> None:
    [waiting] = many(client, 1)
    later = writer.enqueue(QUEUE, "t", delay=600).id
    assert writer.apply(writer.plan("run", QUEUE)).applied == 1
    assert writer.job(QUEUE, later).state == "ready"
    assert writer.plan("run", QUEUE, ids=[waiting, "nix"]).tail.skipped[0].why == "is ready"
    assert writer.apply(writer.plan("reprioritise", QUEUE, ids=[later], priority="CRITICAL")).applied == 1
    assert [record.id for record in writer.jobs(QUEUE)] == [later, waiting]
    [running] = claim(client)
    batch = writer.apply(writer.plan("cancel", QUEUE, ids=[running.id]))
    assert (batch.applied, batch.cancel_requested) == (1, 1)
    assert writer.job(QUEUE, running.id).cancel_requested
    assert writer.apply(writer.plan("discard", QUEUE)).applied == 1
    assert writer.find(waiting) == []


def test_a_plan_counts_who_waits_for_its_jobs(writer: Writer) -> None:
    parent = writer.enqueue(QUEUE, "t")
    writer.enqueue(QUEUE, "t", after=[parent.id])
    assert writer.plan("cancel", QUEUE, ids=[parent.id]).tail.totals.dependents == 1


def test_limits_are_checked_and_shown(writer: Writer) -> None:
    writer.enqueue(QUEUE, "t")
    writer.limit(QUEUE, running=3, rate=(10, 0.5))
    row = writer.snapshot().queues[0]
    assert (row.limit, row.rate) == (3, (10, 500))
    writer.limit(QUEUE)
    assert writer.snapshot().queues[0].limit is None
    with pytest.raises(InvalidOption):
        writer.limit(QUEUE, running=0)


WRITES = {
    "add_schedule", "apply", "clean", "close_interrupted", "edit", "edit_schedule", "enable_schedule",
    "enqueue", "limit", "need_writable", "order_worker", "pause", "record", "redrive",
    "remove_schedule", "resume", "run_schedule", "undo", "write",
}  # fmt: skip


@pytest.mark.parametrize(("reader", "writer"), [(Reader, Writer), (AsyncReader, AsyncWriter)])
def test_a_reader_has_nothing_that_writes(reader: type, writer: type) -> None:
    def public(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert public(writer) - public(reader) == WRITES
    methods = {name: inspect.getattr_static(reader, name) for name in public(reader)}
    assert not any(isinstance(method, writes) for method in methods.values())


def test_read_only_refuses_before_anything_is_sent() -> None:
    reader = Reader("redis://127.0.0.1:1")  # nobody is there: to send would be another error
    with pytest.raises(NotAllowed):
        reader._run_write(store.remove("x"))


async def test_asyncio_has_the_same(url: str) -> None:
    async with AsyncWriter(url) as writer:
        made = await writer.enqueue(QUEUE, "t", [1], delay=5)
        assert (await writer.snapshot()).totals.delayed == 1
        assert [record.id async for record in writer.jobs(QUEUE)] == [made.id]
        assert (await writer.page(QUEUE, state="delayed")).scanned == 1
        assert (await writer.job(QUEUE, made.id)).state == "delayed"
        assert len(await writer.find(made.id)) == 1
        assert (await writer.workers()) == []
        assert (await writer.pause(QUEUE)).changed
        assert (await writer.resume(QUEUE)).changed
        assert (await writer.apply(await writer.plan("cancel", QUEUE))).applied == 1


def test_looking_sends_plain_reads_only(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with Writer(server.url) as writer, server.client() as raw:
        made = writer.enqueue(QUEUE, "t")
        writer.enqueue(QUEUE, "t", after=[made.id], delay=1)
        claim(writer._writing)
        raw.config_resetstat()
        look_at_everything(writer, made.id)
        sent = {name.removeprefix("cmdstat_").split("|")[0] for name in raw.info("commandstats")}
    reads = {
        "hget",
        "hgetall",
        "xlen",  # the states of schedules, a thousand at most
        "hmget",
        "hexists",
        "hlen",
        "hstrlen",
        "hscan",
        "scan",
        "zrange",
        "zrevrange",
        "zrangebyscore",
        "zcount",
    }
    reads |= {"zscore", "zrank", "zrevrank", "zrevrangebyscore", "time", "info", "hello", "type"}
    assert sent <= reads | {"client", "select", "config"}


def look_at_everything(writer: Writer, job_id: str) -> None:
    writer.snapshot()
    assert list(writer.jobs(QUEUE, where="-payload.0:zzz"))
    writer.job(QUEUE, job_id)
    assert writer.find(job_id)
    writer.workers()
    assert writer.plan("cancel", QUEUE).count


def test_read_rights_are_enough_to_look(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with Writer(server.url) as writer, server.client() as raw:
        made = writer.enqueue(QUEUE, "t")
        raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "~*", "+@read", "+ping", "+select", "-@dangerous")
        before = raw.dbsize()
        with Writer(f"redis://looker:pw@127.0.0.1:{server.port}/0") as looker:
            look_at_everything(looker, made.id)
            seen = looker.snapshot()
            assert seen.local_clock
            assert len(seen.notices) == 2
            assert seen.server.version
            assert seen.totals.ready == 1
            with pytest.raises(NotAllowed):
                looker.pause(QUEUE)
            with pytest.raises(NotAllowed):
                looker.enqueue(QUEUE, "t")
        assert raw.dbsize() == before
        assert writer.snapshot().totals.ready == 1


def test_no_rights_at_all_is_an_error(make_server: Callable[..., Server]) -> None:
    server = make_server()
    with server.client() as raw:
        raw.execute_command("ACL", "SETUSER", "nobody", "on", ">pw", "+ping")
    with Writer(f"redis://nobody:pw@127.0.0.1:{server.port}/0") as writer, pytest.raises(NotAllowed):
        writer.snapshot()


def test_an_absent_server_is_told_at_once() -> None:
    start = time.monotonic()
    with Writer("redis://127.0.0.1:1") as writer, pytest.raises(ServerUnreachable):
        writer.snapshot()
    assert time.monotonic() - start < 4


def test_a_database_that_is_not_there_is_a_wrong_url(url: str) -> None:
    with Writer(url.rsplit("/", 1)[0] + "/9999") as writer, pytest.raises(InvalidOption, match="database"):
        writer.snapshot()


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("password", True), ("userPassword", True), ("X-Api-Key", True), ("AUTH_TOKEN", True), ("client.secret", True),
        ("Authorization", True), ("passenger", False), ("tokenizer", False), ("author", False), ("monkey", False),
    ],
)  # fmt: skip
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert payload.is_secret(name) is secret


def test_secrets_are_masked_at_any_depth() -> None:
    seen = payload.decode(b'[[{"user": {"Token": "t", "x": [{"secret": 1}]}}], {"password": null, "ok": true}]')
    assert seen == [[{"user": {"Token": "***", "x": [{"secret": "***"}]}}], {"password": None, "ok": True}]
    assert payload.decode(b"\xff\x00") == {"base64": "/wA="}
    assert payload.decode(b"plain") == "plain"
    deep = payload.decode(b"[" * 500 + b"]" * 500)
    assert "…" in json.dumps(deep, ensure_ascii=False)


def test_a_read_that_would_write_is_held_back(writer: Writer, client: SyncClient, raw: redis.Redis) -> None:
    many(client, 1)
    before = raw.execute_command("DEBUG", "DIGEST")
    with pytest.raises(NotAllowed, match="that writes"):
        writer.run(programs.call(transitions.configure(QUEUE, {"paused": "1"})))
    assert raw.execute_command("DEBUG", "DIGEST") == before
