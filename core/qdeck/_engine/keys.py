"""Names of the keys of a native queue: one hash tag per queue, so that all of it lives in one slot of a cluster."""

from __future__ import annotations

from typing import Final

LAYOUT: Final = "2"  # of what is written under these keys: field `v` of `meta`

# part → (name in a script's `keys:` line, type on the server)
PARTS: Final[dict[str, tuple[str, str]]] = {
    "meta": ("meta", "hash"),
    "ready": ("ready", "zset"),
    "delayed": ("delayed", "zset"),
    "blocked": ("blocked", "zset"),
    "running": ("running", "zset"),
    "dead": ("dead_letter", "zset"),
    "done": ("done", "zset"),
    "cancelled": ("cancelled", "zset"),
    "removed": ("removed", "zset"),
    "head": ("head", "hash"),
    "body": ("body", "hash"),
    "lease": ("lease", "hash"),
    "attempts": ("attempts", "hash"),
    "error": ("error", "hash"),
    "result": ("result", "hash"),
    "log": ("log", "hash"),
    "claims": ("claims", "hash"),
    "unique": ("unique", "hash"),
    "groups": ("groups", "hash"),
    "after": ("after", "hash"),
    "unknown_tasks": ("unknown_tasks", "zset"),
    "wakeup": ("wakeup", "list"),
    "outbox": ("outbox", "stream"),
    "quarantine": ("quarantine", "stream"),
    "stop_requests": ("stop_requests", "stream"),
    "last_run": ("last_run", "hash"),
    "undo": ("undo", "hash"),  # one for each batch: `{queue}:undo:<batch>`
}

QUEUES: Final = "qdeck:queues"  # hash: queue → ms registered
WORKERS: Final = "qdeck:workers"  # hash: worker → what it says about itself (JSON)
TASKS: Final = "qdeck:tasks"  # hash: worker → the tasks it can run (JSON)
CONTROL: Final = "qdeck:control"  # hash: worker → what it is asked to do
ACTIVITY: Final = "qdeck:activity"  # stream: what operators did
MESSAGES: Final = "{qdeck:messages}"  # tag of the keys of temporary queues
MAINTENANCE_TASKS: Final = ("maintain", "history", "clean", "health", "purge")  # `qdeck:agent:{qdeck:<task>}`
UNDO: Final = "qdeck:undo"  # hash: batch → what can be undone until when (JSON)


def key(queue: str, part: str) -> bytes:
    """The key of one part of a queue; `part` is the word that scripts use (`dead`, not `dead_letter`)."""
    return f"{{{queue}}}:{PARTS[part][0]}".encode()


def undo_key(queue: str, batch: str) -> bytes:
    """The key of what a batch took from a queue."""
    return key(queue, "undo") + b":" + batch.encode()


def part_type(part: str) -> str:
    """The type that the key of a part has on the server."""
    return PARTS[part][1]
