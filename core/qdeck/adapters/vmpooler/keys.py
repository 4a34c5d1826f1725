"""The names of VMPooler's keys, and the formats of its strings."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from qdeck._engine import codec
from qdeck._engine.stored_numbers import digits
from qdeck._redis.commands import raw_of, text_of
from qdeck._settings.model import AdapterSettings
from qdeck.adapters.model import short

POOLS: Final = b"vmpooler__pools"
REQUESTS: Final = b"vmpooler__provisioning__request"
PROCESSING: Final = b"vmpooler__provisioning__processing"
CREATE: Final = b"vmpooler__odcreate__task"
HEALTH: Final = b"vmpooler__health"
TASKS: Final = MappingProxyType(
    {
        "tasks:disk": b"vmpooler__tasks__disk",
        "tasks:snapshot": b"vmpooler__tasks__snapshot",
        "tasks:snapshot-revert": b"vmpooler__tasks__snapshot-revert",
    }
)
DEAD: Final = MappingProxyType(
    {kind: b"vmpooler__dlq__" + kind.encode() for kind in ("pending", "clone", "ready", "tasks")}
)
REQUEST_QUEUE: Final = "requests:on-demand"
CREATE_QUEUE: Final = "tasks:create"
# Sets of a pool, and which one says where a VM is when it is in several: a checkout puts it into two.
SETS: Final = ("running", "migrating", "ready", "pending", "completed", "discovered")
FIELDS: Final = (
    "clone", "template", "pool", "domain", "request_id", "pool_alias", "clone_time", "ip", "clone_error",
    "clone_error_class", "timeout_notification", "open_socket_error", "ready", "check", "checkout", "token:token",
    "token:user", "lifetime", "user_tagged", "destroy", "disk", "host", "migrated",
)  # fmt: skip
MOST_TOGETHER: Final = 20  # VMs that one task of a request may ask for again
_PERMANENT_CLASSES: Final = ("ArgumentError", "NoMethodError", "NameError")
_PERMANENT_MESSAGE: Final = re.compile(
    r"template.*(?:not found|does not exist)|invalid.*path|(?:folder|datastore|resource pool).*not found"
    r"|permission.*denied|authentication.*failed|invalid.*credentials|configuration.*error",
    re.IGNORECASE,
)
_SET: Final = re.compile(rb"vmpooler__(?:running|migrating|ready|pending|completed|discovered)__(.+)", re.DOTALL)


class VmPoolerSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.vmpooler]`."""

    data_ttl: Annotated[int, msgspec.Meta(ge=1, le=87_600)] = 168
    """Hours for which the record of a VM or a request that has ended is kept: `data_ttl` of the manager."""


def pool_key(state: str, pool: str) -> bytes:
    """Return the set of a pool's VMs in a state."""
    return raw_of(f"vmpooler__{state}__{pool}")


def vm_key(vm: bytes) -> bytes:
    """Return the hash of a VM."""
    return b"vmpooler__vm__" + vm


def request_key(request: bytes) -> bytes:
    """Return the hash of a request."""
    return b"vmpooler__odrequest__" + request


def active_key(pool: str) -> bytes:
    """Return the hash with the time at which each VM of a pool was checked out."""
    return raw_of(f"vmpooler__active__{pool}")


def group_of(name: bytes) -> str | None:
    """Return the group of a key that a scan found."""
    if found := _SET.fullmatch(name):
        return f"pool {text_of(found[1])}"
    if name.startswith(b"vmpooler__vm__"):
        return "vms"
    return "requests" if name.startswith(b"vmpooler__odrequest__") else None


class Letter(msgspec.Struct, frozen=True):
    """A decoded dead letter; `facts` is its JSON, empty if there is none."""

    vm: str
    facts: dict[str, Any]
    problem: str | None = None


def read_letter(member: bytes) -> Letter:
    """Decode a member of a dead-letter set: `vm:seconds:json`, or JSON alone."""
    facts = json_object(member)
    if facts is None:
        vm, _, rest = text_of(member).partition(":")
        stamp, _, text = rest.partition(":")
        facts = json_object(raw_of(text)) if vm and stamp.isdigit() else None
        if facts is not None:
            return Letter(str(facts.get("vm") or vm), facts)
        return Letter(short(member), {}, "it is neither `vm:seconds:json` nor JSON")
    named = facts.get("vm")
    if isinstance(named, str) and named:
        return Letter(named, facts)
    return Letter(short(member), facts, "it does not name a VM")


def is_permanent(error: object, message: object) -> bool:
    """Return whether the manager would not try again after this error, by its own table (`permanent_error?`)."""
    if not isinstance(error, str) or not isinstance(message, str):
        return False
    return error in _PERMANENT_CLASSES or _PERMANENT_MESSAGE.search(message) is not None


def kind_of(word: str) -> str:
    """Return the kind of dead letters that a word names: itself, with `dlq:`, or as its key; empty for none."""
    kind = word.removeprefix("vmpooler__dlq__").removeprefix("dlq:")
    return kind if kind in DEAD else ""


def filter_of_key(key: str) -> tuple[str, str] | None:
    """Return the queue and the filter for the entries of a key; the dead letters of a kind are of several queues."""
    if key.startswith(("dlq:", "vmpooler__dlq__")):
        return ("", f'tag:"{kind_tag(kind)}"') if (kind := kind_of(key)) else None
    if found := _SET.fullmatch(raw_of(key)):
        return text_of(found[1]), f"state:{key.split('__')[1]}"
    keys = {REQUESTS: (REQUEST_QUEUE, "state:ready"), PROCESSING: (REQUEST_QUEUE, "state:running")}
    keys |= {CREATE: (CREATE_QUEUE, "state:ready"), **{one: (queue, "state:ready") for queue, one in TASKS.items()}}
    return keys.get(raw_of(key))


def kind_tag(kind: str) -> str:
    """Return the tag of the dead letters of a kind."""
    return f"kind:{kind}"


def task_items(value: bytes) -> list[bytes]:
    """Return the failed tasks of one type: the items of a JSON list, each as it is written; other text is one."""
    try:
        return [bytes(item) for item in msgspec.json.decode(value, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [value]


def json_object(raw: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None for other bytes."""
    try:
        value = codec.decode_json(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class VmTask(msgspec.Struct, frozen=True):
    """A task of a request: a number of VMs of a pool, under an alias."""

    alias: str
    pool: str
    count: int
    request: str


def read_task(member: bytes) -> VmTask | None:
    """Decode `alias:pool:count:request`; the request comes from users and may contain colons."""
    parts = text_of(member).split(":", 3)
    count = digits(parts[2]) if len(parts) == 4 else None
    return None if count is None else VmTask(parts[0], parts[1], count, parts[3])
