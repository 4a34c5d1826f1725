"""The numbers of BullMQ's queues: some plain reads for each, many queues in one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.stored_numbers import digits
from qdeck._model.values import QueueRow
from qdeck._model.words import Unreadable, UnreadableCode
from qdeck._redis import reads
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.bullmq import jobs
from qdeck.adapters.bullmq.keys import STATES, TICKS, base_of, is_marker, major_of
from qdeck.adapters.model import Kind, Look, age_s
from qdeck.adapters.row_problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

MOST_ACTIVE: Final = 1_000  # of one queue whose locks a look reads
_NAMES: Final = ("meta", *STATES, "overdue", "first")


def read(adapter: str, prefix: str, queues: Sequence[str], now: int) -> Program[Look]:
    """Read these queues."""
    bases = {queue: base_of(prefix, queue) for queue in queues}
    commands = {queue: _commands(base, now) for queue, base in bases.items()}
    replies = yield from reads.try_each(list(commands.values()), chunk=reads.CHUNK_OF_NUMBERS)
    found = {queue: dict(zip(_NAMES, said, strict=True)) for queue, said in zip(bases, replies, strict=True)}
    busy = {bases[queue]: queue for queue, said in found.items() if not is_error(said["active"]) and said["active"]}
    stalled = yield from _count_stalled(busy, now)
    oldest = yield from _read_oldest({bases[queue]: said["first"] for queue, said in found.items()})
    rows = [
        _row(adapter, queue, commands[queue], said, stalled.get(queue, 0), oldest.get(bases[queue]), now)
        for queue, said in found.items()
        if not _is_gone(said)
    ]
    return Look(rows=tuple(rows))


def _commands(base: bytes, now: int) -> list[Command]:
    """Return the reads of one queue, in the order of `_NAMES`."""
    sizes: list[Command] = [
        (b"LLEN" if kind is Kind.LIST else b"ZCARD", base + native.encode()) for native, (_, kind) in STATES.items()
    ]
    due: Command = (b"ZCOUNT", base + b"delayed", b"-inf", now * TICKS)
    return [(b"HMGET", base + b"meta", b"version", b"paused"), *sizes, due, (b"LINDEX", base + b"wait", -1)]


def _is_gone(said: Mapping[str, Any]) -> bool:
    """Return whether a queue was removed since it was found."""
    meta = said["meta"]
    return not is_error(meta) and meta == [None, None] and not any(said[native] for native in STATES)


def _row(
    adapter: str,
    queue: str,
    commands: Sequence[Command],
    said: Mapping[str, Any],
    stalled: int | None,
    oldest: int | None,
    now: int,
) -> QueueRow:
    meta = said["meta"]
    problem = problem_of(commands, list(said.values()))
    version, paused = (None, None) if is_error(meta) else meta
    if problem is None and major_of(version) is None:
        found = (version or b"none").decode("utf-8", "replace")
        problem = Unreadable(code=UnreadableCode.VERSION, error=f"written by {found}; qdeck reads BullMQ 5 and 6")
    number = {native: reads.number(said[native]) for native in STATES}
    waits = [number[native] for native in ("wait", "paused", "prioritized")]
    return QueueRow(
        adapter=adapter, name=queue, ready=None if None in waits else sum(count or 0 for count in waits),
        delayed=number["delayed"], blocked=number["waiting-children"], running=number["active"],
        done=number["completed"], dead=number["failed"], stuck=stalled,
        overdue=reads.number(said["overdue"]), oldest_s=age_s(now, oldest),
        paused=paused is not None, problem=problem,
    )  # fmt: skip


def _count_stalled(busy: Mapping[bytes, str], now: int) -> Program[dict[str, int | None]]:
    """Count the active jobs whose worker has lost them; unknown where very many are active."""
    replies = (yield with_errors(*((b"LRANGE", base + b"active", 0, MOST_ACTIVE) for base in busy))) if busy else []
    found: dict[str, int | None] = {}
    for (base, queue), ids in zip(busy.items(), replies, strict=True):
        if is_error(ids) or len(ids) > MOST_ACTIVE:
            found[queue] = None
            continue
        keys = [base + one for one in ids if not is_marker(one)]
        locked = yield from jobs.read_locked(keys)
        free = [key for key in keys if key not in locked]
        began = yield from reads.field_of_each({key: key for key in free}, b"processedOn")
        found[queue] = sum(jobs.is_stalled(digits(at or b""), now, is_locked=False) for at in began.values())
    return found


def _read_oldest(first: Mapping[bytes, Any]) -> Program[dict[bytes, int | None]]:
    """Read when the next job of each queue was created."""
    keys = {base: base + one for base, one in first.items() if one is not None and not is_error(one)}
    moments = yield from reads.field_of_each(keys, b"timestamp")
    return {base: digits(moment or b"") for base, moment in moments.items()}
