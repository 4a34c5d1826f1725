"""The queues of BullMQ in numbers: some plain reads of each, many queues in one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._deck.model import QueueRow
from qdeck._deck.words import Unreadable, UnreadableCode
from qdeck._engine.stored_numbers import digits
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error
from qdeck.adapters.bullmq import jobs
from qdeck.adapters.bullmq.keys import STATES, TICKS, base_of, is_marker, major_of
from qdeck.adapters.model import Kind, Look, age_s
from qdeck.adapters.row_problems import problem_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

SMALL: Final = 5_000  # commands with short answers in one round trip
MOST_ACTIVE: Final = 1_000  # of one queue whose locks a look reads
_NAMES: Final = ("meta", *STATES, "overdue", "first")


def read(adapter: str, prefix: str, queues: Sequence[str], now: int) -> Program[Look]:
    """Read these queues."""
    bases = {queue: base_of(prefix, queue) for queue in queues}
    calls = [command for base in bases.values() for command in _commands(base, now)]
    replies: list[Any] = []
    for at in range(0, len(calls), SMALL):
        replies += yield ask(*calls[at : at + SMALL])
    width = len(_NAMES)
    found = {
        queue: dict(zip(_NAMES, replies[at * width : (at + 1) * width], strict=True)) for at, queue in enumerate(bases)
    }
    busy = {bases[queue]: queue for queue, said in found.items() if not is_error(said["active"]) and said["active"]}
    stalled = yield from _count_stalled(busy, now)
    oldest = yield from _read_oldest({bases[queue]: said["first"] for queue, said in found.items()})
    rows = [
        _row(adapter, queue, _commands(bases[queue], now), said, stalled.get(queue, 0), oldest.get(bases[queue]), now)
        for queue, said in found.items()
        if not _is_gone(said)
    ]
    return Look(rows=tuple(rows))


def _commands(base: bytes, now: int) -> list[Command]:
    """What is read of one queue, in the order of `_NAMES`."""
    sizes: list[Command] = [
        (b"LLEN" if kind is Kind.LIST else b"ZCARD", base + native.encode()) for native, (_, kind) in STATES.items()
    ]
    due: Command = (b"ZCOUNT", base + b"delayed", b"-inf", now * TICKS)
    return [(b"HMGET", base + b"meta", b"version", b"paused"), *sizes, due, (b"LINDEX", base + b"wait", -1)]


def _is_gone(said: Mapping[str, Any]) -> bool:
    """Whether a queue was removed since it was found."""
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
    number = {native: None if is_error(said[native]) else int(said[native]) for native in STATES}
    waits = [number[native] for native in ("wait", "paused", "prioritized")]
    return QueueRow(
        adapter=adapter, name=queue, ready=None if None in waits else sum(count or 0 for count in waits),
        delayed=number["delayed"], blocked=number["waiting-children"], running=number["active"],
        done=number["completed"], dead=number["failed"], stuck=stalled,
        overdue=None if is_error(said["overdue"]) else int(said["overdue"]), oldest_s=age_s(now, oldest),
        paused=paused is not None, problem=problem,
    )  # fmt: skip


def _count_stalled(busy: Mapping[bytes, str], now: int) -> Program[dict[str, int | None]]:
    """Count the active jobs whose worker has lost them; unknown where very many are active."""
    replies = (yield ask(*((b"LRANGE", base + b"active", 0, MOST_ACTIVE) for base in busy))) if busy else []
    found: dict[str, int | None] = {}
    for (base, queue), ids in zip(busy.items(), replies, strict=True):
        if is_error(ids) or len(ids) > MOST_ACTIVE:
            found[queue] = None
            continue
        keys = [base + one for one in ids if not is_marker(one)]
        locked = yield from jobs.read_locked(keys)
        free = [key for key in keys if key not in locked]
        began = (yield ask(*((b"HGET", key, b"processedOn") for key in free))) if free else []
        moments = [None if is_error(one) else digits(one or b"") for one in began]
        found[queue] = sum(jobs.is_stalled(at, now, is_locked=False) for at in moments)
    return found


def _read_oldest(first: Mapping[bytes, Any]) -> Program[dict[bytes, int | None]]:
    """Read when the job that is next in each queue was made."""
    known = {base: one for base, one in first.items() if one is not None and not is_error(one)}
    replies = (yield ask(*((b"HGET", base + one, b"timestamp") for base, one in known.items()))) if known else []
    return {base: None if is_error(one) else digits(one or b"") for base, one in zip(known, replies, strict=True)}
