"""The numbers of RQ's queues: some plain reads for each, many queues in one round trip."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from qdeck._model.values import QueueRow
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
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
_NAMES: Final = (
    "ready", "handover", *REGISTRIES, "silent", "late", "overdue", "first",
)  # fmt: skip


def read(adapter: str, now: int) -> Program[Look]:
    """Read all queues."""
    names, notices = yield from _read_names()
    commands = {name: _commands(name, now) for name in names}
    replies = yield from reads.try_each(list(commands.values()), chunk=reads.CHUNK_OF_NUMBERS)
    [suspended] = yield with_errors((b"EXISTS", SUSPENDED))
    found = {name: dict(zip(_NAMES, said, strict=True)) for name, said in zip(names, replies, strict=True)}
    lost = yield from _count_lost([name for name, said in found.items() if reads.number(said["handover"])], now)
    workers_of = counter_of((yield from workers.read(adapter, now)))
    oldest = yield from _read_oldest({name: said["first"] for name, said in found.items()})
    paused = not is_error(suspended) and bool(suspended)
    rows = [
        replace(
            _row(adapter, name, said, lost.get(name, 0), oldest[name], now),
            paused=paused,
            workers=workers_of(name),
            problem=problem_of(commands[name], list(said.values())),
        )
        for name, said in found.items()
    ]
    return Look(rows=tuple(rows), notices=tuple(notices))


def _read_names() -> Program[tuple[list[str], list[str]]]:
    members, _ = yield from reads.scan_set(QUEUES, most=MOST_QUEUES + 1)  # discovery reports a key of another type
    names = [text_of(one.removeprefix(QUEUE)) for one in members if one.startswith(QUEUE)]
    notices = [f"rq: only {MOST_QUEUES:,} of its queues are shown"] if len(names) > MOST_QUEUES else []
    return sorted(names[:MOST_QUEUES]), notices


def _commands(name: str, now: int) -> list[Command]:
    """Return the reads of one queue, in the order of `_NAMES`."""
    grace = b"(%d.%03d" % divmod(now - jobs.GRACE_MS, 1000)
    scheduled = registry_key("scheduled", name)
    return [
        (b"LLEN", queue_key(name)), (b"LLEN", handover_key(name)),
        *((b"ZCARD", registry_key(native, name)) for native in REGISTRIES),
        (b"ZCOUNT", registry_key(STARTED, name), b"-inf", grace), (b"ZCOUNT", scheduled, b"-inf", grace),
        (b"ZCOUNT", scheduled, b"-inf", now // 1000), (b"LINDEX", queue_key(name), 0),
    ]  # fmt: skip


def _row(adapter: str, name: str, said: Mapping[str, Any], lost: int, oldest: int | None, now: int) -> QueueRow:
    number = {key: reads.number(reply) for key, reply in said.items() if key != "first"}
    running, silent, late = number[STARTED], number["silent"], number["late"]
    return QueueRow(
        adapter=adapter, name=name, ready=number["ready"], delayed=number["scheduled"], blocked=number["deferred"],
        running=None if running is None else running + (number["handover"] or 0), done=number["finished"],
        dead=number["failed"], cancelled=number["canceled"], overdue=number["overdue"],
        stuck=None if silent is None or late is None else silent + late + lost,
        oldest_s=age_s(now, oldest),
    )  # fmt: skip


def _count_lost(names: Sequence[str], now: int) -> Program[dict[str, int]]:
    """Count the jobs that are between a queue and a worker for too long."""
    replies = (
        (yield with_errors(*((b"LRANGE", handover_key(name), 0, MOST_HANDED_OVER - 1) for name in names)))
        if names
        else []
    )
    found: dict[str, int] = {}
    for name, ids in zip(names, replies, strict=True):
        moments = [] if is_error(ids) or not ids else (yield from jobs.first_seen(name, ids))
        found[name] = sum(jobs.is_lost(at, now) for at in moments)
    return found


def _read_oldest(first: Mapping[str, Any]) -> Program[dict[str, int | None]]:
    """Read when the first job of each queue was put in line."""
    keys = {name: job_key(one) for name, one in first.items() if one is not None and not is_error(one)}
    moments = yield from reads.field_of_each(keys, b"enqueued_at")
    return {name: read_ms(moments.get(name)) for name in first}
