"""The processes of Sidekiq, each of which registers itself in a hash with a time to live, and what they run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.stored_numbers import integer, whole
from qdeck._model.payload import shown_text
from qdeck._model.values import WorkerRow
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import age_s
from qdeck.adapters.sidekiq import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.sidekiq.keys import SidekiqKeys

MOST: Final = 2_000
_FIELDS: Final = (b"info", b"busy", b"beat", b"quiet", b"rss")


def registered(keys: SidekiqKeys) -> Command:
    """Return the command that reads the names of the processes, including those that were killed."""
    return (b"SSCAN", keys.processes, b"0", b"COUNT", MOST)


def identities_in(reply: Any) -> list[bytes]:
    """Return the names in the reply to that command; none where it is an error."""
    return [] if is_error(reply) else sorted(set(reply[1]))


def identities(keys: SidekiqKeys) -> Program[list[bytes]]:
    """Read the names of the processes, including those that were killed."""
    [reply] = yield with_errors(registered(keys))
    return identities_in(reply)


def read(adapter: str, keys: SidekiqKeys, names: Sequence[bytes], now: int) -> Program[list[WorkerRow]]:
    """Read the processes of these names; one that is registered but has no hash was killed."""
    replies = (yield with_errors(*((b"HMGET", keys.process(name), *_FIELDS) for name in names))) if names else []
    return [
        WorkerRow(id=text_of(name), adapter=adapter, alive=True, state="unreadable")
        if is_error(said)
        else _row(adapter, name, said, now)
        for name, said in zip(names, replies, strict=True)
    ]


def _row(adapter: str, name: bytes, values: Sequence[bytes | None], now: int) -> WorkerRow:
    said = dict(zip(_FIELDS, values, strict=True))
    info: dict[str, Any] = jobs.read(said[b"info"]) or {}
    is_there = any(value is not None for value in values)
    beat = _seconds(said[b"beat"])
    memory = integer(said[b"rss"])
    queues = info.get("queues")
    weights = [one for one in queues if isinstance(one, str)] if isinstance(queues, list) else []
    return WorkerRow(
        id=text_of(name), adapter=adapter, alive=is_there,
        state=None if not is_there else "quiet" if said[b"quiet"] == b"true" else "running",
        host=shown_text(info.get("hostname")), pid=whole(info.get("pid")), version=shown_text(info.get("version")),
        queues=MappingProxyType(dict.fromkeys(weights, 1)), concurrency=whole(info.get("concurrency")),
        running=integer(said[b"busy"]), memory_bytes=None if memory is None else memory * 1024,
        started_ms=jobs.in_ms(info.get("started_at")), heartbeat_ms=beat, heartbeat_s=age_s(now, beat),
    )  # fmt: skip


def _seconds(raw: bytes | None) -> int | None:
    try:
        return jobs.in_ms(float(raw)) if raw is not None else None
    except ValueError:
        return None
