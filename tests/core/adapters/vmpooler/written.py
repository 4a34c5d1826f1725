"""Data of VMPooler as the document on queue reliability writes it, by plain redis-py calls."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
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


def ruby(ago_s: float) -> str:
    """A moment as the manager writes it, in a zone of its own."""
    zone = timezone(timedelta(hours=-5))
    return datetime.fromtimestamp(time.time() - ago_s, zone).strftime("%Y-%m-%d %H:%M:%S %z")


def machine(raw: redis.Redis, state: str, name: str, pool: str, **fields: str) -> None:
    """A VM in a set of its pool, with its record."""
    raw.sadd(f"vmpooler__{state}__{pool}", name)
    for field, value in {"pool": pool, "template": pool, "domain": "example.com", **fields}.items():
        raw.hset(f"vmpooler__vm__{name}", field, value)


def request(raw: redis.Redis, name: str = "req-123456", **fields: str) -> None:
    """A request in progress."""
    for field, value in {"requested": "centos-7:centos-7:20", **fields}.items():
        raw.hset(f"vmpooler__odrequest__{name}", field, value)
    raw.zadd("vmpooler__provisioning__processing", {name: int(time.time()) - 60})


def populate(raw: redis.Redis) -> None:
    """An afternoon of a pool manager: something stuck, something old, something lost, and what failed."""
    raw.sadd("vmpooler__pools", "centos-7", "debian-12")
    of_request = {"request_id": "req-123456", "pool_alias": "debian"}
    for number in range(4):
        machine(raw, "ready", f"fine-otter{number}", "centos-7", clone=ruby(3600), ready=ruby(3000))
    machine(raw, "ready", "old-otter", "centos-7", clone=ruby(205_000), ready=ruby(200_000))
    silent = {"ready": ruby(8000), "open_socket_error": "Connection refused"}
    machine(raw, "ready", "silent-otter", "centos-7", clone=ruby(9000), **silent)
    for number in range(3):
        machine(raw, "pending", f"slow-heron{number}", "debian-12", clone=ruby(8000 + 1000 * number), **of_request)
    raw.sadd("vmpooler__pending__debian-12", "no-record")
    checkout = {"checkout": ruby(9000), "destroy": ruby(8000), "token:token": "abcdef"}
    machine(raw, "completed", "gone-fox", "centos-7", clone=ruby(200_000), **checkout)
    raw.hset("vmpooler__vm__orphan-owl", mapping={"clone": ruby(100_000), "pool": "centos-7"})
    request(raw, requested="debian:debian-12:4,centos-7:centos-7:2", retry_count="2")
    raw.hset("vmpooler__odrequest__req-lost", mapping={"requested": "centos-7:centos-7:1"})
    raw.hset("vmpooler__odrequest__req-failed", mapping={"requested": "centos-7:centos-7:1", "status": "failed"})
    raw.sadd("vmpooler__tasks__disk", "fine-otter0:10")
    for number in range(9):
        dead(raw, "clone", f"bad-{number}", 600 * number, error_message=f"template centos-7-v{number} does not exist")
    transient = {"error_class": "RuntimeError", "error_message": "network timeout", "pool": "debian-12"}
    for number in range(3):
        dead(raw, "clone", f"net-{number}", 100 + number, pool_alias="debian", **transient)
    late = {"error_class": "Timeout", "error_message": "no ssh after 15 min", "request_id": "req-gone"}
    dead(raw, "pending", "ancient", 10 * 86_400, **late)
    dead(raw, "ready", "lost-gull", 300, error_message="VM became unreachable in ready queue", request_id=None)
    full = {"error_class": "RuntimeError", "error_message": "no space left", "disk": "10"}
    raw.hset("vmpooler__dlq__tasks", "disk", json.dumps([entry("fine-otter1", time.time() - 500, **full)]))
