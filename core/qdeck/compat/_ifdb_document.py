"""Native tasks as records of the migration plan's keys: what its commands read, and what a rollback writes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, keys
from qdeck._errors import QdeckError
from qdeck._redis import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from qdeck import App
    from qdeck._redis.commands import Command, Program
    from qdeck._schedules.model import Definition

QUEUE_KEY: Final = "ifdb:task_queue"
DATA_KEY: Final = "ifdb:task_data"
PENDING: Final = ("running", "ready", "delayed", "blocked")
_STATES: Final = (*PENDING, "done", "dead", "cancelled")
_PAGE: Final = 200
_BAND: Final = 1_000_000
_DEFAULT_MINUTES: Final = 2000


def records(queue: str, ids: Sequence[str]) -> Program[list[dict[str, Any] | None]]:
    """Return these tasks as records; None for one that is gone or cannot be read."""
    scores: list[Command] = [(b"ZMSCORE", keys.key(queue, state), *ids) for state in _STATES]
    parts: list[Command] = [
        (b"HMGET", keys.key(queue, part), *ids) for part in ("head", "body", "attempts", "log", "error")
    ]
    parts.append((b"HMGET", keys.key(queue, "after"), *(f"<{job_id}" for job_id in ids)))
    found = yield scores + parts
    places, (heads, bodies, attempts, logs, errors, waits) = found[: len(_STATES)], found[len(_STATES) :]
    made = []
    for at, job_id in enumerate(ids):
        state = next(((name, row[at]) for name, row in zip(_STATES, places, strict=True) if row[at] is not None), None)
        values = (heads[at], bodies[at], attempts[at], logs[at], waits[at], errors[at])
        made.append(None if state is None or heads[at] is None else _record(job_id, state, values))
    return made


def _record(job_id: str, place: tuple[str, bytes], values: tuple[bytes | None, ...]) -> dict[str, Any] | None:
    head_raw, body, attempts, log, waits, error = values
    state, score = place
    dependency = None if waits is None else waits.decode().split(" ")[0].partition("@")[0]
    events = codec.read_events(error)
    if state == "dead" and events and events[-1].kind == "dependency":  # there it waits
        state, dependency = "blocked", str(events[-1].data.get("on", "")).partition("@")[0]
    try:
        head = codec.read_head(head_raw or b"")
        args, kwargs = codec.decode_call(body or b"[[],{}]")
    except (QdeckError, ValueError):
        return None
    failed = int((attempts or b"0").split(b" ")[0])
    ended_ms = float(score) if state in ("done", "dead", "cancelled") else None
    return _call(head.task, head.on_failure) | {
        "id": job_id, "name": head.name or head.task, "args": args, "kwargs": kwargs, "priority": head.priority,
        "retries_left": max(0 if state == "dead" else 1, head.retries + 1 - failed),
        "retry_minutes": _minutes(head.backoff), "cron": None, "enqueue_time": _iso(head.enqueued_ms),
        "scheduled_time": _iso(float(score)) if state == "delayed" else None,
        "dependency": dependency,
        "pending": state in PENDING, "success": state == "done", "fail": state in ("dead", "cancelled"),
        "log": (log or b"").decode("utf-8", "replace"), "finish_time": None if ended_ms is None else _iso(ended_ms),
    }  # fmt: skip


def record_of_schedule(definition: Definition, next_ms: int | None, now_ms: int) -> dict[str, Any]:
    """Return the record that is the next run of a recurring task."""
    head = codec.read_head(f"{now_ms} {definition.template}".encode())
    args, kwargs = codec.decode_call(definition.body)
    return _call(head.task, head.on_failure) | {
        "id": f"{definition.name}:{head.task}:{now_ms}", "name": head.name or definition.name, "args": args,
        "kwargs": kwargs, "priority": head.priority, "retries_left": head.retries + 1,
        "retry_minutes": _minutes(head.backoff), "cron": definition.cron, "enqueue_time": _iso(now_ms),
        "scheduled_time": None if next_ms is None else _iso(next_ms), "dependency": None, "pending": True,
        "success": False, "fail": False, "log": "",
    }  # fmt: skip


def score_of(record: Mapping[str, Any]) -> int:
    """Return the place of a record in the sorted set."""
    return int(record["priority"]) * _BAND + int(datetime.fromisoformat(record["enqueue_time"]).timestamp())


def _sizes(queue: str, states: Iterable[str]) -> Program[list[int]]:
    found: list[int] = yield [(b"ZCARD", keys.key(queue, state)) for state in states]
    return found


def all_ids(queue: str, *, states: Iterable[str] = _STATES) -> Program[list[str]]:
    """Return the ids of all tasks in these states, the next to run first."""
    found: list[str] = []
    for state in states:
        start = 0
        while page := (yield (b"ZRANGE", keys.key(queue, state), start, start + 5 * _PAGE - 1)):
            found += [job_id.decode() for job_id in page]
            start += len(page)
    return found


def paged(ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield ids in the slices in which their records are read."""
    every = iter(ids)
    while page := list(islice(every, _PAGE)):
        yield page


