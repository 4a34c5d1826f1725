"""Keys of a native queue: one hash tag per queue keeps all of them in one slot of a cluster."""

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
WORKERS: Final = "qdeck:workers"  # hash: worker → its description (JSON)
TASKS: Final = "qdeck:tasks"  # hash: worker → the tasks it can run (JSON)
CONTROL: Final = "qdeck:control"  # hash: worker → `stop` or `quiet`, when requested
SCHEDULES: Final = "qdeck:schedules"  # hash: schedule → definition (JSON)
SCHEDULE_STATES: Final = "{qdeck:schedules}:state"  # hash: schedule → state of its runs; in the slot of the other
ACTIVITY: Final = "qdeck:activity"  # stream: operations
MESSAGES: Final = "{qdeck:messages}"  # tag of the keys of temporary queues
MAINTENANCE_TASKS: Final = ("maintain", "history", "clean", "health", "purge")  # `qdeck:agent:{qdeck:<task>}`
UNDO: Final = "qdeck:undo"  # hash: batch → its record (JSON)


def key(queue: str, part: str) -> bytes:
    """Return the key of one part of a queue; `part` is the word that scripts use (`dead`, not `dead_letter`)."""
    return f"{{{queue}}}:{PARTS[part][0]}".encode()


def undo_key(queue: str, batch: str) -> bytes:
    """Return the key that keeps the undo of a batch in a queue."""
    return key(queue, "undo") + b":" + batch.encode()


def part_type(part: str) -> str:
    """Return the type that the key of a part has on the server."""
    return PARTS[part][1]
