"""Jobs as Sidekiq writes them, so that its queues can be tested without its processes."""

from __future__ import annotations

import base64
import json
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

RECORDED: Final = Path(__file__).parent / "sidekiq-8.1.7.json"


def job(jid: str, queue: str = "default", **more: Any) -> str:
    """Return a job as Sidekiq 7 writes it."""
    at = time.time() - 600
    value = {
        "retry": True, "queue": queue, "class": "HardJob", "args": ["x", {"token": "tok123"}], "jid": jid,
        "created_at": at, "enqueued_at": at, **more,
    }  # fmt: skip
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def failed(jid: str, **more: Any) -> str:
    """Return a job that failed."""
    lines = base64.b64encode(zlib.compress(json.dumps(["app/hard_job.rb:7:in 'perform'", "lib/x.rb:3"]).encode()))
    facts = {
        "error_class": "Net::ReadTimeout", "error_message": "no answer ✗ token=tok123", "failed_at": time.time() - 300,
        "retry_count": 24, "error_backtrace": lines.decode(), **more,
    }  # fmt: skip
    return job(jid, **facts)


def process(raw: redis.Redis, name: str, *queues: str, **running: str) -> None:
    """Write a process that lives, and what it runs: a thread and its job each."""
    info = {"hostname": "web-1", "pid": 7, "concurrency": 5, "queues": queues, "started_at": time.time() - 900}
    said: dict[Any, Any] = {"info": json.dumps(info), "busy": len(running), "beat": time.time() - 2, "quiet": "false"}
    raw.sadd("processes", name)
    raw.hset(name, mapping=said | {"rss": 120_000})
    for thread, queued in running.items():
        value = {"queue": json.loads(queued)["queue"], "payload": queued, "run_at": int(time.time()) - 20}
        raw.hset(f"{name}:work", thread, json.dumps(value))


def fill(raw: redis.Redis) -> None:
    """Write jobs of every state, broken ones too."""
    now = time.time()
    raw.sadd("queues", "default", "low")
    raw.lpush("queue:default", job("w1"), job("w2"), job("w2"), "no json", b"\xff\x00", "[]", '{"jid":5}')
    raw.lpush("queue:low", job("l1", "low"))
    raw.zadd("schedule", {job("s1"): now + 3600, job("s2"): now - 3600, '{"jid":"odd"}': now + 60})
    raw.zadd("retry", {failed("r1", retry_count=0): now + 60, failed("r2", retry_count=3): now - 10})
    raw.zadd("dead", {failed("d1"): now - 60, failed("d2"): now - 60, failed("d3", bid="b1"): now - 9000, "{": 5})
    raw.zadd("dead", {job("plain", wrapped="MailJob", error_class=7): float("inf")})
    process(raw, "web-1:7:0e1998734eaa", "default", "low", t1=job("run1"), t2=job("run2", "low"))
    raw.hset("web-1:7:0e1998734eaa:work", "t3", "{")
    raw.sadd("processes", "web-2:9:5d1f0c7a9b3e")  # killed


def load(raw: redis.Redis) -> None:
    """Put what a real Sidekiq 8 left into a server."""
    decode = base64.b64decode
    for one in json.loads(RECORDED.read_text())["keys"]:
        key, value = decode(one["key"]), one["value"]
        if one["type"] == "string":
            raw.set(key, decode(value))
        elif one["type"] == "set":
            raw.sadd(key, *map(decode, value))
        elif one["type"] == "zset":
            raw.zadd(key, {decode(member): score for member, score in value})
        else:
            raw.hset(key, mapping={decode(name): decode(text) for name, text in value})
