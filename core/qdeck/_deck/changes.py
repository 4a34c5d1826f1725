"""What an operator does to jobs and queues: a plan first, then exactly that plan, each entry as it was seen."""

from __future__ import annotations

import difflib
import getpass
import socket
from typing import TYPE_CHECKING, Final

from qdeck._deck import jobs, native, reads
from qdeck._deck.model import Plan, PlanEntry, Settings, Skip, State, Verb
from qdeck._engine import codec, keys, ops, programs
from qdeck._engine.ids import new_id
from qdeck._errors import InvalidOption, UsageError
from qdeck._options import read_priority

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._engine.ops import Program
    from qdeck._filter import Filter

SLICE: Final = 200  # jobs changed in one step


def actor() -> str:
    """Who is doing this, for the record."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def need_queue(memory: native.Memory, queue: str) -> Program[None]:
    """Raises for a queue that is not there, naming those that were perhaps meant."""
    if (yield from native.exists(queue)):
        return
    known = yield from native.names(memory)
    near = difflib.get_close_matches(queue, known, 3, 0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "qdeck status lists the queues"
    raise UsageError(f"there is no queue {queue!r}", hint=hint)


def plan(
    queue: str,
    verb: Verb,
    *,
    job_ids: Sequence[str] = (),
    wanted: Filter | None = None,
    states: Sequence[State] = (),
    priority: int | str | None = None,
) -> Program[Plan]:
    """What a change would do: to the jobs named, or to all that match."""
    if (verb is Verb.REPRIORITISE) != (priority is not None):
        hint = "give the new priority" if priority is None else "only reprioritise takes a priority"
        raise InvalidOption(f"{verb.value} with priority {priority!r}", hint=hint)
    new_priority = None if priority is None else read_priority("priority", priority)
    now = yield from reads.clock()
    skipped: list[Skip] = []
    allowed = [state for state in verb.states if not states or state in states]
    if job_ids:
        entries = yield from _named(queue, job_ids, wanted, allowed, skipped, now)
    else:
        entries = yield from _matching(queue, wanted, allowed, now)
    return Plan(
        id=new_id(),
        verb=verb,
        queue=queue,
        created_ms=now,
        entries=tuple(entries),
        skipped=tuple(skipped),
        where="" if wanted is None else str(wanted),
        priority=new_priority,
        with_dependents=(yield from _count_dependents(queue, entries)),
    )


def _named(
    queue: str,
    job_ids: Sequence[str],
    wanted: Filter | None,
    allowed: Sequence[State],
    skipped: list[Skip],
    now: int,
) -> Program[list[PlanEntry]]:
    unique = list(dict.fromkeys(job_ids))
    places = yield from jobs.by_id(queue, unique)
    fitting = []
    for job_id, place in zip(unique, places, strict=True):
        if place is None:
            skipped.append(Skip(id=job_id, why="there is no such job"))
        elif place.state not in allowed:
            skipped.append(Skip(id=job_id, why=f"is {place.state}"))
        else:
            fitting.append(place)
    matching = set()
    for at in range(0, len(fitting), jobs.SLICE):
        part = fitting[at : at + jobs.SLICE]
        found = yield from jobs.fill(queue, part, jobs.Tests.of(wanted, now), now, bodies=False, errors=False)
        matching |= {record.id for record in found}
    skipped += [Skip(id=place.id, why="does not match the filter") for place in fitting if place.id not in matching]
    return [PlanEntry(id=place.id, state=place.state) for place in fitting if place.id in matching]


def _matching(queue: str, wanted: Filter | None, allowed: Sequence[State], now: int) -> Program[list[PlanEntry]]:
    limits = None if wanted is None else wanted.pushdown(now)
    states: list[str] = [
        state for state in allowed if limits is None or limits.states is None or state in limits.states
    ]
    found: dict[str, PlanEntry] = {}
    if limits is not None and limits.ids is not None:
        named = yield from _named(queue, sorted(limits.ids), wanted, allowed, [], now)
        return named
    cursor: str | None = None
    while states:
        part = yield from jobs.page(queue, states, wanted=wanted, cursor=cursor, bodies=False, errors=False)
        for record in part.jobs:
            # A job that moved from one state to the next while they were read is taken as it was seen last.
            found[record.id] = PlanEntry(id=record.id, state=record.state)
        cursor = part.cursor
        if cursor is None:
            break
    return list(found.values())


def _count_dependents(queue: str, entries: Sequence[PlanEntry]) -> Program[int]:
    count = 0
    after = keys.key(queue, "after")
    [size] = yield reads.read((b"HLEN", after))
    if not reads.good(size, queue):
        return 0
    for at in range(0, len(entries), jobs.SLICE):
        fields = [b">" + jobs.raw_id(entry.id) for entry in entries[at : at + jobs.SLICE]]
        [kids] = yield reads.read((b"HMGET", after, *fields))
        count += sum(kid is not None for kid in reads.good(kids, queue))
    return count


def apply_slice(what: Plan, entries: Sequence[PlanEntry], by: str) -> Program[list[str]]:
    """Acts on one slice of a plan; answers `ok`, `asked`, or why not, for each."""
    event = codec.encode_json({"reason": f"{what.verb.value} by an operator", "by": by, "batch": what.id})
    pairs = [(entry.id, str(entry.state)) for entry in entries]
    return (
        yield from programs.call(ops.change(what.queue, what.verb.value, pairs, event=event, priority=what.priority))
    )


def set_paused(memory: native.Memory, queue: str, *, paused: bool) -> Program[Settings]:
    """Pauses or resumes a queue that is there."""
    yield from need_queue(memory, queue)
    [before] = yield reads.read((b"HGET", keys.key(queue, "meta"), "paused"))
    yield from programs.call(ops.configure(queue, {"paused": "1" if paused else ""}))
    return Settings(queue=queue, paused=paused, changed=(reads.good(before, queue) is not None) != paused)


def set_limits(
    memory: native.Memory, queue: str, *, running: int | None, rate: tuple[int, float] | None
) -> Program[None]:
    """Limits how many jobs run at once and how many start in so many seconds; None takes a limit away."""
    if running is not None and running < 1:
        raise InvalidOption(f"a limit of {running} running jobs", hint="give 1 or more; to stop a queue, pause it")
    if rate is not None and (rate[0] < 1 or rate[1] < 0.001):
        raise InvalidOption(f"a rate of {rate[0]} in {rate[1]} s", hint="give at least 1 start in at least 1 ms")
    yield from need_queue(memory, queue)
    settings = {
        "limit": "" if running is None else str(running),
        "rate": "" if rate is None else f"{rate[0]} {round(rate[1] * 1000)}",
    }
    yield from programs.call(ops.configure(queue, settings))
