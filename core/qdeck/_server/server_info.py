"""The server's description of itself, from `HELLO` (which every user may send) and `INFO` (which some may not)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qdeck._model.values import AOF, NO_AOF, NOTHING, SNAPSHOTS, ServerInfo
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._redis.commands import Command

READ_SAVES: Final[Command] = (b"CONFIG", b"GET", b"save")
"""Whether snapshots are on: INFO does not report it, and CONFIG may be denied."""


def read_server(hello: Any, info: Any, saves: Any, address: str) -> ServerInfo:
    """Return the server as far as the replies describe it; `saves` is that of READ_SAVES."""
    said = _hello(hello)
    facts = info_fields(info)
    number = partial(info_number, facts)

    valkey = facts.get("valkey_version")
    name = facts.get("server_name") or ("valkey" if valkey else said.get("server"))
    if name is None and "redis_version" in facts:
        name = "redis"
    return ServerInfo(
        name=name,
        version=valkey or facts.get("redis_version") or said.get("version"),
        mode=facts.get("redis_mode") or facts.get("server_mode") or said.get("mode"),
        role=_role(facts.get("role") or said.get("role")),
        address=address,
        uptime_s=number("uptime_in_seconds"),
        clients=number("connected_clients"),
        memory_bytes=number("used_memory"),
        max_memory_bytes=number("maxmemory"),
        eviction=facts.get("maxmemory_policy"),
        persistence=_persistence(facts, saves),
        save_failed=_save_failed(facts),
        loading=None if "loading" not in facts else "1" in (facts["loading"], facts.get("async_loading")),
        commands_per_s=number("instantaneous_ops_per_sec"),
    )


def _role(word: str | None) -> str | None:
    return "replica" if word == "slave" else word


def _hello(reply: Any) -> dict[str, str]:
    if is_error(reply) or not isinstance(reply, list):
        return {}
    items = zip(reply[::2], reply[1::2], strict=False)
    return {name.decode(): value.decode() for name, value in items if isinstance(value, bytes)}


def info_fields(reply: Any) -> dict[str, str]:
    """Return the fields of a reply to INFO; none of an error."""
    if is_error(reply) or not isinstance(reply, bytes):
        return {}
    lines = reply.decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def info_number(facts: Mapping[str, str], name: str) -> int | None:
    """Return a field of INFO that is a whole number."""
    text = facts.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else None


def _persistence(facts: dict[str, str], saves: Any) -> str | None:
    if "aof_enabled" not in facts:
        return None
    if facts["aof_enabled"] == "1":
        return AOF
    if not isinstance(saves, list) or len(saves) != 2:
        return NO_AOF
    return SNAPSHOTS if saves[1] else NOTHING


def _save_failed(facts: dict[str, str]) -> bool | None:
    past_flows = [facts[name] for name in ("rdb_last_bgsave_status", "aof_last_write_status") if name in facts]
    return any(mark != "ok" for mark in past_flows) if past_flows else None
