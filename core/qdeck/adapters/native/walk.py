"""Walks over a list of jobs of any length, page by page: memory does not grow, and jobs that move are not missed.

Plain reads only. A walk goes by score and (upwards) ends at a given score, so that it does not follow what is added
meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._engine.codec import BAND
from qdeck._engine.stored_numbers import MAX_NUMBER
from qdeck._model.values import State
from qdeck.adapters.native import WAITING
from qdeck.adapters.native.job_values import read_values
from qdeck.adapters.native.records import ENDED, Row, reaches_no_secret
from qdeck.adapters.plans import Pages
from qdeck.adapters.sorted_sets import SortedSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Program

PAGE: Final = 2000
_FIRST: Final = 64
# Fields of a filter that the short facts answer, before errors and payloads are read.
OF_HEAD: Final = frozenset(
    {"id", "name", "task", "queue", "adapter", "state", "tag", "priority", "attempts", "crashes", "age", "due"}
    | {"enqueued"}
)
OF_BODY: Final = frozenset({"payload", "text"})
_BYTES: Final = 4 * 1024 * 1024  # of one kind of value in one page


@dataclass(slots=True)
class Needs:
    """A filter at one moment: the two steps in which jobs are tested, and the values that each reads."""

    early: Callable[[Any], bool] | None
    full: Callable[[Any], bool] | None
    parts: tuple[str, ...]
    body: bool
    plain: bool

    @classmethod
    def of(cls, wanted: Filter | None, now: int, state: str, *, always: Sequence[str] = ()) -> Needs:
        """Return what a filter reads of jobs in a state; the parts named in `always` are read in any case."""
        parts = list(always)
        if wanted is None or wanted.is_everything:
            return cls(None, None, tuple(parts), body=False, plain=True)
        fields = wanted.fields - {"id", "queue", "adapter", "state"}
        if state in (State.DEAD, State.CANCELLED, State.DONE, State.READY):
            fields -= {"age"}
        has_errors = state != State.DONE
        if fields & {"error", "message", "failed", "text"} and has_errors:
            parts.append("error")
        if fields - {"error", "message", "failed", "payload"}:
            parts += ["head", "attempts"]
            parts += ["error"] if "worker" in fields and has_errors else []  # of a job that ended
            parts += ["lease"] if state == State.RUNNING else []
        needs_body = bool(fields & OF_BODY)
        if state in WAITING and (parts or needs_body):
            parts.insert(0, "head")  # it has the version, which must not be newer than the values that the filter reads
        test = wanted.compile(now)
        early: Callable[[Any], bool] | None = test
        if needs_body:
            weaker = wanted.restricted(OF_HEAD | {"error", "message", "failed", "worker"})
            early = None if weaker.is_everything else weaker.compile(now)
        return cls(
            early,
            test if needs_body else None,
            tuple(dict.fromkeys(parts)),
            body=needs_body,
            plain=reaches_no_secret(wanted),
        )


class Walk(Pages):
    """A walk over one list of one queue; `page()` gives the rows that match of the next page, None at the end."""

    def __init__(
        self,
        queue: str,
        state: str,
        needs: Needs,
        now: int,
        *,
        lowest: int | None = None,
        highest: int | None = None,
        size: int = PAGE,
        down: bool = False,
        part: str | None = None,
        most: int | None = None,
        only: Callable[[Row], bool] | None = None,
        after: tuple[bytes, bytes] | None = None,
        first: int = _FIRST,
    ) -> None:
        """`part` is another list that holds jobs of this state, `most` is how many entries are looked at, `only` a
        test besides the filter, `after` the id and the score behind which it begins, `first` the size of the first
        page. In `ready`, whose scores are of priority and time, `highest` is of the time.
        """
        super().__init__()
        self.queue, self.state, self.now = queue, state, now
        self._needs = needs
        self._set = SortedSet(keys.key(queue, part or state), down=down, lowest=lowest, after=after)
        self._highest = None if highest is None else float(highest)
        self._size = size
        self._left = most
        self._only = only
        self._step = min(first, size)
        self._over = False

    @property
    def last(self) -> tuple[bytes, bytes] | None:
        """The last entry that was read, with its score."""
        return self._set.last

    def page(self) -> Program[list[Row] | None]:
        """Return the matching rows of the next page."""
        if self._over:
            return None
        flat = yield from self._set.take(self._step)
        if not flat:
            self._over = True
            return None
        self._over = self._set.over
        ids, scores = flat[::2], flat[1::2]
        if self._highest is not None:
            ids, scores = self._within(ids, scores, self._highest)
        if self._left is not None:
            ids, scores = ids[: self._left], scores[: self._left]
            self._left -= len(ids)
            self._over = self._over or self._left == 0
        self.scanned += len(ids)
        return (yield from self._rows(ids, scores)) if ids else []

    def _within(self, ids: list[bytes], scores: list[bytes], highest: float) -> tuple[list[bytes], list[bytes]]:
        """Those up to the highest score. Behind them is nothing more; in `ready`, the next priority."""
        last = float(scores[-1])
        if self.state == State.READY:
            fitting = [n for n, score in enumerate(scores) if float(score) % BAND <= highest]
            if last % BAND > highest:
                self._over = self._over or last >= MAX_NUMBER
                self._set.jump((int(last) // BAND + 1) * BAND)
        elif last <= highest:
            return ids, scores
        else:
            self._over = True
            fitting = [n for n, score in enumerate(scores) if float(score) <= highest]
        return [ids[n] for n in fitting], [scores[n] for n in fitting]

    def _rows(self, ids: list[bytes], scores: list[bytes]) -> Program[list[Row]]:
        needs, state, queue = self._needs, self.state, self.queue
        columns: dict[str, list[bytes | None]] = {}
        largest = 0
        parts = needs.parts if needs.early is not None or not needs.body else (*needs.parts, "body")
        if parts:
            for part, values in zip(parts, (yield from read_values(queue, parts, ids)), strict=True):
                columns[part] = values
                largest = max(largest, sum(map(len, filter(None, columns[part]))))
        now, plain = self.now, needs.plain
        since = self._since(scores)
        rows = [Row(queue, state, i, s, now, plain, at) for i, s, at in zip(ids, scores, since, strict=True)]
        for part, values in columns.items():
            put(rows, part, values)
        self._pace(len(ids), largest)
        if needs.early is not None:
            rows = list(filter(needs.early, rows))
        if needs.full is not None:
            if "body" not in columns and rows:
                yield from fill(queue, "body", rows)
            rows = list(filter(needs.full, rows))
        return rows if self._only is None else list(filter(self._only, rows))

    def _since(self, scores: list[bytes]) -> Sequence[int | None]:
        """Return when jobs came into their state, if their scores are that time."""
        try:
            return list(map(int, scores)) if self.state in ENDED else [None] * len(scores)
        except ValueError:  # a score with a fraction is none of ours
            return [None] * len(scores)

    def _pace(self, count: int, largest: int) -> None:
        """Pages grow until one kind of value in them takes a few MB."""
        average = largest // count + 1
        self._step = max(1, min(self._size, self._step * 4, _BYTES // average))


def put(rows: Sequence[Row], part: str, values: Sequence[bytes | None]) -> None:
    """Give rows what was read of them."""
    deque(map(setattr, rows, repeat(f"{part}_raw"), values), maxlen=0)  # a loop in C


def fill(queue: str, part: str, rows: Sequence[Row]) -> Program[None]:
    """Read one kind of value of these jobs."""
    [values] = yield from read_values(queue, (part,), [row.raw_id for row in rows])
    put(rows, part, values)
