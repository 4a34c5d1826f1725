"""Streams as the services of nooble4 write them, and topics as `Service` does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import redis

STREAM: Final = "nooble4:development:embedding:streams:main"
GROUP: Final = "embedding-group"
TOPIC: Final = "nooble4:dev:ingestion_service:notifications:document_processed"
WORKER: Final = "embedding-worker-0a1b2c3d4e5f"
OLD_MS: Final = 400_000


def action(name: str, **more: object) -> str:
    """A DomainAction, as the client puts it into the field `data`."""
    facts = {
        "action_id": name, "action_type": "embedding.generate_batch", "timestamp": "2026-11-18T05:00:00Z",
        "task_id": f"task-{name}", "correlation_id": f"c-{name}", "data": {"texts": ["a"]},
    }  # fmt: skip
    return json.dumps(facts | more)


def send(raw: redis.Redis, *names: str, stream: str = STREAM) -> list[bytes]:
    """Sends actions as the client does; returns the ids of the entries."""
    return [raw.xadd(stream, {"data": action(name)}) for name in names]  # type: ignore[misc]  # redis-py's own types


def take(raw: redis.Redis, consumer: str = WORKER, count: int = 1) -> None:
    """Takes actions as a worker does."""
    raw.xreadgroup(GROUP, consumer, {STREAM: ">"}, count=count)


def age(raw: redis.Redis, entry: bytes, *, deliveries: int = 1) -> None:
    """Makes an entry pending for so long that it is stuck."""
    raw.xclaim(STREAM, GROUP, WORKER, 0, [entry], idle=OLD_MS, retrycount=deliveries, justid=True)


def fill(raw: redis.Redis) -> None:
    """Entries of every state, and broken ones."""
    raw.xgroup_create(STREAM, GROUP, "0", mkstream=True)
    fresh, stuck, dead = send(raw, "fresh", "stuck", "dead")
    take(raw, count=3)
    age(raw, stuck)
    age(raw, dead, deliveries=3)
    assert fresh
    raw.xadd(STREAM, {"data": b"\xff not json", b"\xfe": "x"})
    raw.xadd(STREAM, {"password": "tok123", "user": "bob"})
    raw.xadd(STREAM, {"data": '{"action_id": "a", "error": {"message": "token=tok123"}}'})
    raw.xadd("nooble4:development:query:streams:main", {"data": action("not begun")})
    for topic in (TOPIC, f"{TOPIC}:nobody", "user_service:notifications:user_created"):
        raw.xadd(topic.replace("processed:nobody", "deleted"), {"data": action("event")})
    raw.xgroup_create(TOPIC, "search_service", "0")
    raw.xgroup_create(TOPIC, "audit_service", "0")
    raw.xreadgroup("audit_service", "host-1", {TOPIC: ">"})
    raw.xadd("an unnamed stream", {"x": "1"})
