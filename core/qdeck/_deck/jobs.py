"""Lists of jobs, slice by slice: what is read of each is as little as its reader needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from qdeck._deck.model import JobRecord, Page, State
from qdeck._deck.records import MOST_SHOWN, Raw, make_record
from qdeck._deck.values import read_lengths, read_values
from qdeck._engine import keys
from qdeck._errors import InvalidOption
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import good

if TYPE_CHECKING:
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program

SLICE: Final = 500
ALL_STATES: Final = (
    State.RUNNING, State.READY, State.DELAYED, State.BLOCKED, State.DEAD, State.CANCELLED, State.DONE,
)  # fmt: skip
# Fields of a filter that the short facts answer, before errors and payloads are read.
OF_HEAD: Final = frozenset(
    {"id", "name", "task", "queue", "adapter", "state", "tag", "priority", "attempts", "crashes", "age", "due"}
    | {"enqueued"}
)
OF_BODY: Final = frozenset({"payload", "text"})
Test = Callable[[JobRecord], bool]


def _everything(_: JobRecord) -> bool:
    return True


@dataclass(slots=True)
class Tests:
    """A filter at one moment: in full, and as much of it as the short facts answer."""

    full: Test = _everything
    early: Test = _everything
    needs_body: bool = False
    needs_error: bool = False

    @classmethod
    def of(cls, wanted: Filter | None, now: int) -> Tests:
        """The tests of a filter."""
        if wanted is None or wanted.is_everything:
            return cls()
        if wanted.fields <= OF_HEAD:
            return cls(early=wanted.compile(now))
        early = wanted.restricted(OF_HEAD)
        return cls(
            wanted.compile(now),
            _everything if early.is_everything else early.compile(now),
            bool(wanted.fields & OF_BODY),
            bool(wanted.fields - OF_HEAD - {"payload"}),
        )


@dataclass(frozen=True, slots=True)
class Place:
    """How far a walk through a list came: behind this entry."""

    state: str
    score: str
    id: str

    @classmethod
    def read(cls, cursor: str) -> Place:
        """The place that a cursor names."""
        words = cursor.split(" ", 2)
        if len(words) != 3 or words[0] not in keys.PARTS:
            raise InvalidOption(f"{cursor!r} is no cursor of a list of jobs", hint="pass one that a page gave")
        return cls(*words)

    def __str__(self) -> str:
        return f"{self.state} {self.score} {self.id}"


def newest_first(state: str, newest: bool | None) -> bool:
    """Whether a list starts with its highest scores: jobs that ended do, and `ready` is always in its running order."""
    if state == State.READY:
        return False
    return state in (State.DONE, State.DEAD, State.CANCELLED) if newest is None else newest


def page(
    queue: str,
    states: Sequence[str],
    *,
    wanted: Filter | None = None,
    cursor: str | None = None,
    newest: bool | None = None,
    bodies: bool = True,
    errors: bool = True,
    most: int = SLICE,
) -> Program[Page]:
    """The next slice of the jobs in these states, one state after the other: at most `most` entries are looked at."""
    now = yield from reads.clock()
    place = None if cursor is None else Place.read(cursor)
    left = list(states) if place is None else list(states)[list(states).index(place.state) :]
    while left:
        state = left[0]
        found = yield from _slice(queue, state, place, most=min(most, SLICE), down=newest_first(state, newest))
        if not found:
            left, place = left[1:], None
            continue
        last = found[-1]
        jobs = yield from fill(queue, found, Tests.of(wanted, now), now, bodies=bodies, errors=errors)
        return Page(jobs=tuple(jobs), cursor=str(Place(state, _number(last.score), last.id)), scanned=len(found))
    return Page(jobs=(), cursor=None, scanned=0)


def _number(score: float) -> str:
    return str(int(score)) if score.is_integer() else repr(score)


def _slice(queue: str, state: str, place: Place | None, *, most: int, down: bool) -> Program[list[Raw]]:
    """The entries behind a place. Where its entry has gone meanwhile, by score and id, so that none is left out."""
    key = keys.key(queue, state)
    by_rank, rank_of = (b"ZREVRANGE", b"ZREVRANK") if down else (b"ZRANGE", b"ZRANK")
    if place is None:
        flat = yield (by_rank, key, 0, most - 1, b"WITHSCORES")
        return raws(flat, state)
    rank = yield (rank_of, key, raw_of(place.id))
    if rank is not None:
        flat = yield (by_rank, key, rank + 1, rank + most, b"WITHSCORES")
        found = raws(flat, state)
        first = found[0].score if found else None
        # Its lease was renewed or it was put elsewhere: its rank is not where the walk was.
        if first is None or (first <= float(place.score) if down else first >= float(place.score)):
            return found
    return (yield from _slice_by_score(queue, state, place, most=most, down=down))


def _slice_by_score(queue: str, state: str, place: Place, *, most: int, down: bool) -> Program[list[Raw]]:
    key, ends = keys.key(queue, state), (b"-inf" if down else b"+inf")
    by_score = b"ZREVRANGEBYSCORE" if down else b"ZRANGEBYSCORE"
    passed, seen = 0, raw_of(place.id)
    while True:
        flat = yield (by_score, key, place.score, ends, b"WITHSCORES", b"LIMIT", passed, most)
        found = raws(flat, state)
        tied = float(place.score)
        fresh = [
            raw for raw in found if raw.score != tied or (raw_of(raw.id) < seen if down else raw_of(raw.id) > seen)
        ]
        if fresh or not found:
            return fresh
        passed += len(found)


def raws(flat: Sequence[bytes], state: str) -> list[Raw]:
    """The entries of a reply with scores."""
    return [Raw(text_of(member), state, float(score)) for member, score in reads.pairs(flat)]


def by_id(queue: str, job_ids: Sequence[str]) -> Program[list[Raw | None]]:
    """Where these jobs are; a job that moves between two of the reads is looked for again."""
    found: dict[str, Raw] = {}
    missing = list(dict.fromkeys(job_ids))
    for _ in range(3):
        calls = [(b"ZSCORE", keys.key(queue, state), raw_of(job_id)) for job_id in missing for state in ALL_STATES]
        heads = [(b"HEXISTS", keys.key(queue, "head"), raw_of(job_id)) for job_id in missing]
        replies = yield from reads.ask_all([*calls, *heads])
        there = replies[len(calls) :]
        again = []
        for at, job_id in enumerate(missing):
            scores = replies[at * len(ALL_STATES) : (at + 1) * len(ALL_STATES)]
            for state, score in zip(ALL_STATES, scores, strict=True):
                if good(score) is not None:
                    found[job_id] = Raw(job_id, state, float(score))
                    break
            else:
                if good(there[at]):
                    again.append(job_id)
        missing = again
        if not missing:
            break
    return [found.get(job_id) for job_id in job_ids]


def fill(
    queue: str, raws: Sequence[Raw], tests: Tests, now: int, *, bodies: bool = True, errors: bool = True
) -> Program[list[JobRecord]]:
    """The records of these entries that pass the tests; what left its state meanwhile is left out."""
    kept = yield from _read_heads(queue, raws)
    kept = _passing(queue, kept, tests.early, now)
    if errors or tests.needs_error:
        failed = [raw for raw in kept if raw.tries is not None or raw.state in (State.DEAD, State.CANCELLED)]
        yield from _read_values(queue, "error", failed, bounded=not tests.needs_error)
    if not tests.needs_body:
        kept = _passing(queue, kept, tests.full, now)
    if bodies or tests.needs_body:
        yield from _read_values(queue, "body", kept, bounded=not tests.needs_body)
    records = [make_record(queue, raw, now) for raw in kept]
    return [record for record in records if tests.full(record)] if tests.needs_body else records


def _passing(queue: str, raws: list[Raw], test: Test, now: int) -> list[Raw]:
    return raws if test is _everything else [raw for raw in raws if test(make_record(queue, raw, now))]


def _read_heads(queue: str, raws: Sequence[Raw]) -> Program[list[Raw]]:
    if not raws:
        return []
    ids = [raw_of(raw.id) for raw in raws]
    parts = ("head", "tries", "lease") if any(raw.state == State.RUNNING for raw in raws) else ("head", "tries")
    replies = yield [(b"HMGET", keys.key(queue, part), *ids) for part in parts]
    for part, values in zip(parts, replies, strict=True):
        for raw, value in zip(raws, values, strict=True):
            setattr(raw, part, value)
    lost = [raw for raw in raws if raw.head is None]
    gone: set[int] = set()
    if lost:
        # No head: it has gone since, or the queue keeps the id alone (jobs done long ago), which is worth showing.
        scores = yield from reads.ask_all([(b"ZSCORE", keys.key(queue, raw.state), raw_of(raw.id)) for raw in lost])
        gone = {id(raw) for raw, score in zip(lost, scores, strict=True) if score is None}
    return [raw for raw in raws if id(raw) not in gone]


def _read_values(queue: str, part: str, raws: Sequence[Raw], *, bounded: bool) -> Program[None]:
    """Read one kind of value into these entries. A very large one is left out where it is `bounded`: where no filter
    needs it.
    """
    lengths = yield from read_lengths(queue, part, [raw_of(raw.id) for raw in raws])
    wanted: list[tuple[Raw, int]] = []
    for raw, length in zip(raws, lengths, strict=True):
        if bounded and length > MOST_SHOWN:
            raw.leave_out(part, length)
        else:
            wanted.append((raw, length))
    known = {part: [length for _, length in wanted]}
    [values] = yield from read_values(queue, (part,), [raw_of(raw.id) for raw, _ in wanted], known)
    for (raw, _), value in zip(wanted, values, strict=True):
        setattr(raw, part, value)
