"""Data of VMPooler as the document on queue reliability writes it, by plain redis-py calls."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import redis

# The document's errors of a configuration; the manager's table has both patterns and classes.
PERMANENT: Final = (
    ("StandardError", "template does not exist"),
    ("RuntimeError", "Template centos-7-v1 not found"),
    ("RuntimeError", "invalid datastore path"),
    ("RuntimeError", "folder vms not found"),
    ("RuntimeError", "datastore ds1 not found"),
    ("RuntimeError", "resource pool rp1 not found"),
    ("RuntimeError", "permission was denied"),
    ("RuntimeError", "Authentication to vcenter failed"),
    ("RuntimeError", "invalid vcenter credentials"),
    ("RuntimeError", "configuration has an error"),
    ("ArgumentError", "wrong number of arguments"),
    ("NoMethodError", "undefined method `clone'"),
    ("NameError", "uninitialized constant"),
)
TRANSIENT: Final = (
    ("RuntimeError", "network timeout talking to vcenter"),
    ("Timeout", "no ssh after 15 min"),
    ("SocketError", "unreachable"),
    ("RuntimeError", "VM became unreachable in ready queue"),
)


def zulu(at: float) -> str:
    """A moment as the document writes it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(vm: str, at: float, **facts: object) -> dict[str, object]:
    """A dead-letter entry of the document, field by field."""
    return {
        "vm": vm, "pool": "centos-7", "queue_from": "pending", "error_class": "StandardError",
        "error_message": "template does not exist", "failed_at": zulu(at), "retry_count": 3,
        "request_id": "req-123456", "pool_alias": "centos-7", **facts,
    }  # fmt: skip


def dead(raw: redis.Redis, kind: str, vm: str, ago_s: int = 60, **facts: object) -> str:
    """Adds an entry to a dead-letter queue, scored by the failure's timestamp; returns its member."""
    at = int(time.time()) - ago_s
    member = json.dumps(entry(vm, at, **facts))
    raw.zadd(f"vmpooler__dlq__{kind}", {member: at})
    return member


def request(raw: redis.Redis, name: str = "req-123456", **fields: str) -> None:
    """A request in progress."""
    for field, value in {"requested": "centos-7:centos-7:20", **fields}.items():
        raw.hset(f"vmpooler__odrequest__{name}", field, value)
    raw.zadd("vmpooler__provisioning__processing", {name: int(time.time()) - 60})
