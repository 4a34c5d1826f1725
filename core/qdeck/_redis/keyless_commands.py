"""Commands without a key on a cluster: one reply for all servers, and walks through them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from redis.crc import key_slot
from redis.exceptions import ResponseError

from qdeck._redis.commands import raw_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.address import Node
    from qdeck._redis.commands import Command


class KeylessScope(Enum):
    """Which servers of a cluster get a command without a key."""

    HOME = "home"  # one server, and always the same one: that of the keys which are sent with it, if any are
    ALL = "all"  # every server that has keys
    WALK = "walk"  # one server after the other


_SUMS: Final = frozenset(
    {"used_memory", "connected_clients", "blocked_clients", "instantaneous_ops_per_sec", "total_commands_processed"}
)
_LEAST: Final = frozenset({"uptime_in_seconds", "aof_enabled", "connected_slaves"})
_MOST: Final = frozenset({"loading", "async_loading", "evicted_keys", "mem_fragmentation_ratio"})
_GOOD: Final = {
    "rdb_last_bgsave_status": "ok", "aof_last_write_status": "ok", "aof_last_bgrewrite_status": "ok",
    "maxmemory_policy": "noeviction", "master_link_status": "up",
}  # fmt: skip
_LIMIT: Final = "maxmemory"


_PLACES: Final = {
    b"SCAN": KeylessScope.WALK, b"INFO": KeylessScope.ALL, b"SCRIPT": KeylessScope.ALL,
} | dict.fromkeys(
    (b"TIME", b"HELLO", b"PING", b"CONFIG", b"ACL", b"CLIENT", b"COMMAND", b"DBSIZE", b"ROLE", b"LATENCY", b"SLOWLOG",
     b"CLUSTER", b"WAIT", b"WAITAOF"),
    KeylessScope.HOME,
)  # fmt: skip
_SECOND: Final = frozenset({b"OBJECT", b"MEMORY", b"XINFO", b"XGROUP"})
_COUNTED: Final = frozenset({b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"})
_STREAMS: Final = frozenset({b"XREAD", b"XREADGROUP"})


def place_of(command: Command) -> int | KeylessScope:
    """Return the slot of a command, or the servers that get it."""
    name = raw_of(command[0]).upper()
    if name in _PLACES:
        return _PLACES[name]
    if name in _COUNTED:
        return key_slot(raw_of(command[3])) if len(command) > 3 and int(command[2]) else KeylessScope.HOME
    if name in _STREAMS:
        words = [raw_of(word).upper() for word in command]
        return key_slot(raw_of(command[words.index(b"STREAMS") + 1]))
    first = 2 if name in _SECOND else 1
    return key_slot(raw_of(command[first])) if len(command) > first else KeylessScope.HOME


def together(command: Command, replies: Sequence[Any]) -> Any:
    """Return one reply for those of all servers."""
    good = [reply for reply in replies if not isinstance(reply, ResponseError)]
    if len(good) < len(replies) or not good:
        return next(reply for reply in replies if isinstance(reply, ResponseError)) if replies else None
    if command[0] == b"INFO":
        return _info(good)
    if isinstance(good[0], list):  # SCRIPT EXISTS: what one of them lacks is lacking
        return [min(flags) for flags in zip(*good, strict=True)]
    return good[0]


def _info(replies: Sequence[bytes]) -> bytes:
    """Return one INFO: amounts added up, the worst of states, the rest of the first server."""
    infos = [dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line) for text in replies]
    first = infos[0]
    for name in first:
        values = [info[name] for info in infos if name in info]
        if name in _GOOD:
            first[name] = next((value for value in values if value != _GOOD[name]), _GOOD[name])
        elif name == _LIMIT:
            first[name] = "0" if "0" in values else str(sum(map(int, values)))
        elif name in _SUMS and all(value.isdigit() for value in values):
            first[name] = str(sum(map(int, values)))
        elif name in _LEAST:
            first[name] = min(values, key=float)
        elif name in _MOST:
            first[name] = max(values, key=float)
    return "\r\n".join(f"{name}:{value}" for name, value in first.items()).encode()


def step(command: Command, masters: Sequence[Node]) -> tuple[Node, Command]:
    """Return the next server of a walk, and the command for it. Our cursors are `host:port/cursor`."""
    scan, given, *rest = command
    place, slash, cursor = raw_of(given).rpartition(b"/")
    node = _at_or_after(place.decode(), masters) if slash else masters[0]
    # A server without slots is being removed: the walk continues with the next one, from its beginning.
    plain = cursor if slash and str(node) == place.decode() else b"0"
    return node, (scan, plain, *rest)


def stepped(reply: Any, node: Node | None, masters: Sequence[Node]) -> Any:
    """Return the reply of a step, with the cursor of the next one: of the next server at the end of this one."""
    if node is None or isinstance(reply, ResponseError) or reply is None:
        return reply
    cursor, found = reply
    raw = cursor if isinstance(cursor, bytes) else b"%d" % cursor
    if raw != b"0":
        return [f"{node}/".encode() + raw, found]
    following = [other for other in masters if str(other) > str(node)]
    return [f"{following[0]}/0".encode() if following else b"0", found]


def _at_or_after(place: str, masters: Sequence[Node]) -> Node:
    return next((node for node in masters if str(node) >= place), masters[0])
