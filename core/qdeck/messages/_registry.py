"""The registry of temporary queues, and the steps that answer and remove, as programs that either client runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.keys import MESSAGES
from qdeck._engine.stored_numbers import clamped, digits
from qdeck._errors import InvalidName, UsageError
from qdeck._queue_names import QueueName
from qdeck._redis import reads, scripts
from qdeck._redis.commands import Request, with_errors
from qdeck._redis.errors import UnknownScript, is_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Arg, Program, Script

TTL_S: Final = 3600.0
# In the order of the script.
_PARTS: Final = ("queues", "waiting", "about", "tasks", "callbacks", "removing", "metrics", "readers")
KEYS: Final = tuple(f"{MESSAGES}:{part}".encode() for part in _PARTS)
QUEUES, WAITING, ABOUT, TASKS, CALLBACKS, REMOVING, METRICS, READERS = KEYS
MOST_TASK: Final = 1000  # characters of a task's id
AT_ONCE: Final = 100  # names in one call, so that it does not block the server for long
UNREADABLE: Final = ("unreadable", "unknown", "-", "")  # service, type, tier and task of what cannot be read
ACT_MS: Final = 5_000  # how long a remover may act after its announcement


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporaryQueue:
    """A registered temporary queue.

    `exists` (there is a list: a queue is registered before anything is in it), `bytes` and `idle_s` only where they
    were requested and the rights allow it.
    """

    name: str
    service: str
    type: str
    tier: str
    task: str
    made_ms: int
    ttl_ms: int
    expires_ms: int
    waited_until_ms: int
    exists: bool | None = None
    bytes: int | None = None
    idle_s: int | None = None

    def is_waited_on(self, now_ms: int) -> bool:
        """Return whether a reader waits."""
        return self.waited_until_ms > now_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether its time to live is over, and no reader waits."""
        return self.expires_ms <= now_ms and not self.is_waited_on(now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeCycleCount:
    """The number of an event of temporary queues: made, cleaned, expired, orphaned, …; `freed` is bytes."""

    event: str
    service: str
    type: str
    tier: str
    count: int


def script(name: str) -> Script:
    return scripts.plain(f"messages/{name}")


def call(name: str, keys: Sequence[bytes], args: Sequence[Arg]) -> Program[Any]:
    """Run one script of temporary queues."""
    return scripts.run(script(name), keys, args)


def register(
    name: str, kind: str, service: str, *, task: str, tier: str, ttl_ms: int, wait_ms: int | None = None
) -> Program[int]:
    """Register a queue before it is created: return 1 for new, 0 for renewed, -1 when it is being removed."""
    args = registration(name, kind, service, task=task, tier=tier, ttl_ms=ttl_ms, wait_ms=wait_ms)
    made: int = yield from call("registry", KEYS, args)
    return made


def registration(
    name: str, kind: str, service: str, *, task: str, tier: str, ttl_ms: int, wait_ms: int | None = None
) -> list[Arg]:
    """Return the arguments of the script that registers a queue."""
    wait: Arg = "" if wait_ms is None else wait_ms
    if len(task) > MOST_TASK:
        raise UsageError(
            f"task id {task[:60] + '…'!r}: {len(task):,} characters",
            hint=f"A task id has at most {MOST_TASK:,} characters.",
        )
    return ["register", name, ttl_ms, wait, service, kind, _word(tier), task]


def unlink_and_finish(event: str, name: str) -> Program[None]:
    """Remove a temporary queue that its only reader has read or abandoned, and its registration."""
    registry = script("registry")
    args: list[Arg] = ["finish", event, name, 0, 0, "unknown unknown -"]
    try:
        yield Request(((b"UNLINK", name), registry.call(KEYS, args)), name.encode(), script=registry)
    except UnknownScript:
        yield from call("registry", KEYS, args)


def _word(text: str) -> str:
    text = text[:64]
    if text.isalnum():
        return text
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in text) or "-"


def touch(names: Sequence[str]) -> Program[int]:
    """Renew the time to live of queues."""
    found: int = yield from call("registry", KEYS, ["touch", *names])
    return found


