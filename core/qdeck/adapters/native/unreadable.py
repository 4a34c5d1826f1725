"""Unreadable values in native queues: a key of another type, a score that is not a time, a broken job.

Bounded: the counts are of whole lists, the fields of some jobs of each list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._engine.stored_numbers import MAX_NUMBER
from qdeck._model.values import QueueRef, QueueRow, State
from qdeck._model.words import Unreadable, UnreadableCode
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck._redis.parallel_programs import apart
from qdeck.adapters.model import ALL, Part
from qdeck.adapters.native import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._errors import QdeckError
    from qdeck._model.values import Page
    from qdeck._redis.commands import Command, Program

MOST_QUEUES: Final = 2_000  # whose keys are looked at one by one
BUDGET: Final = 20_000  # jobs looked at in all
MOST_JOBS: Final = 50  # of one list
_AT_ONCE: Final = 50  # lists read side by side
_SCORED: Final = tuple(part for part, (_, kind) in keys.PARTS.items() if kind == "zset")
_TYPED: Final = tuple(part for part in keys.PARTS if part not in (*_SCORED, "undo"))
Broken = tuple[Unreadable, QueueRef | None]  # what cannot be read, and of which queue it is


def find(rows: Sequence[QueueRow], notices: list[str]) -> Program[list[Broken]]:
    """Return what cannot be read in these queues."""
    if len(rows) > MOST_QUEUES:
        notices.append(f"the keys of {MOST_QUEUES:,} of {len(rows):,} queues were checked for unreadable values")
        rows = rows[:MOST_QUEUES]
    found: list[Broken] = []
    yield from _lists(rows, found)
    yield from _jobs(rows, found)
    return found


def _lists(rows: Sequence[QueueRow], found: list[Broken]) -> Program[None]:
    """Return keys of another type, and scores that are not times."""
    calls: list[Command] = []
    for row in rows:
        for part in _SCORED:
            key = keys.key(row.name, part)
            calls += [(b"ZCOUNT", key, b"-inf", b"(0"), (b"ZCOUNT", key, b"(%d" % MAX_NUMBER, b"+inf")]
        calls += [(b"TYPE", keys.key(row.name, part)) for part in _TYPED]
    replies = iter((yield from reads.try_all(calls)))
    for row in rows:
        for part in _SCORED:
            key, low, high = keys.key(row.name, part), next(replies), next(replies)
            if is_error(low):
                found.append((_refused(low, key.decode()), row.ref))
            elif low or high:
                found.append((garbage("score", low + high, key.decode()), row.ref))
        for part in _TYPED:
            kind, wanted = next(replies), keys.part_type(part).encode()
            if isinstance(kind, bytes) and kind not in (b"none", wanted):
                found.append((other_type(keys.key(row.name, part).decode(), wanted.decode(), kind), row.ref))


def _refused(reply: QdeckError, key: str) -> Unreadable:
    problem = Unreadable.of(reply)
    return other_type(key, "zset") if problem.code is UnreadableCode.WRONGTYPE else problem


def other_type(key: str, wanted: str, kind: bytes = b"") -> Unreadable:
    """Return the finding that a key holds another type of data."""
    found = kind.decode("utf-8", "replace")
    return Unreadable(code=UnreadableCode.WRONGTYPE, key=key, found=found, wanted=wanted)


def garbage(what: str, count: int, key: str, first: str = "") -> Unreadable:
    """Return the finding that some values of a key were not written by qdeck."""
    return Unreadable(code=UnreadableCode.GARBAGE, what=what, count=count, key=key, first=first)


def _jobs(rows: Sequence[QueueRow], found: list[Broken]) -> Program[None]:
    """Some jobs of each list: their head, lease, attempts and events."""
    lists = [(row.ref, state) for row in rows for state in State if getattr(row, state.value)]
    most = max(1, min(MOST_JOBS, BUDGET // max(1, len(lists))))
    for at in range(0, len(lists), _AT_ONCE):
        part = lists[at : at + _AT_ONCE]
        pages = yield from apart([_page(ref.name, state, most) for ref, state in part])
        for (ref, state), page in zip(part, pages, strict=True):
            if isinstance(page, Exception):
                continue  # a key of another type: reported by name
            broken = [job for job in page.jobs if job.problem is not None]
            if broken:
                key = keys.key(ref.name, state.value).decode()
                found.append((garbage("job", len(broken), key, f"{broken[0].id} ({broken[0].problem})"), ref))


def _page(queue: str, state: State, most: int) -> Program[Page]:
    return (yield from jobs.page(queue, (state,), want=ALL - {Part.BODY}, most=most))
