"""Each adapter in the conformance suite."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from core.adapters.bullmq import records as bullmq_records
from core.adapters.celery import records as celery_records
from core.adapters.rq import records
from core.adapters.sidekiq import records as sidekiq_records
from core.adapters.streams import records as streams
from qdeck.adapters import Outcome, Verb
from qdeck.adapters.vmpooler.keys import read_letter
from qdeck.testing.adapters import Conformance

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Entry

DUMPS = Path(__file__).parent / "dumps"


def load_dump(raw: redis.Redis, name: str) -> None:
    """Puts a dump of a real VMPooler into a server."""
    for key, kept in json.loads((DUMPS / name).read_text()).items():
        value = kept["value"]
        if kept["type"] == "hash":
            raw.hset(key, mapping=value)
        elif kept["type"] == "zset":
            for member, score in value:
                raw.zadd(key, {member: score})
        elif kept["type"] == "set":
            raw.sadd(key, *value)
        else:
            raw.set(key, value)
        if kept["ttl"] > 0:
            raw.expire(key, kept["ttl"])


class TestScheduler(Conformance):
    adapter = "scheduler"
    priorities: ClassVar = dict.fromkeys(Verb, "HIGH")

    def populate(self, raw: redis.Redis) -> None:
        now = time.time_ns() // 1_000_000
        raw.zadd("scheduler:queue:priority", {"new": now + 2_000_000, "old:sign": now - 2_000_000})
        raw.zadd("scheduler:queue:priority", {b"\xff\x00": now})
        raw.zadd("scheduler:queue:delayed", {"due:HIGH": now - 1000, "a:b:LOW": now + 1000, "broken": 5, "x:WHAT": 6})
        raw.hset("scheduler:processing", "held", json.dumps({"workerId": "w1", "startedAt": now - 5000}))
        raw.hset("scheduler:processing", "odd", "{")
        letter = json.dumps(
            {"jobId": "dead", "reason": "redis://u:tok123@h token=tok123", "failedAt": "2026-11-18T05:00:00.000Z"}
        )
        raw.zadd("scheduler:queue:dlq", {letter: now - 90_000, "no json": now, '{"reason": "x"}': 1})

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        assert raw.zrem("scheduler:queue:priority", entry.id)
        held = json.dumps({"workerId": "w1", "startedAt": time.time_ns() // 1_000_000})
        raw.hset("scheduler:processing", entry.id, held)

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        if not well:
            letter = json.dumps({"jobId": entry.id, "reason": "again", "failedAt": "2026-11-18T06:00:00.000Z"})
            raw.zadd("scheduler:queue:dlq", {letter: time.time_ns() // 1_000_000})
        raw.hdel("scheduler:processing", entry.id)
        return Outcome.UNKNOWN if well else Outcome.DEAD  # what ended well is told in PostgreSQL only


class TestIfdb(Conformance):
    adapter = "ifdb"
    priorities: ClassVar = {Verb.REPRIORITISE: 7}

    def populate(self, raw: redis.Redis) -> None:
        def put(name: str, line: bool = True, **facts: object) -> None:
            task = {
                "id": name, "name": name, "module": "games", "function": "run", "args": [1],
                "kwargs": {"token": "tok123"},
                "priority": 100, "retries_left": 3, "retry_minutes": 2000, "cron": None, "scheduled_time": None,
                "enqueue_time": "2026-11-18T05:00:00+00:00", "dependency": None, "pending": True, "success": False,
                "fail": False, "log": "", **facts,
            }  # fmt: skip
            raw.hset("ifdb:task_data", name, json.dumps(task))
            if line:
                raw.zadd("ifdb:task_queue", {name: 100_000_000 + 1_794_978_000})

        put("ready")
        put("later", scheduled_time="2999-01-01T00:00:00+00:00")
        put("waits", dependency="bad")
        put("runs", start_time="2026-11-18T05:00:01+00:00")
        ended = {"pending": False, "finish_time": "2026-11-18T05:00:02+00:00"}
        put("good", line=False, success=True, **ended)
        put("bad", line=False, fail=True, log="Failed: boom, password: tok123\n", **ended)
        put("lost", line=False)
        raw.zadd("ifdb:task_queue", {"no record": 1})
        raw.hset("ifdb:task_data", "broken", "{")
        raw.zadd("ifdb:task_queue", {"broken": 2})

    def change(self, raw: redis.Redis, name: str, **facts: object) -> None:
        task = json.loads(raw.hget("ifdb:task_data", name) or b"")
        raw.hset("ifdb:task_data", name, json.dumps(task | facts))

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        self.change(raw, entry.id, start_time=datetime.now(UTC).isoformat())

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        if well:
            self.change(raw, entry.id, pending=False, success=True, finish_time=datetime.now(UTC).isoformat())
            raw.zrem("ifdb:task_queue", entry.id)
            return Outcome.DONE
        later = datetime.now(UTC) + timedelta(minutes=2000)
        self.change(raw, entry.id, retries_left=1, scheduled_time=later.isoformat())
        return Outcome.FAILED  # two days long its own next try is ahead


class TestVmPooler(Conformance):
    adapter = "vmpooler"

    def populate(self, raw: redis.Redis) -> None:
        load_dump(raw, "dump_s1d_final.json")
        raw.sadd("vmpooler__pending__gone-pool", "left-over")
        raw.sadd("vmpooler__ready__debian-12", "fresh")
        raw.zadd("vmpooler__dlq__pending", {"no letter": 7, '{"vm":"plain","pool":"centos-7"}': 8})
        raw.hset("vmpooler__dlq__tasks", "disk", '["a","b"]')
        letter = {"vm": "vm-9", "pool": "centos-7", "error_message": "401 for Authorization: Bearer tok123"}
        raw.zadd("vmpooler__dlq__clone", {f"vm-9:9:{json.dumps(letter)}": 9})
        raw.zadd("vmpooler__provisioning__request", {"new": int(time.time())})
        raw.hset("vmpooler__odrequest__over", mapping={"requested": "a:b:1", "status": "failed"})

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        raw.delete("vmpooler__odcreate__task")

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        member = entry.seen.member
        facts = read_letter(member).facts
        if well:
            raw.hset(f"vmpooler__odrequest__{facts['request_id']}", "status", "ready")
            return Outcome.DONE
        again, at = facts | {"vm": f"{entry.id}-2"}, int(time.time())
        raw.zadd("vmpooler__dlq__clone", {f"{entry.id}-2:{at}:{json.dumps(again)}": at})
        return Outcome.DEAD


class TestLists(Conformance):
    adapter = "lists"

    def populate(self, raw: redis.Redis) -> None:
        raw.rpush("execution:agent_run:professional:12345", '{"task_id":"12345","password":"tok123"}', b"\xff", "twice")
        raw.rpush("execution:agent_run:professional:12345", "twice")
        raw.rpush("execution:agent_run:professional:6:7", "x", "user=bob&api_key=tok123")
        raw.rpush("nooble4:dev:management:actions", '{"action_id":"a1","timestamp":"2026-11-18T05:00:00Z"}')
        raw.rpush("nooble4:dev:management:actions:dead_letter", '{"action_id":"a2"}')
        raw.rpush("nooble4:dev:execution_service:responses:get_agent_config:c1a2", "{}")
        raw.sadd("task_queues:12345", "execution:agent_run:professional:12345")
        raw.rpush("{native}:wakeup", "1")
        raw.rpush("unnamed", "1")

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        assert raw.lrem(entry.queue, 1, entry.seen.member)  # type: ignore[arg-type]  # bytes are well

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        if well:
            return Outcome.UNKNOWN
        again = json.loads(entry.seen.member) | {"attempts": 2}
        raw.lpush(f"{entry.queue}:dead_letter", json.dumps(again))
        return Outcome.DEAD


class TestRq(Conformance):
    adapter = "rq"

    def populate(self, raw: redis.Redis) -> None:
        records.fill(raw)

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        assert raw.lrem("rq:queue:mail", 1, entry.id)
        raw.hset(f"rq:job:{entry.id}", mapping={"status": "started", "started_at": records.stamp()})
        raw.zadd("rq:wip:mail", {f"{entry.id}:e2": time.time() + 60})

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        raw.zrem("rq:wip:mail", f"{entry.id}:e2")
        status = "finished" if well else "failed"
        raw.hset(f"rq:job:{entry.id}", mapping={"status": status, "ended_at": records.stamp()})
        raw.zadd(f"rq:{status}:mail", {entry.id: time.time() + 500})
        return Outcome.DONE if well else Outcome.DEAD


class TestCelery(Conformance):
    adapter = "celery"

    def populate(self, raw: redis.Redis) -> None:
        celery_records.fill(raw)

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        sent = json.loads(raw.lpop("celery"))  # type: ignore[arg-type]
        self.task = sent["headers"]["id"]
        celery_records.result(raw, self.task, "STARTED")

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        celery_records.result(raw, self.task, "SUCCESS" if well else "FAILURE")
        return Outcome.DONE if well else Outcome.DEAD


class TestBullMq(Conformance):
    adapter = "bullmq"
    emitted: ClassVar = bullmq_records.EMITTED

    def populate(self, raw: redis.Redis) -> None:
        bullmq_records.fill(raw)

    def take(self, raw: redis.Redis, entry: Entry) -> None:
        assert raw.lrem("bull:post:wait", 1, entry.id) or raw.zrem("bull:post:prioritized", entry.id)
        raw.lpush("bull:post:active", entry.id)
        raw.set(f"bull:post:{entry.id}:lock", "token")

    def end(self, raw: redis.Redis, entry: Entry, *, well: bool) -> Outcome:
        raw.lrem("bull:post:active", 1, entry.id)
        raw.delete(f"bull:post:{entry.id}:lock")
        raw.zadd(f"bull:post:{'completed' if well else 'failed'}", {entry.id: time.time_ns() // 1_000_000})
        return Outcome.DONE if well else Outcome.DEAD


class TestSidekiq(Conformance):
    adapter = "sidekiq"

    def populate(self, raw: redis.Redis) -> None:
        sidekiq_records.fill(raw)


class TestStreams(Conformance):
    adapter = "streams"

    def contents(self, raw: redis.Redis) -> dict[bytes, tuple[object, bool]]:
        """An entry that was deleted comes back at the end, under a new id."""
        found = super().contents(raw)
        for key in found:
            value: Any = found[key][0]
            rows, groups = value
            found[key] = (sorted(str(fields) for _, fields in rows), groups), found[key][1]
        return found

    def populate(self, raw: redis.Redis) -> None:
        streams.fill(raw)


# Tests import this, not the classes: pytest would run the suite again in each module that has their names.
FILL: dict[str, type[Conformance]] = {
    "lists": TestLists, "vmpooler": TestVmPooler, "ifdb": TestIfdb, "scheduler": TestScheduler,
    "rq": TestRq,
    "celery": TestCelery,
    "bullmq": TestBullMq,
    "sidekiq": TestSidekiq,
    "streams": TestStreams,
}  # fmt: skip
EMITTED = tuple(end for one in FILL.values() for end in one.emitted)
