"""Messages and results as Celery 5.7 writes them, so that its queues can be tested without its workers."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


def stamp(ago_s: float = 0) -> str:
    """Return a moment as Celery writes it."""
    return datetime.fromtimestamp(time.time() - ago_s, UTC).isoformat()


def message(task: str, queue: str = "celery", *, eta: str | None = None, priority: int = 0, args: Any = None) -> str:
    """Return a message."""
    body = [args if args is not None else ["http://x/1"], {"token": "tok123"}, {"callbacks": None, "chain": None}]
    headers = {
        "lang": "py", "task": "app.fetch", "id": task, "shadow": None, "eta": eta, "expires": None, "retries": 0,
        "timelimit": [None, None], "root_id": task, "argsrepr": "('http://x/1',)", "kwargsrepr": "{}",
    }  # fmt: skip
    properties = {
        "correlation_id": task, "delivery_mode": 2, "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": priority, "body_encoding": "base64", "delivery_tag": f"tag-{task}",
    }  # fmt: skip
    envelope = {
        "body": base64.b64encode(json.dumps(body).encode()).decode(), "content-encoding": "utf-8",
        "content-type": "application/json", "headers": headers, "properties": properties,
    }  # fmt: skip
    return json.dumps(envelope)


def bind(raw: redis.Redis, queue: str) -> None:
    """Write the binding of a queue."""
    raw.sadd(f"_kombu.binding.{queue}", f"{queue}\x06\x16\x06\x16{queue}")


def hold(raw: redis.Redis, task: str, *, ago_s: float = 5, eta: str | None = None, priority: int = 0) -> None:
    """Write a message that a worker was given."""
    held = [json.loads(message(task, eta=eta, priority=priority)), "", "celery"]
    raw.hset("unacked", f"tag-{task}", json.dumps(held))
    raw.zadd("unacked_index", {f"tag-{task}": time.time() - ago_s})


def result(raw: redis.Redis, task: str, status: str = "FAILURE", **more: Any) -> None:
    """Write the result of a task."""
    error = {"exc_type": "ConnectionError", "exc_message": ["502 from http://x/1?token=tok123"]}
    value = {
        "status": status, "result": error if status == "FAILURE" else 1, "traceback": "Traceback …",
        "children": [], "date_done": stamp(60), "name": "app.fetch", "args": ["http://x/1"],
        "kwargs": {"token": "tok123"}, "worker": "celery@host", "retries": 3, "queue": "celery", "task_id": task,
        **more,
    }  # fmt: skip
    stored = {key: one for key, one in value.items() if one != "absent"}
    raw.set(f"celery-task-meta-{task}", json.dumps(stored), ex=86_400)


def fill(raw: redis.Redis) -> None:
    """Write tasks of every state, stuck and broken ones too."""
    bind(raw, "celery")
    bind(raw, "celery-web")
    raw.sadd("_kombu.binding.celery.pidbox", "\x06\x16\x06\x16celery@host.celery.pidbox")
    raw.sadd("_kombu.binding.celeryev", "worker.#\x06\x16\x06\x16celeryev.1b4e")
    raw.lpush("celery", message("one"), message("two"), "no message", b"\xff\x00", "[1]", '{"headers": 5}')
    raw.lpush("celery\x06\x163", message("three", priority=3))
    raw.lpush("celery-web", message("same", "celery-web"), message("same", "celery-web"))
    hold(raw, "runs")
    hold(raw, "late", ago_s=9000)
    hold(raw, "urgent", ago_s=9000, priority=9)
    hold(raw, "later", ago_s=9000, eta=stamp(-3600))
    raw.hset("unacked", mapping={"odd": "{", "other": '[{}, "", 5]'})
    result(raw, "failed")
    result(raw, "plain", args="absent", kwargs="absent", name="absent", queue="absent")
    result(raw, "done", "SUCCESS")
    result(raw, "revoked", "REVOKED")
    result(raw, "again", "RETRY")
    raw.set("celery-task-meta-broken", "{")
    raw.hset("celery-task-meta-typed", "a", "b")
