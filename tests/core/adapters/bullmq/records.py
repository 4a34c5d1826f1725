"""Jobs as BullMQ writes them, so that its queues can be tested without its workers."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis

P = "bull:post:"
EMITTED = (":events", ":marker", ":pc", ":id")  # how the names of keys end that an undo leaves
STACK = "TypeError: no route to x?token=tok123\n    at send (/app/mail.js:7:11)\n    at process (/app/w.js:3:5)"


def queue(raw: redis.Redis, name: str = "post", version: str = "5.81.5") -> None:
    """Write the hash of a queue."""
    raw.hset(f"bull:{name}:meta", mapping={"version": f"bullmq:{version}", "opts.maxLenEvents": "10000"})


def put(raw: redis.Redis, job: str, state: str, *, ago_ms: int = 5000, locked: bool = True, **more: Any) -> None:
    """Write a job in a state, with its record."""
    now = time.time_ns() // 1_000_000
    at = now - ago_ms
    record: dict[Any, Any] = {
        "name": "send", "data": json.dumps({"to": "a@b.c", "token": "tok123"}), "opts": '{"attempts":3}',
        "timestamp": at, "delay": 0, "priority": 0, **more,
    }  # fmt: skip
    if state in ("active", "failed", "completed"):
        record |= {"processedOn": at, "ats": 1}
    if state in ("failed", "completed"):
        record |= {"finishedOn": at, "atm": 1}
    if state == "failed":
        record |= {"failedReason": "no route to x?token=tok123", "stacktrace": json.dumps(["Error: old", STACK])}
    raw.hset(P + job, mapping=record)
    if state in ("wait", "paused", "active"):
        raw.lpush(P + state, job)
        if state == "active" and locked:
            raw.set(f"{P}{job}:lock", "token", px=30_000)
    else:
        rank = {"delayed": (now + 60_000) * 4096, "prioritized": int(record["priority"]) * 2**32 + 1}
        raw.zadd(P + state, {job: rank.get(state, at)})


def fill(raw: redis.Redis) -> None:
    """Write a job of every state, stuck and broken ones too."""
    queue(raw)
    for state in ("wait", "active", "delayed", "failed", "completed", "waiting-children"):
        put(raw, f"{state}-1", state)
        put(raw, f"{state}-2", state, ago_ms=9_000_000)
    put(raw, "urgent", "prioritized", priority=3)
    put(raw, "lost", "active", ago_ms=9_000_000, locked=False)
    raw.sadd(P + "stalled", "lost")
    put(raw, "lost-urgent", "active", ago_ms=9_000_000, locked=False, priority=2)
    put(raw, "failed-urgent", "failed", priority=2)
    put(raw, "delayed-urgent", "delayed", priority=2)
    put(raw, "parent", "waiting-children")
    put(raw, "child", "failed", parentKey=P + "parent")
    raw.hset(P + "parent:failed", P + "child", "no route")
    put(raw, "child-2", "failed", parentKey=P + "parent")
    raw.zadd(P + "parent:unsuccessful", {P + "child-2": 5})
    put(raw, "scheduled", "delayed", rjk="every:1")
    put(raw, "single", "wait", deid="one")
    raw.set(P + "de:one", "single")
    put(raw, "logged", "completed")
    raw.rpush(P + "logged:logs", "a line", "another")
    raw.lpush(P + "wait", "no-record", b"\xff\x00")
    raw.zadd(P + "failed", {"gone": 5, "typed": 6})
    raw.set(P + "typed", "no hash")
    raw.hset(
        P + "failed-2", mapping={"stacktrace": "[", "timestamp": "tomorrow", "atm": "many", "failedReason": b"\xff"}
    )
    raw.zadd(P + "delayed", {"far": float("inf")})
    raw.set("bull:post:marker:x", "1")