_BEGUN: Final = ("in_use", "free", "being_removed")


def begin(names: Sequence[str]) -> Program[list[str]]:
    """Announce that queues are to be removed: `free`, `in_use` (a reader waits) or `being_removed` (by another)."""
    free: list[int] = []
    for start in range(0, len(names), AT_ONCE):
        free += yield from call("registry", KEYS, ["begin", ACT_MS, *names[start : start + AT_ONCE]])
    return [_BEGUN[answer] for answer in free]


def finish(event: str, gone: Sequence[tuple[str, int, int]], *, announced: bool = False) -> Program[list[bool]]:
    """Remove registrations, count the messages and bytes that went with them, and return which of them there were.

    `announced`: by a remover that began; what was registered again since, because it took too long, stays.
    """
    verb = "strike" if announced else "finish"
    struck: list[int] = []
    for start in range(0, len(gone), AT_ONCE):
        rows = [part for row in gone[start : start + AT_ONCE] for part in (*row, _group(row[0]))]
        struck += yield from call("registry", KEYS, [verb, event, *rows])
    return [one == 1 for one in struck]


def leave(names: Sequence[str]) -> Program[None]:
    """Record that the reader stopped waiting."""
    yield from call("registry", KEYS, ["leave", *names])


def _group(name: str) -> str:
    """Return service, type and tier of a queue that is not registered, as far as its name has them."""
    try:
        found = QueueName.parse(name)
    except InvalidName:
        parts = name.split(":")
        return f"{_word(parts[0])} {_word(parts[1])} {_word(parts[2])}" if len(parts) > 3 else "unknown unknown -"
    return f"{found.service} {found.type.value} -"


def count(event: str, service: str, kind: str, tier: str = "-") -> Program[None]:
    """Count what happened to a message."""
    # A counter that cannot be read stops nothing.
    yield with_errors((b"HINCRBY", METRICS, f"{event} {_word(service)} {kind} {_word(tier)}", 1), key=METRICS)


def keep(names: Sequence[str]) -> Program[None]:
    """Revoke the announcement that queues are to be removed."""
    if names:
        yield from call("registry", KEYS, ["keep", *names])


def expired(most: int) -> Program[list[str]]:
    """Return expired queues that no reader waits on."""
    found: list[bytes] = yield from call("registry", KEYS, ["expired", most])
    strange = [raw for raw in found if not raw.isascii()]
    if strange:
        # No queue has such a name: if they stayed, they would be read first each time.
        yield with_errors((b"ZREM", QUEUES, *strange), (b"HDEL", ABOUT, *strange), key=QUEUES)
    return [raw.decode() for raw in found if raw.isascii()]


def expired_from(start: int, most: int) -> Program[list[str]]:
    """Return names of expired queues, from a place on, by plain reads."""
    now = yield from reads.clock()
    found = yield (b"ZRANGEBYSCORE", QUEUES, b"-inf", now, b"LIMIT", start, most)
    return [raw.decode("utf-8", "replace") for raw in found]


def look(names: Sequence[str]) -> Program[list[tuple[bytes, int | None, int | None]]]:
    """Return type, idle seconds and bytes of keys, None where unknown. None of these reads counts as a use."""
    if not names:
        return []
    replies = yield with_errors(
        *(
            command
            for name in names
            for command in ((b"TYPE", name), (b"OBJECT", b"IDLETIME", name), (b"MEMORY", b"USAGE", name))
        ),
        key=names[0].encode(),
    )
    rows = zip(replies[::3], replies[1::3], replies[2::3], strict=True)
    return [(kind, *(one if isinstance(one, int) else None for one in numbers)) for kind, *numbers in rows]


def lengths(names: Sequence[str]) -> Program[list[int | None]]:
    """Return how many messages lists hold; None where to count them would be a use of them."""
    [info] = yield from reads.try_all([(b"CLIENT", b"INFO")])
    flags = [] if is_error(info) else [part[6:] for part in info.split() if part.startswith(b"flags=")]
    if not any(b"T" in one for one in flags):  # a server before 7.2, or no right to NO-TOUCH
        return [None] * len(names)
    sizes = yield from reads.try_all([(b"LLEN", name) for name in names])
    return [None if is_error(size) else int(size) for size in sizes]


