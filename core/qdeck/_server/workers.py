"""Workers as they describe themselves, and requests to one to be quiet, to resume or to stop."""

from __future__ import annotations

import difflib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from qdeck._engine import codec, keys, stored_numbers
from qdeck._errors import InvalidOption, UsageError
from qdeck._model.values import QueueRef, WorkerRow
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, with_errors
from qdeck._redis.errors import is_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qdeck._redis.commands import Program

SILENT_MS: Final = 45_000  # a worker that was not heard of for so long is taken for gone
RESUME: Final = "resume"  # no request is what a worker that claims jobs has
ORDERS: Final = ("quiet", RESUME, "stop")


def list_workers(now_ms: int | None = None) -> Program[list[WorkerRow]]:
    """Return all workers, the living ones first, then by host and id."""
    now = now_ms if now_ms is not None else (yield from reads.clock())
    said = yield from reads.scan_hash(keys.WORKERS)
    requested = yield from reads.scan_hash(keys.CONTROL) if said else _nothing()
    rows = [read_worker(name, raw, requested.get(name), now) for name, raw in said.items() if name]
    return sorted(rows, key=lambda row: (not row.alive, row.host or "", row.id))


def _nothing() -> Program[dict[bytes, bytes]]:
    yield from ()
    return {}


def read_worker(name: bytes, raw: bytes, requested: bytes | None, now_ms: int) -> WorkerRow:
    """Return one worker from its description; what cannot be read is None."""
    try:
        said = codec.decode_json(raw)
    except (msgspec.DecodeError, ValueError):
        said = {}
    if not isinstance(said, dict):
        said = {}

    def number(field: str) -> int | None:
        return stored_numbers.whole(said.get(field))

    def word(field: str) -> str | None:
        value = said.get(field)
        return value if isinstance(value, str) else None

    seen, state = number("heartbeat_ms"), word("state")
    silent_ms = None if seen is None else max(0, now_ms - seen)
    return WorkerRow(
        id=name.decode("utf-8", "replace"),
        alive=silent_ms is not None and silent_ms < SILENT_MS and state != "stopped",
        state=state,
        requested=requested.decode("utf-8", "replace") if requested else None,
        host=word("host"),
        pid=number("pid"),
        version=word("version"),
        queues=MappingProxyType(_queues(said.get("queues"))),
        concurrency=number("concurrency"),
        running=number("running"),
        done=number("done"),
        failed=number("failed"),
        stuck_handlers=number("stuck_handlers"),
        memory_bytes=number("rss"),
        started_ms=number("started_ms"),
        heartbeat_ms=seen,
        heartbeat_s=None if silent_ms is None else silent_ms / 1000,
    )


def _queues(said: Any) -> dict[str, int]:
    if isinstance(said, dict):
        return {str(name): stored_numbers.whole(weight) or 1 for name, weight in said.items()}
    return {str(name): 1 for name in said} if isinstance(said, list) else {}


def read_alive(names: Sequence[str], now_ms: int) -> Program[dict[str, bool]]:
    """Return which of these workers are alive; nothing if workers may not be read."""
    [reply] = yield with_errors((b"HMGET", keys.WORKERS, *map(raw_of, names)))
    if is_error(reply):
        return {}
    said = zip(names, reply, strict=True)
    return {name: raw is not None and read_worker(b"", raw, None, now_ms).alive for name, raw in said}


def read_tasks(names: Sequence[str]) -> Program[dict[str, frozenset[str]]]:
    """Return the tasks of these workers, as far as they published them."""
    if not names:
        return {}
    [reply] = yield from reads.try_all([(b"HMGET", keys.TASKS, *names)])
    if is_error(reply):
        return {}
    found = {}
    for name, raw in zip(names, reply, strict=True):
        try:
            said = codec.decode_json(raw) if raw else ()
        except (msgspec.DecodeError, ValueError):
            continue
        if isinstance(said, list):
            found[name] = frozenset(task for task in said if isinstance(task, str))
    return found


def by_queue(rows: Iterable[WorkerRow]) -> dict[str, int]:
    """Return how many workers claim jobs of each queue."""
    found: dict[str, int] = {}
    for row in rows:
        if row.is_claiming:
            for queue in row.queues:
                found[queue] = found.get(queue, 0) + 1
    return found


def served_only_by(worker: str, rows: Iterable[WorkerRow]) -> list[QueueRef]:
    """Return the queues of a worker of which no other worker claims jobs, whether it claims them itself or not."""
    known = list(rows)
    others = {
        QueueRef(row.adapter, name) for row in known if row.is_claiming and row.id != worker for name in row.queues
    }
    own = (QueueRef(row.adapter, name) for row in known if row.id == worker for name in row.queues)
    return [queue for queue in own if queue not in others]


def order(worker: str, what: str) -> Program[None]:
    """Request a worker to be quiet (finish its jobs, claim no more), to resume from that, or to stop."""
    if what not in ORDERS:
        raise InvalidOption(f"a worker cannot be asked to {what!r}", hint=f"Use one of: {', '.join(ORDERS)}")
    there = yield (b"HEXISTS", keys.WORKERS, worker)
    if not there:
        known = [name.decode("utf-8", "replace") for name in (yield from reads.scan_hash(keys.WORKERS))]
        near = difflib.get_close_matches(worker, known, 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Run qdeck workers to list them."
        raise UsageError(f"there is no worker {worker!r}", hint=hint)
    if what != RESUME:
        yield (b"HSET", keys.CONTROL, worker, what)
    elif (yield (b"HGET", keys.CONTROL, worker)) == b"stop":
        raise InvalidOption(f"worker {worker!r} was asked to stop", hint="Start another worker.")
    else:
        yield (b"HDEL", keys.CONTROL, worker)
