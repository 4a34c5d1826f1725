"""Pages of jobs, and jobs by their ids; only what the caller needs is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qdeck._engine import keys
from qdeck._errors import InvalidOption
from qdeck._model.values import Page, State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck.adapters.model import ALL, Part, Want
from qdeck.adapters.native import SLICE, newest_first
from qdeck.adapters.native.job_values import read_lengths, read_values
from qdeck.adapters.native.records import MOST_SHOWN, Row
from qdeck.adapters.native.walk import Needs, Walk, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Program


class NativeCursor(NamedTuple):
    """The position of a walk through a list: behind this entry."""

    state: str
    score: str
    id: str

    @classmethod
    def read(cls, cursor: str) -> NativeCursor:
        """Return the position of a cursor."""
        words = cursor.split(" ", 2)
        if len(words) != 3 or words[0] not in keys.PARTS:
            raise InvalidOption(f"{cursor!r} is not a cursor of a list of jobs", hint="Use the cursor of a page.")
        return cls(*words)


def page(
    queue: str,
    states: Sequence[str],
    *,
    wanted: Filter | None = None,
    cursor: str | None = None,
    newest: bool | None = None,
    want: Want = ALL,
    most: int = SLICE,
    now: int | None = None,
) -> Program[Page]:
    """Return the next page of the jobs in these states, one state after the other; at most `most` are read."""
    now = (yield from reads.clock()) if now is None else now
    place = None if cursor is None else NativeCursor.read(cursor)
    left = list(states) if place is None else list(states)[list(states).index(place.state) :]
    for state in left:
        behind = place is not None and state == place.state
        after = (raw_of(place.id), place.score.encode()) if place is not None and behind else None
        size = min(most, SLICE)
        walk = Walk(
            queue, state, Needs.of(wanted, now, state), now, down=newest_first(state, newest), after=after, size=size,
            first=size,
        )  # fmt: skip
        rows = yield from walk.page()
        if rows is None or walk.last is None:
            continue
        jobs = yield from complete(queue, rows, bodies=Part.BODY in want, errors=Part.ERROR in want)
        member, score = walk.last
        place = NativeCursor(state, score.decode(), member.decode("utf-8", "surrogateescape"))
        return Page(jobs=tuple(row.full() for row in jobs), cursor=" ".join(place), scanned=walk.scanned)
    return Page(jobs=(), cursor=None, scanned=0)


def complete(queue: str, rows: Sequence[Row], *, bodies: bool = True, errors: bool = True) -> Program[list[Row]]:
    """Read what a record shows into these jobs, but for very large values; those that left their state are left out."""
    if not rows:
        return []
    ids = [row.raw_id for row in rows]
    parts = ("head", "attempts", "lease") if any(row.state == State.RUNNING for row in rows) else ("head", "attempts")
    replies = yield [(b"HMGET", keys.key(queue, part), *ids) for part in parts]
    for part, values in zip(parts, replies, strict=True):
        put(rows, part, values)
    for row in rows:
        row.record = None  # it was made of less
    if len(parts) > 2:
        from qdeck.adapters.native.stuck import note_owners

        yield from note_owners(row for row in rows if row.state == State.RUNNING)
    lost = [row for row in rows if row.head_raw is None]
    if lost:
        # No head: it has gone since, or the queue keeps the id alone (jobs done long ago), which is worth showing.
        scores = yield from reads.fetch_all([(b"ZSCORE", keys.key(queue, row.state), row.raw_id) for row in lost])
        gone = {row.raw_id for row, score in zip(lost, scores, strict=True) if score is None}
        rows = [row for row in rows if row.raw_id not in gone]
    if errors:
        failed = [row for row in rows if row.attempts_raw is not None or row.state in (State.DEAD, State.CANCELLED)]
        yield from _read_bounded(queue, "error", [row for row in failed if row.error_raw is None])
    if bodies:
        yield from _read_bounded(queue, "body", [row for row in rows if row.body_raw is None])
    return list(rows)


def _read_bounded(queue: str, part: str, rows: Sequence[Row]) -> Program[None]:
    """Read one kind of value into these jobs; a very large one is left out."""
    lengths = yield from read_lengths(queue, part, [row.raw_id for row in rows])
    wanted = [(row, length) for row, length in zip(rows, lengths, strict=True) if length <= MOST_SHOWN]
    for row, length in zip(rows, lengths, strict=True):
        if length > MOST_SHOWN:
            row.leave_out(part, length)
    some = [row for row, _ in wanted]
    known = {part: [length for _, length in wanted]}
    [values] = yield from read_values(queue, (part,), [row.raw_id for row in some], known)
    put(some, part, values)
