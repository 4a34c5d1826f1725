"""One server with something of everything: every adapter, every state, and names that several of them use.

All of it is written as the systems themselves write it, so that it stays the same whatever moves in the package. Times
are relative to one moment, `now_ms`; each age has 20 seconds more than whole minutes, so that no shown figure changes
while a test runs.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from characterisation import seed_native
from characterisation.seed_native import DAY, HOSTILE, HOUR, MAIL, MINUTE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis
    from redis.client import Pipeline

SECOND: Final = 1000
LATE: Final = 20 * SECOND
ADAPTERS: Final = ("native", "vmpooler", "ifdb", "scheduler", "lists")
PARTS: Final = (*ADAPTERS, "messages")
POOL: Final = "centos-9"
TASK: Final = "task-17"
_UNTOUCHED: Final = ("shop:dev:mail:responses:ask:c9", "execution:agent_run:free:67890")  # for two days, by anyone


def iso(ms: int) -> str:
    """A moment as Python's `isoformat` writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def ruby(ms: int) -> str:
    """A moment as Ruby's `Time#to_s` writes it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S +0000")


def fill(raw: redis.Redis, parts: Sequence[str] = PARTS) -> int:
    """Empties the server and writes these parts; returns the moment that all times are relative to."""
    now = time.time_ns() // 1_000_000_000 * 1000
    pipe = raw.pipeline(transaction=False)
    pipe.flushall()
    for part in parts:
        _FILL[part](pipe, now)
    pipe.execute()
    for name in _UNTOUCHED:
        if (dump := raw.dump(name)) is not None:
            raw.restore(name, 0, dump, replace=True, idletime=2 * DAY // 1000 + 20)
    return now


def _vmpooler(pipe: Pipeline, now: int) -> None:
    """Pools in every state, one named like a native queue and one like another adapter; requests, tasks, letters."""
    pools = {POOL: 3, MAIL: 1, "scheduler": 1}
    pipe.sadd("vmpooler__pools", *pools)
    for pool, size in pools.items():
        pipe.hset(f"vmpooler__pool__{pool}", mapping={"name": pool, "size": str(size), "template": f"tpl/{pool}"})

    def vm(state: str, name: str, pool: str = POOL, **fields: str) -> None:
        if state:
            pipe.sadd(f"vmpooler__{state}__{pool}", name)
        for field, value in {"pool": pool, "template": pool, **fields}.items():
            pipe.hset(f"vmpooler__vm__{name}", field, value)

    vm("pending", "pending-young", clone=ruby(now - 9 * MINUTE - LATE))
    vm("pending", "pending-stuck", clone=ruby(now - 3 * HOUR - LATE))
    vm("ready", "ready-young", clone=ruby(now - HOUR), ready=ruby(now - 50 * MINUTE - LATE))
    vm("ready", "ready-old", clone=ruby(now - 2 * DAY), ready=ruby(now - 26 * HOUR - LATE), note=HOSTILE)
    vm("running", "running-one", clone=ruby(now - 2 * HOUR), checkout=ruby(now - HOUR - LATE))
    pipe.hset(f"vmpooler__active__{POOL}", "running-one", ruby(now - HOUR - LATE))
    vm("completed", "completed-old", clone=ruby(now - 9 * HOUR), destroy=ruby(now - 2 * HOUR - LATE))
    vm("completed", "completed-young", clone=ruby(now - 9 * HOUR), destroy=ruby(now - 9 * MINUTE - LATE))
    vm("ready", "twin", MAIL, clone=ruby(now - HOUR), ready=ruby(now - 30 * MINUTE - LATE))
    vm("running", "runs-there", "scheduler", clone=ruby(now - HOUR), checkout=ruby(now - 30 * MINUTE - LATE))
    vm("pending", "of-no-pool", "gone-pool", clone=ruby(now - 3 * HOUR - LATE))
    vm("", "orphan", clone=ruby(now - 25 * HOUR - LATE))

    def letter(kind: str, name: str, ago: int, error: str, message: str, **facts: object) -> None:
        at = (now - ago) // 1000
        told: dict[str, object] = {
            "vm": name, "pool": POOL, "queue_from": kind, "error_class": error, "error_message": message,
            "failed_at": iso(now - ago), "retry_count": 0, **facts,
        }  # fmt: skip
        pipe.zadd(f"vmpooler__dlq__{kind}", {f"{name}:{at}:{json.dumps(told)}": at})

    of_request = {"request_id": "req-1", "pool_alias": "el9"}
    letter("clone", "od-one", 70 * MINUTE + LATE, "RuntimeError", "network timeout talking to vcenter", **of_request)
    letter("clone", "od-two", 40 * MINUTE + LATE, "RuntimeError", "network timeout talking to vcenter", **of_request)
    letter("clone", "od-over", 30 * MINUTE + LATE, "RuntimeError", "no template", request_id="req-gone", pool_alias="a")
    letter("pending", "sad", 8 * DAY + LATE, "Timeout", "no ssh after 15 min")
    letter("ready", "odd", 5 * MINUTE + LATE, "SocketError", f"unreachable {HOSTILE} token=tok123")
    pipe.zadd("vmpooler__dlq__pending", {"no letter": now // 1000 - 320})
    pipe.hset("vmpooler__dlq__tasks", "disk", '["a","b"]')
    for name, state, ago in (
        ("req-1", "processing", 90),
        ("req-old", "processing", 90_020),
        ("req-new", "request", 80),
    ):
        pipe.zadd(f"vmpooler__provisioning__{state}", {name: now // 1000 - ago})
        asked = {"requested": f"el9:{POOL}:2", "token:token": "tok123", "token:user": "ada"}
        for field, value in asked.items():
            pipe.hset(f"vmpooler__odrequest__{name}", field, value)
    pipe.hset("vmpooler__odrequest__req-over", mapping={"requested": f"el9:{POOL}:1", "status": "failed"})
    pipe.sadd(f"vmpooler__req-1__el9__{POOL}", "running-one")
    pipe.zadd("vmpooler__odcreate__task", {f"el9:{POOL}:2:req-1": now // 1000 - 320})
    pipe.sadd("vmpooler__tasks__disk", "running-one:10")


def _ifdb(pipe: Pipeline, now: int) -> None:
    """Tasks in every state, one that has no record, one whose record is broken, one that no line has."""

    def task(name: str, ago: int, *, line: bool = True, priority: int = 100, **facts: Any) -> None:
        told = {
            "id": name, "name": f"games.tasks.{name}", "module": "games.tasks", "function": "run", "args": [1],
            "kwargs": {"token": "tok123"}, "priority": priority, "retries_left": 3, "retry_minutes": 2000,
            "cron": None, "enqueue_time": iso(now - ago), "scheduled_time": None, "dependency": None,
            "pending": True, "success": False, "fail": False, "log": "", **facts,
        }  # fmt: skip
        pipe.hset("ifdb:task_data", name, json.dumps(told))
        if line:
            pipe.zadd("ifdb:task_queue", {name: priority * 1_000_000 + (now - ago) // 1000})

    def ended(ago: int, **facts: Any) -> dict[str, Any]:
        return {"line": False, "pending": False, "finish_time": iso(now - ago), **facts}

    task("ready-one", 5 * MINUTE + LATE)
    task("ready-first", 3 * MINUTE + LATE, priority=50)
    task("twin", 4 * MINUTE + LATE, args=[HOSTILE])
    task("later", 4 * MINUTE + LATE, scheduled_time=iso(now + HOUR + 40 * SECOND))
    task("waits", 6 * MINUTE + LATE, dependency="later")
    task("waits-for-dead", 6 * MINUTE + LATE, dependency="bad")
    task("runs", 9 * MINUTE + LATE, start_time=iso(now - 8 * MINUTE - LATE))
    task("runs-long", 9 * HOUR + LATE, start_time=iso(now - 8 * HOUR - LATE))
    task("lost", 7 * MINUTE + LATE, line=False)
    task("good", HOUR, **ended(50 * MINUTE + LATE, success=True))
    task("good-old", 30 * DAY, **ended(29 * DAY + LATE, success=True))
    task("bad", HOUR, **ended(45 * MINUTE + LATE, fail=True, log="Started\nFailed: 404 for http://games.example/7\n"))
    task("bad-two", HOUR, **ended(35 * MINUTE + LATE, fail=True, log="Failed: 404 for http://games.example/19\n"))
    task("bad-hostile", HOUR, **ended(25 * MINUTE + LATE, fail=True, log=f"Failed: {HOSTILE} password: tok123\n"))
    pipe.zadd("ifdb:task_queue", {"no-record": 1, "broken": 2})
    pipe.hset("ifdb:task_data", "broken", "{")


def _scheduler(pipe: Pipeline, now: int) -> None:
    """Ids in all four keys, broken ones among them."""
    line = {"first": now - 5 * MINUTE - LATE, "twin": now + 2_000_000, "last": now + 3_000_000}
    pipe.zadd("scheduler:queue:priority", line)
    pipe.zadd("scheduler:queue:priority", {b"\xff\x00": now})
    later = {"later:LOW": now + HOUR + 40 * SECOND, "due:HIGH": now - 5 * MINUTE - LATE, "broken": 5, "x:WHAT": 6}
    pipe.zadd("scheduler:queue:delayed", later)
    for name, worker, ago in (("held", "w-1", 5 * MINUTE + LATE), ("held-long", "w-gone", 3 * HOUR + LATE)):
        pipe.hset("scheduler:processing", name, json.dumps({"workerId": worker, "startedAt": now - ago}))
    pipe.hset("scheduler:processing", "odd", "{")
    for name, reason, ago in (
        ("dead-one", "Webhook answered 502", 2 * HOUR + LATE),
        ("dead-two", "Webhook answered 502", 90 * MINUTE + LATE),
        ("dead-old", "No handler for job type: export_pdf", 8 * DAY + LATE),
        ("dead-hostile", f"{HOSTILE} redis://u:tok123@h", 15 * MINUTE + LATE),
    ):
        letter = {"jobId": name, "reason": reason, "failedAt": iso(now - ago).replace("+00:00", ".000Z")}
        pipe.zadd("scheduler:queue:dlq", {json.dumps(letter): now - ago})
    pipe.zadd("scheduler:queue:dlq", {"no json": now - 5 * MINUTE - LATE})


def _lists(pipe: Pipeline, now: int) -> None:
    """Lists of tasks, a list named like a native queue with dead letters, entries that are the same, and no JSON."""

    def action(name: str, ago: int, **facts: object) -> str:
        told = {"action_id": name, "action_type": "ingestion.embed", "timestamp": iso(now - ago), **facts}
        return json.dumps(told)

    same = action("again", 4 * MINUTE + LATE)
    pipe.rpush(MAIL, action("oldest", 9 * MINUTE + LATE), same, action("twin", 3 * MINUTE + LATE), same)
    failed = {"error": "the model answered 429", "failed_at": iso(now - 7 * MINUTE - LATE)}
    dead = (
        action("dead-one", 8 * MINUTE + LATE, **failed),
        action("dead-two", 8 * MINUTE + LATE, **failed),
        action("dead-odd", 8 * DAY, error=HOSTILE, failed_at=iso(now - 8 * DAY - LATE)),
        "no json",
    )
    pipe.rpush(f"{MAIL}:dead_letter", *dead)
    pipe.rpush("execution:agent_run:free:12345", action("run-one", 5 * MINUTE + LATE, password="tok123"), b"\xff")
    pipe.rpush("execution:agent_run:free:67890", "x", "user=bob&api_key=tok123", HOSTILE)
    pipe.sadd("task_queues:12345", "execution:agent_run:free:12345")
    pipe.rpush("unnamed", "1")  # no queue: no pattern has it


def _messages(pipe: Pipeline, now: int) -> None:
    """Temporary queues: in use, waited on, expired, and one that nobody registered."""
    tag = "{qdeck:messages}"
    for name, kind, task, left, waited, entries in (
        ("shop:dev:mail:callbacks:task-17", "callbacks", TASK, HOUR, 0, ("unread", HOSTILE)),
        ("shop:dev:mail:responses:ask:c1", "responses", TASK, HOUR, HOUR, ()),
        ("shop:dev:mail:responses:ask:c2", "responses", "task-18", -10 * MINUTE - LATE, 0, ("late",)),
    ):
        pipe.hset(f"{tag}:about", name, f"{now - 2 * HOUR - LATE} 3600000 mail {kind} - {task}")
        pipe.zadd(f"{tag}:queues", {name: now + left})
        pipe.zadd(f"{tag}:tasks", {f"{task}\0{name}": 0})
        pipe.hincrby(f"{tag}:metrics", f"made mail {kind} -", 1)
        if kind == "callbacks":
            pipe.zadd(f"{tag}:callbacks", {name: 0})
        if waited:
            pipe.zadd(f"{tag}:waiting", {name: now + waited})
        if entries:
            pipe.rpush(name, *entries)
    pipe.rpush("shop:dev:mail:responses:ask:c9", "of nobody")


_FILL: Final = {
    "native": seed_native.fill,
    "vmpooler": _vmpooler,
    "ifdb": _ifdb,
    "scheduler": _scheduler,
    "lists": _lists,
    "messages": _messages,
}
