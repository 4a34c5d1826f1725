"""A queue that nobody works on is looked after: by the agent's task, through the engine's own steps."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from qdeck._agent import queue_maintenance
from qdeck._engine import keys, programs, transitions
from qdeck._engine.job_ids import new_id
from qdeck._redis import Endpoint, SyncClient
from qdeck.admin import Writer
from support.agents import QUEUE, bury, claim, make_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.servers import Server


def now_ms() -> int:
    return int(time.time() * 1000)


def maintain(client: SyncClient, url: str, *, trims: bool = True, now: int | None = None) -> queue_maintenance.WorkDone:
    done = queue_maintenance.WorkDone()
    with Writer(url) as writer:
        rows = writer.snapshot(visible=()).queues
    for work in client.run(queue_maintenance.find_work(rows, now or now_ms(), trims=trims)):
        client.run(queue_maintenance.do_work(work, done))
    return done


def test_an_expired_lease_is_warned_and_then_taken_back(client: SyncClient, url: str, raw: redis.Redis) -> None:
    make_jobs(client, 3)
    claim(client, free_slots=3, lease_ms=40)
    time.sleep(0.06)
    assert maintain(client, url).counts() == {"warned": 3}
    time.sleep(0.05)
    assert maintain(client, url).counts() == {"requeued": 3}
    assert raw.zcard(keys.key(QUEUE, "ready")) == 3
    assert maintain(client, url).counts() == {}


def test_a_lease_that_lost_its_place_is_put_back(client: SyncClient, url: str, raw: redis.Redis) -> None:
    make_jobs(client, 1)
    [job] = claim(client, lease_ms=40)
    raw.zrem(keys.key(QUEUE, "running"), job.id)
    for _ in range(3):
        maintain(client, url)
        time.sleep(0.06)
    assert raw.zcard(keys.key(QUEUE, "ready")) == 1


def test_what_is_meant_for_another_queue_is_delivered(client: SyncClient, url: str, raw: redis.Redis) -> None:
    other = "demo:other:actions"
    [parent] = make_jobs(client, 1)
    child = transitions.NewJob(
        id=new_id(), priority=100, template="100 0 t", body=b"[[],{}]", after=(f"{parent}@{QUEUE}",)
    )
    client.run(programs.enqueue(other, [child]))
    [job] = claim(client)
    turn = transitions.poll(QUEUE, "w1", 10**17, free_slots=0, lease_ms=1000, acks=[(job.id, job.token)])
    client.run(programs.call(turn))
    assert raw.xlen(keys.key(QUEUE, "outbox")) == 1
    assert maintain(client, url).counts() == {"delivered": 1}
    assert raw.zscore(keys.key(other, "ready"), child.id) is not None
    assert raw.xlen(keys.key(QUEUE, "outbox")) == 0


def test_a_malformed_entry_of_an_outbox_is_set_aside_and_counted(
    client: SyncClient, url: str, raw: redis.Redis
) -> None:
    make_jobs(client, 1)
    raw.xadd(keys.key(QUEUE, "outbox"), {"k": "newkind"})
    done = maintain(client, url)
    assert done.counts() == {"quarantined": 1}
    assert "unknown kind 'newkind'" in done.error
    assert raw.xlen(keys.key(QUEUE, "outbox")) == 0


def test_what_is_kept_too_long_is_dropped_and_counted(client: SyncClient, url: str, raw: redis.Redis) -> None:
    client.run(programs.make_queue(QUEUE))
    client.run(programs.call(transitions.configure(QUEUE, {"dead_max": "10"})))
    make_jobs(client, 300)
    bury(client, claim(client, free_slots=300))
    assert maintain(client, url, trims=False).counts() == {}
    assert maintain(client, url).counts() == {"trimmed": 290}
    assert raw.hget(keys.key(QUEUE, "meta"), "n:dropped_dead") == b"290"


def test_a_queue_that_refuses_holds_up_no_other(client: SyncClient, url: str, raw: redis.Redis) -> None:
    for queue in ("a:bad:actions", "b:good:actions"):
        make_jobs(client, 1, queue=queue)
        claim(client, queue=queue, lease_ms=30)
    raw.delete(keys.key("a:bad:actions", "attempts"))
    raw.set(keys.key("a:bad:actions", "attempts"), "not a hash")
    time.sleep(0.05)
    maintain(client, url)
    time.sleep(0.05)
    done = maintain(client, url)
    assert done.counts() == {"requeued": 1, "errors": 1}
    assert "a:bad:actions" in done.error
    assert raw.zcard(keys.key("b:good:actions", "ready")) == 1


def test_workers_of_the_day_before_are_struck_off(client: SyncClient, raw: redis.Redis) -> None:
    day = 86_400_000
    told = {"old": now_ms() - day - 1000, "quiet": now_ms() - day + 60_000, "fresh": now_ms()}
    for name, seen in told.items():
        raw.hset(keys.WORKERS, name, json.dumps({"id": name, "heartbeat_ms": seen}))
        raw.hset(keys.CONTROL, name, "stop")
    raw.hset(keys.WORKERS, "broken", "{")
    done = queue_maintenance.WorkDone()
    client.run(queue_maintenance.prune_workers(now_ms(), done))
    assert done.workers == 2
    assert set(raw.hkeys(keys.WORKERS)) == set(raw.hkeys(keys.CONTROL)) == {b"quiet", b"fresh"}


def test_names_without_a_queue_are_taken_off_the_registry(client: SyncClient, raw: redis.Redis) -> None:
    make_jobs(client, 1)
    hours = now_ms() - 3 * 3_600_000
    raw.hset(keys.QUEUES, mapping={"never:made:actions": hours, "just:now:actions": now_ms(), QUEUE: hours})
    assert client.run(queue_maintenance.prune_queues(now_ms())) == ["never:made:actions"]
    assert set(raw.hkeys(keys.QUEUES)) == {b"just:now:actions", QUEUE.encode()}


def test_looking_for_what_is_due_writes_nothing(client: SyncClient, url: str, raw: redis.Redis) -> None:
    make_jobs(client, 2)
    claim(client, lease_ms=20)
    time.sleep(0.03)
    with Writer(url) as writer:
        rows = writer.snapshot(visible=()).queues
    before = {key: raw.dump(key) for key in raw.scan_iter()}
    due = client.run(queue_maintenance.find_work(rows, now_ms(), trims=True))
    assert [(work.queue, work.reap) for work in due] == [(QUEUE, True)]
    assert {key: raw.dump(key) for key in raw.scan_iter()} == before


def test_many_queues_cost_few_round_trips(make_server: Callable[..., Server]) -> None:
    server = make_server()
    client = SyncClient(Endpoint(server.url))
    for n in range(500):
        make_jobs(client, 1, queue=f"q{n}:s:actions")
    with Writer(server.url) as writer, server.client() as raw:
        rows = writer.snapshot(visible=()).queues
        before = raw.info("stats")["total_commands_processed"]
        assert client.run(queue_maintenance.find_work(rows, now_ms(), trims=True)) == []
        assert raw.info("stats")["total_commands_processed"] - before < 4 * 500 + 20
    client.close()
