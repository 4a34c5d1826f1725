"""The workers of RQ, each of which registers itself in a hash with a time to live."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.stored_numbers import digits
from qdeck._model.values import WorkerRow
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.model import age_s
from qdeck.adapters.rq.keys import WORKERS
from qdeck.adapters.times import read_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program

MOST_WORKERS: Final = 2_000
_PREFIX: Final = b"rq:worker:"
_FIELDS: Final = (
    b"state", b"current_job", b"birth", b"last_heartbeat", b"queues", b"pid", b"hostname", b"version", b"death",
    b"successful_job_count", b"failed_job_count",
)  # fmt: skip


def read(adapter: str, now: int) -> Program[list[WorkerRow]]:
    """Read the workers; one that is registered but has no hash was killed."""
    [reply] = yield with_errors((b"SSCAN", WORKERS, b"0", b"COUNT", MOST_WORKERS))
    keys = [] if is_error(reply) else sorted({one for one in reply[1] if one.startswith(_PREFIX)})
    replies = (yield with_errors(*((b"HMGET", key, *_FIELDS) for key in keys))) if keys else []
    return [
        WorkerRow(id=text_of(key.removeprefix(_PREFIX)), adapter=adapter, alive=True, state="unreadable")
        if is_error(said)
        else _row(adapter, key, said, now)
        for key, said in zip(keys, replies, strict=True)
    ]


def _row(adapter: str, key: bytes, values: Sequence[bytes | None], now: int) -> WorkerRow:
    said: dict[bytes, bytes] = {name: value or b"" for name, value in zip(_FIELDS, values, strict=True)}
    heartbeat, is_there = read_ms(said[b"last_heartbeat"] or None), any(value is not None for value in values)
    state = text_of(said[b"state"]) or None
    queues = [name for name in text_of(said[b"queues"]).split(",") if name]
    done, failed = digits(said[b"successful_job_count"]), digits(said[b"failed_job_count"])
    facts: dict[str, Any] = {"done": done or 0, "failed": failed or 0} if is_there else {}
    return WorkerRow(
        id=text_of(key.removeprefix(_PREFIX)), adapter=adapter, alive=is_there and not said[b"death"], state=state,
        host=text_of(said[b"hostname"]) or None, pid=digits(said[b"pid"]), version=text_of(said[b"version"]) or None,
        queues=MappingProxyType(dict.fromkeys(queues, 1)), concurrency=1 if is_there else None,
        running=int(bool(said[b"current_job"])) if is_there else None, started_ms=read_ms(said[b"birth"] or None),
        heartbeat_ms=heartbeat, heartbeat_s=age_s(now, heartbeat), **facts,
    )  # fmt: skip