def _call(task: str, handler: str | None) -> dict[str, Any]:
    module, _, function = task.rpartition(".")
    onfail_module, _, onfail = (handler or "").partition(" ")[0].rpartition(".")
    return {
        "module": module, "function": function, "onfail_module": onfail_module or None,
        "onfail_function": onfail or None,
    }  # fmt: skip


def _minutes(backoff: str | None) -> float:
    words = (backoff or "").split(" ")
    return int(words[1]) / 60_000 if words[0] == "F" else _DEFAULT_MINUTES


def _iso(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


class DocumentKeys:
    """The plan's two keys as its commands use them with redis-py, read from the native queue.

    An error of the server ends the program: those commands catch every exception and end with 0.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    def ping(self) -> bool:
        """Return True; end the program where the server cannot be reached."""
        self._run(reads.clock())
        return True

    def zcard(self, _key: str) -> int:
        """Return how many tasks are pending."""
        return self._count(PENDING)

    def hlen(self, _key: str) -> int:
        """Return how many tasks there are."""
        return self._count(_STATES)

    def zrange(self, _key: str, start: int, end: int, withscores: bool = False) -> list[Any]:
        """Return pending tasks, the next to run first."""
        ids = self._run(all_ids(self._queue, states=PENDING))
        chosen = ids[start : None if end == -1 else end + 1]
        if not withscores:
            return [job_id.encode() for job_id in chosen]
        found = self._run(records(self._queue, chosen)) if chosen else []
        return [
            (job_id.encode(), float(score_of(one) if one else 0)) for job_id, one in zip(chosen, found, strict=True)
        ]

    def hget(self, _key: str, task_id: str | bytes) -> bytes | None:
        """Return the record of a task."""
        [found] = self._run(records(self._queue, [_text(task_id)]))
        return None if found is None else json.dumps(found).encode()

    def hgetall(self, _key: str) -> dict[bytes, bytes]:
        """Return the records of all tasks."""
        found: dict[bytes, bytes] = {}
        for page in paged(self._run(all_ids(self._queue))):
            for task_id, record in zip(page, self._run(records(self._queue, page)), strict=True):
                if record is not None:
                    found[task_id.encode()] = json.dumps(record).encode()
        return found

    def hdel(self, _key: str, *task_ids: str | bytes) -> int:
        """Discard tasks; `qdeck undo` restores them."""
        from qdeck.admin import Writer

        with Writer(str(self._app.endpoint.url)) as writer:
            plan = writer.plan("discard", self._queue, ids=[_text(one) for one in task_ids])
            return writer.apply(plan).applied

    def _count(self, states: Iterable[str]) -> int:
        return sum(self._run(_sizes(self._queue, states)))

    @property
    def _queue(self) -> str:
        return self._app.queue

    def _run(self, program: Program[Any]) -> Any:
        try:
            return self._app.client.run(program)
        except QdeckError as error:
            raise SystemExit(f"✗ Redis queue status check failed: {error}") from error


def _text(task_id: str | bytes) -> str:
    return task_id.decode() if isinstance(task_id, bytes) else task_id