def answer(queue: str, sender_id: str, message: bytes, *, ttl_ms: int, deadline_ms: int | None) -> Program[str]:
    """Put a message on a temporary queue, once for each sender: `sent`, `again` or `late`."""
    keys = (queue.encode(), f"{{{queue}}}:once:{sender_id}".encode())
    args: list[Arg] = ["" if deadline_ms is None else deadline_ms, ttl_ms, message]
    reply: bytes = yield from call("answer", keys, args)
    return reply.decode()


def raw_task(task: str) -> bytes:
    """Return the id of a task as bytes, or raise `UsageError` for one that no service can have given."""
    try:
        return task.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"no task has the id {task!r}: it is not UTF-8", hint="Give an id as services do.") from error


def of_task(task: str, most: int = 1000) -> Program[list[str]]:
    """Return the names of the queues that are registered to a task."""
    head = raw_task(task) + b"\0"
    first, last, names = b"[" + head, b"[" + head + b"\xff", list[str]()
    while True:
        found = yield (b"ZRANGEBYLEX", TASKS, first, last, b"LIMIT", 0, most)
        # What has the mark twice is another task's, whose id goes on after ours.
        texts = (raw.removeprefix(head).decode("utf-8", "replace") for raw in found)
        names += [name for name in texts if "\0" not in name]
        if len(found) < most or len(names) >= most:
            return names[:most]
        first = b"(" + found[-1]


def callbacks_of(prefix: str, most: int = 1000, after: str = "") -> Program[list[str]]:
    """Return the registered callback queues whose names start so."""
    first = f"({after}" if after else f"[{prefix}"
    last = f"[{prefix}\xff"
    found = yield (b"ZRANGEBYLEX", CALLBACKS, first, last, b"LIMIT", 0, most)
    return [raw.decode("utf-8", "replace") for raw in found]


def describe(names: Sequence[str]) -> Program[list[TemporaryQueue | None]]:
    """Return the registrations of queues; None where there is none."""
    if not names:
        return []
    about, until, waiting = yield [
        (b"HMGET", ABOUT, *names),
        (b"ZMSCORE", QUEUES, *names),
        (b"ZMSCORE", WAITING, *names),
    ]
    return [_read(*row) for row in zip(names, about, until, waiting, strict=True)]


def _read(name: str, about: bytes | None, until: bytes | None, waiting: bytes | None) -> TemporaryQueue | None:
    if about is None:
        return None
    made, ttl, service, kind, tier, task = _words(about)
    return TemporaryQueue(
        name=name,
        service=service,
        type=kind,
        tier="" if tier == "-" else tier,
        task=task,
        made_ms=digits(made) or 0,
        ttl_ms=digits(ttl) or 0,
        expires_ms=clamped(until or 0),
        waited_until_ms=clamped(waiting or 0),
    )


def _words(about: bytes) -> list[str]:
    """Return the fields of a registration; of one that cannot be read only that it is there."""
    words = about.decode("utf-8", "replace").split(" ", 5)
    return words if len(words) == 6 and digits(words[0]) and digits(words[1]) else ["", "", *UNREADABLE]


def metrics() -> Program[list[LifeCycleCount]]:
    """Return what happened to temporary queues since the server was set up, per service, type and tier."""
    flat = yield (b"HGETALL", METRICS)
    found: list[LifeCycleCount] = []
    for field, raw in sorted(zip(flat[::2], flat[1::2], strict=True)):
        words, count = field.decode("utf-8", "replace").split(" ", 3), digits(raw)
        if len(words) == 4 and count is not None:
            event, service, kind, tier = words
            tier = "" if tier == "-" else tier
            found.append(LifeCycleCount(event=event, service=service, type=kind, tier=tier, count=count))
    return found
