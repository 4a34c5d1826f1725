"""The queues of RQ in numbers: some plain reads of each, many queues in one round trip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck.model import QueueRow
from qdeck._redis.commands import ask, text_of
from qdeck._redis.errors import is_error
from qdeck.adapters.model import Look, age_s
from qdeck.adapters.row_problems import problem_of
from qdeck.adapters.rq import jobs, workers
from qdeck.adapters.rq.keys import (
    QUEUE,
    QUEUES,
    REGISTRIES,
    STARTED,
    SUSPENDED,
    handover_key,
    job_key,
    queue_key,
    registry_key,
)
from qdeck.adapters.times import read_ms
from qdeck.adapters.worker_counts import counter_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

MOST_QUEUES: Final = 20_000
MOST_HANDED_OVER: Final = 10_000  # there is one for each idle worker at the most
SMALL: Final = 5_000  # commands with short answers in one round trip
_NAMES: Final = (
    "ready", "handover", *REGISTRIES, "silent", "late", "overdue", "first",
)  # fmt: skip


def read(adapter: str, now: int) -> Program[Look]:
    """Read all queues."""
    names, notices = yield from _read_names()
    calls: list[Command] = [command for name in names for command in _commands(name, now)]
    replies: list[Any] = []
    for at in range(0, len(calls), SMALL):
        replies += yield ask(*calls[at : at + SMALL])
    [suspended] = yield ask((b"EXISTS", SUSPENDED))
    found = {
        name: dict(zip(_NAMES, replies[at * len(_NAMES) : (at + 1) * len(_NAMES)], strict=True))
        for at, name in enumerate(names)
    }
    lost = yield from _count_lost([name for name, said in found.items() if _number(said["handover"])], now)
    workers_of = counter_of((yield from workers.read(adapter, now)))
    oldest = yield from _read_oldest({name: said["first"] for name, said in found.items()})
    paused = not is_error(suspended) and bool(suspended)
    rows = [
        replace(
            _row(adapter, name, said, lost.get(name, 0), oldest[name], now), paused=paused, workers=workers_of(name)
        )
        for name, said in found.items()
    ]
    return Look(rows=tuple(rows), notices=tuple(notices))


def _read_names() -> Program[tuple[list[str], list[str]]]:
    found: dict[str, None] = {}
    cursor: Any = b"0"
    while True:
        [reply] = yield ask((b"SSCAN", QUEUES, cursor, b"COUNT", 1000))
        if is_error(reply):
            return sorted(found), []  # a key of another type was named when its type was read
        cursor, members = reply
        found |= {text_of(one.removeprefix(QUEUE)): None for one in members if one.startswith(QUEUE)}
        if cursor in (b"0", 0):
            return sorted(found), []
        if len(found) >= MOST_QUEUES:
            return sorted(found), [f"rq: only the first {MOST_QUEUES:,} queues are shown"]


def _commands(name: str, now: int) -> list[Command]:
    """What is read of one queue, in the order of `_NAMES`."""
    grace = b"(%d.%03d" % divmod(now - jobs.GRACE_MS, 1000)
    scheduled = registry_key("scheduled", name)
    return [
        (b"LLEN", queue_key(name)), (b"LLEN", handover_key(name)),
        *((b"ZCARD", registry_key(native, name)) for native in REGISTRIES),
        (b"ZCOUNT", registry_key(STARTED, name), b"-inf", grace), (b"ZCOUNT", scheduled, b"-inf", grace),
        (b"ZCOUNT", scheduled, b"-inf", now // 1000), (b"LINDEX", queue_key(name), 0),
    ]  # fmt: skip


def _row(adapter: str, name: str, said: Mapping[str, Any], lost: int, oldest: int | None, now: int) -> QueueRow:
    problem = problem_of(_commands(name, now), list(said.values()))
    number = {key: _number(reply) for key, reply in said.items() if key != "first"}
    running, silent, late = number[STARTED], number["silent"], number["late"]
    return QueueRow(
        adapter=adapter, name=name, ready=number["ready"], delayed=number["scheduled"], blocked=number["deferred"],
        running=None if running is None else running + (number["handover"] or 0), done=number["finished"],
        dead=number["failed"], cancelled=number["canceled"], overdue=number["overdue"],
        stuck=None if silent is None or late is None else silent + late + lost,
        oldest_s=age_s(now, oldest), problem=problem,
    )  # fmt: skip


def _number(reply: Any) -> int | None:
    return None if is_error(reply) else int(reply)


def _count_lost(names: Sequence[str], now: int) -> Program[dict[str, int]]:
    """Count the jobs that are between a queue and a worker for too long."""
    replies = (
        (yield ask(*((b"LRANGE", handover_key(name), 0, MOST_HANDED_OVER - 1) for name in names))) if names else []
    )
    found: dict[str, int] = {}
    for name, ids in zip(names, replies, strict=True):
        moments = [] if is_error(ids) or not ids else (yield from jobs.first_seen(name, ids))
        found[name] = sum(jobs.is_lost(at, now) for at in moments)
    return found


def _read_oldest(first: Mapping[str, Any]) -> Program[dict[str, int | None]]:
    """Read when the first job of each queue was put in line."""
    known = {name: one for name, one in first.items() if one is not None and not is_error(one)}
    replies = (yield ask(*((b"HGET", job_key(one), b"enqueued_at") for one in known.values()))) if known else []
    moments = {name: None if is_error(reply) else read_ms(reply) for name, reply in zip(known, replies, strict=True)}
    return {name: moments.get(name) for name in first}
