"""Jobs as RQ 2 writes them, so that its queues can be tested without its workers."""

from __future__ import annotations

import base64
import pickle  # what RQ writes has to be made
import time
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

TRACEBACK: Final = """Traceback (most recent call last):
  File "/app/worker.py", line 1430, in perform_job
    rv = job.perform()
         ^^^^^^^^^^^^^
  File "/app/tasks.py", line 7, in fetch
    raise ConnectionError(f"502 from {url}?token=tok123")
ConnectionError: 502 from http://x/1?token=tok123
"""
REGISTRIES: Final = {
    "scheduled": "rq:scheduled", "deferred": "rq:deferred", "failed": "rq:failed", "finished": "rq:finished",
    "canceled": "rq:canceled", "started": "rq:wip",
}  # fmt: skip


def stamp(ago_s: float = 0) -> str:
    """Return a moment as RQ writes it."""
    return datetime.fromtimestamp(time.time() - ago_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def call(function: str, *args: Any, **kwargs: Any) -> bytes:
    """Return a call as RQ stores it."""
    return zlib.compress(pickle.dumps((function, None, args, kwargs), 5))


def put(raw: redis.Redis, queue: str, job: str, state: str, *, ago_s: float = 5, score: float | None = None) -> None:
    """Write a job in a state, with its record; `score` is that of its sorted set."""
    at, now = stamp(ago_s), time.time()
    began, ended = state in ("started", "failed", "finished"), state in ("failed", "finished")
    record: dict[Any, Any] = {
        "status": {"queued": "queued", "handover": "queued"}.get(state, state), "created_at": at, "enqueued_at": at,
        "started_at": at if began else "", "ended_at": at if ended else "", "last_heartbeat": "",
        "data": call("tasks.fetch", "http://x/1", token="tok123"), "origin": queue, "timeout": 180,
        "description": "tasks.fetch('http://x/1', token='tok123')", "worker_name": "w1" if began else "",
        "group_id": "", "success_callback_name": "",
    }  # fmt: skip
    raw.sadd("rq:queues", f"rq:queue:{queue}")
    raw.hset(f"rq:job:{job}", mapping=record)
    if state in ("queued", "handover"):
        raw.rpush(f"rq:queue:{queue}" + ":intermediate" * (state == "handover"), job)
    else:
        member = f"{job}:e1" if state == "started" else job
        at_s = {"scheduled": now + 3600, "started": now + 60, "failed": now + 31_536_000, "finished": now + 500}
        raw.zadd(f"{REGISTRIES[state]}:{queue}", {member: at_s.get(state, now) if score is None else score})
    if state == "started":
        raw.zadd(f"rq:executions:{job}", {"e1": now + 60})
        raw.hset(f"rq:execution:{job}:e1", mapping={"id": "e1", "created_at": at, "worker_name": "w1"})
    if state == "failed":
        packed = base64.b64encode(zlib.compress(TRACEBACK.encode())).decode()
        raw.xadd(f"rq:results:{job}", {"type": "2", "exc_string": packed, "worker_name": "w1"})


def work(raw: redis.Redis, worker: str, *queues: str, **more: str) -> None:
    """Register a worker, with the hash that is there while it lives."""
    said: dict[Any, Any] = {
        "state": "idle", "birth": stamp(100), "last_heartbeat": stamp(3), "queues": ",".join(queues), "pid": "77",
        "hostname": "host-1", "version": "2.12.0", "successful_job_count": "12", "failed_job_count": "3", **more,
    }  # fmt: skip
    raw.sadd("rq:workers", f"rq:worker:{worker}")
    raw.hset(f"rq:worker:{worker}", mapping=said)


def fill(raw: redis.Redis) -> None:
    """Write a job of every state, stuck and broken ones too."""
    for state in ("queued", "handover", *REGISTRIES):
        put(raw, "mail", f"{state}-1", state)
        put(raw, "mail", f"{state}-2", state, ago_s=9000)
    past = time.time() - 4000
    put(raw, "mail", "abandoned", "started", ago_s=9000, score=past)
    put(raw, "mail", "forever", "started", score=float("inf"))
    put(raw, "mail", "overdue", "scheduled", ago_s=9000, score=past)
    put(raw, "mail", "lost", "handover", ago_s=9000)
    raw.set("rq:queue:mail:intermediate:first_seen:lost", past)
    raw.rpush("rq:queue:mail", "no-record", b"\xff\x00")
    raw.zadd("rq:failed:mail", {"gone": 5, "typed": 6})
    raw.set("rq:job:typed", "no hash")
    put(raw, "mail", "parent", "finished")
    raw.sadd("rq:job:parent:dependents", "deferred-1")
    raw.sadd("rq:job::deferred-1:dependencies", "parent")
    raw.hset("rq:job:failed-2", mapping={"data": b"\x80\x05broken", "created_at": "tomorrow", "retries_left": "many"})
    raw.hset("rq:job:queued-2", "data", zlib.compress(b"\x80\x04N."))
    raw.sadd("rq:queues", "rq:queue:odd")
    raw.zadd("rq:queue:odd", {"a": 1})
