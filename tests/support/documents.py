"""Data of the systems of the five documents, written as each document writes it: plain redis-py calls."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

HOUR_S: Final = 3600


def ago(seconds: float) -> int:
    """The time so many seconds ago, in seconds."""
    return int(time.time() - seconds)


def iso(seconds: float) -> str:
    """A time as JavaScript and the documents write it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def ruby(seconds: float) -> str:
    """A time as `Time#to_s` writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S +0000")


def pool(raw: redis.Redis, name: str) -> None:
    """A pool of VMPooler."""
    raw.sadd("vmpooler__pools", name)
    raw.hset(f"vmpooler__pool__{name}", mapping={"name": name, "size": "3"})


def machine(raw: redis.Redis, state: str, name: str, of: str, **fields: Any) -> None:
    """A virtual machine in a set of its pool."""
    raw.sadd(f"vmpooler__{state}__{of}", name)
    for field, value in {"template": of, "pool": of, **fields}.items():
        raw.hset(f"vmpooler__vm__{name}", field, value)


def machine_letter(raw: redis.Redis, kind: str, vm: str, of: str | None, age_s: float, **more: Any) -> None:
    """A dead letter of VMPooler, as its document has it."""
    facts = {
        "vm": vm, "pool": of, "queue_from": kind, "error_class": "StandardError",
        "error_message": "template does not exist", "failed_at": iso(ago(age_s)), "retry_count": 3,
        "request_id": "req-123456", "pool_alias": of, **more,
    }  # fmt: skip
    raw.zadd(f"vmpooler__dlq__{kind}", {json.dumps({k: v for k, v in facts.items() if v is not None}): ago(age_s)})


def task(raw: redis.Redis, name: str, **facts: Any) -> str:
    """A task of IFDB, in its queue if it is pending; returns its id."""
    made = ago(HOUR_S)
    record = {
        "name": name, "module": "games.tasks.uploads", "function": "CloneFile", "args": [1], "kwargs": {},
        "priority": 100, "retries_left": 3, "retry_minutes": 2000, "cron": None, "enqueue_time": iso(made),
        "scheduled_time": None, "dependency": None, "onfail_module": None, "onfail_function": None,
        "pending": True, "success": False, "fail": False, "log": "", **facts,
    }  # fmt: skip
    task_id = f"{name}:games.tasks.uploads.CloneFile:{made}000001"
    raw.hset("ifdb:task_data", task_id, json.dumps({"id": task_id, **record}))
    if record["pending"]:
        raw.zadd("ifdb:task_queue", {task_id: 100_000_000 + made})
    return task_id


def failed_task(raw: redis.Redis, name: str, age_s: float | None) -> str:
    """A task of IFDB that failed for good."""
    ended = {} if age_s is None else {"finish_time": iso(ago(age_s))}
    return task(raw, name, pending=False, fail=True, retries_left=0, log="Failed: 404 for 1001\n", **ended)


def scheduler_letter(raw: redis.Redis, job: str, age_s: float) -> None:
    """A dead letter of the scheduler."""
    at = ago(age_s)
    raw.zadd("scheduler:queue:dlq", {json.dumps({"jobId": job, "reason": "boom", "failedAt": iso(at)}): at * 1000})


def action(raw: redis.Redis, key: str, name: str, **facts: Any) -> None:
    """An action of nooble4 at the right end of a list."""
    service = key.split(":", maxsplit=1)[0]
    raw.rpush(key, json.dumps({"action_id": name, "action_type": f"{service}.get", "tenant_id": "t1", **facts}))
