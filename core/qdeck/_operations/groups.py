"""Dead letters in groups: those with the same error class and the same shape of message belong together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from qdeck._deck import payload
from qdeck._deck.model import NATIVE, State
from qdeck._deck.queue_ref import InQueue
from qdeck._deck.values import read_values
from qdeck._engine import keys
from qdeck._engine.signatures import MAX_PATTERN, MAX_READ, VARIABLE_PARTS, pattern_of
from qdeck._engine.stored_numbers import require_integer
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck.adapters.native.records import Row
from qdeck.adapters.native.walk import Needs, Walk, fill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.model import Entry

MOST: Final = 1000  # groups; what is beyond them is counted as `other`
OTHER: Final = "other"
TREND: Final = 12  # parts of the last hour
PART_MS: Final = 300_000
_TRIES: Final = 3  # looks at counts while jobs die
_MOST_TREND: Final = 20_000  # dead letters that are read for that
_ANY: Final = re.compile(r"'…'|…@|#|…|\bN\b")  # what stands in a shape for what differs


def like(message: str | None) -> str:
    """What a filter on messages takes to find those of the same shape: a star for whatever differs or is no plain text.

    It is made from the message and not from its shape, which does not tell `N` from a number.
    """
    text = (message or "")[:MAX_READ]
    folded = re.sub(r" ?[^\S ][^\S]*| {2,}", "\0", VARIABLE_PARTS.sub(_starred, text))
    cut = len(message or "") > MAX_READ or len(folded) > MAX_PATTERN
    plain = "".join(char if char.isprintable() else "\0" for char in folded[:MAX_PATTERN]) + "\0" * cut
    escaped = _escaped(plain)
    return f'"{re.sub(chr(0) + "+", "*", escaped)}"'


def _starred(found: re.Match[str]) -> str:
    text = found[0]
    if found.lastgroup == "url":
        login, _, host = text.partition("/")[0].rpartition("@")
        return f"{chr(0) * bool(login)}{VARIABLE_PARTS.sub(_starred, host)}/\0"
    return f"{text[0]}\0{text[-1]}" if found.lastgroup == "quoted" else "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(InQueue):
    """Dead letters of one queue that died of the same.

    `where` is a filter that finds them; `trend` says how many died in each part of the last hour, oldest first, where
    so few died that they could be read one by one.
    """

    error_class: str
    message_shape: str
    queue: str
    count: int
    first_ms: int
    last_ms: int
    newest_id: str | None = None
    where: str = ""
    trend: tuple[int, ...] = ()
    adapter: str = NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """All groups, the largest first. `exact` is true when they are the counts that the queues themselves keep.

    Then `first_ms` is when the first came into the group since it was empty last, though that one may be gone.
    """

    groups: tuple[Group, ...]
    total: int
    exact: bool
    unread: tuple[str, ...] = ()
    """Queues that could not be read, with why."""


_Key = tuple[str, str, str, str]  # error class, shape of the message, queue, adapter


class Gathering:
    """Groups as they are found; memory is bounded by their number, not by that of the dead letters."""

    def __init__(self, most: int = MOST, now_ms: int = 0) -> None:
        self._most = most
        self._now_ms = now_ms
        self._found: dict[_Key, list[int]] = {}
        self._samples: dict[_Key, tuple[str | None, str]] = {}
        self._trends: dict[_Key, list[int]] = {}
        self.total = 0
        self.unread: list[str] = []

    def add(self, row: Row | Entry) -> None:
        """Counts one dead letter."""
        at, error = row.since_ms or 0, row.error or "unknown"
        key = self._key((error, payload.mask_text(pattern_of(error, row.message)), row.queue, row.adapter))
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = [0, at, at]
            self._samples[key] = (row.id, "" if key[0] == OTHER else where_of(error, row.message))
        self._sum(known, 1, at, at)
        ago = (self._now_ms - at) // PART_MS
        if 0 <= ago < TREND:
            self._trends.setdefault(key, [0] * TREND)[TREND - 1 - ago] += 1

    def put(self, kind: Kind, queue: str, sample: str | None, where: str, trend: list[int] | None) -> None:
        """Counts dead letters of one kind that the queue has counted."""
        key = self._key((kind.error, kind.text, queue, NATIVE))
        known = self._found.setdefault(key, [0, kind.first, kind.last])
        self._samples.setdefault(key, (sample, "" if key[0] == OTHER else where))
        self._sum(known, kind.size, kind.first, kind.last)
        if trend is not None:
            before = self._trends.get(key) or [0] * TREND
            self._trends[key] = [a + b for a, b in zip(before, trend, strict=True)]

    def _key(self, key: _Key) -> _Key:
        full = key not in self._found and len(self._found) >= self._most
        return (OTHER, "", key[2], key[3]) if full else key

    def _sum(self, known: list[int], count: int, first: int, last: int) -> None:
        self.total += count
        known[0] += count
        known[1], known[2] = min(known[1], first), max(known[2], last)

    def finish(self, *, exact: bool) -> Groups:
        """What was found."""
        groups = [
            Group(
                error_class=key[0], message_shape=key[1], queue=key[2], adapter=key[3], count=count, first_ms=first,
                last_ms=last, newest_id=self._samples[key][0], where=self._samples[key][1],
                trend=tuple(self._trends.get(key, ())),
            )
            for key, (count, first, last) in self._found.items()
        ]  # fmt: skip
        groups.sort(
            key=lambda group: (group.error_class == OTHER, -group.count, group.error_class, group.message_shape)
        )
        return Groups(
            groups=tuple(groups), total=self.total, exact=exact and not self.unread, unread=tuple(self.unread)
        )


def where_of(error: str, message: str | None) -> str:
    """A filter that finds the dead letters of the kind of this one."""
    return f"error:{_quoted(error)} message:{like(message)}"


def _quoted(error: str | None) -> str:
    return f'"{_escaped(error or "")}"'


def _escaped(text: str) -> str:
    return re.sub(r'(["*\\])', r"\\\1", text)


class GroupWalk:
    """A walk over the dead letters of one queue, page by page, for whoever shows what was found so far."""

    def __init__(self, queue: str, now_ms: int, gathering: Gathering, wanted: Filter | None = None) -> None:
        needs = Needs.of(wanted, now_ms, State.DEAD, always=("error",))
        self.queue, self.gathering = queue, gathering
        self.over = False
        self._walk = Walk(queue, State.DEAD, needs, now_ms, highest=now_ms)

    @property
    def scanned(self) -> int:
        """How many were looked at."""
        return self._walk.scanned

    def page(self) -> Program[int]:
        """Counts the next page and returns its size; afterwards `over` tells whether it was the last."""
        rows = yield from self._walk.page()
        self.over = rows is None
        for row in rows or ():
            self.gathering.add(row)
        return len(rows or ())


class Kind(NamedTuple):
    """Dead letters of one kind as their queue counts them; `sample` is the one that died last."""

    digest: bytes
    size: int
    first: int
    last: int
    sample: bytes
    error: str
    text: str


def take_counts(queue: str, gathering: Gathering, now: int) -> Program[bool]:
    """Takes the counts that the queue keeps; false when they are not those of all of its dead letters."""
    dead = keys.key(queue, "dead")
    for _ in range(_TRIES):
        before, flat, after = yield [(b"ZCARD", dead), (b"HGETALL", keys.key(queue, "groups")), (b"ZCARD", dead)]
        kinds = kinds_of(flat)
        if min(before, after) <= sum(kind.size for kind in kinds) <= max(before, after):
            break
    else:
        return False
    samples = yield from _samples(queue, kinds, now)
    trends = yield from _trends(queue, now)
    for kind in kinds:
        _put(gathering, queue, kind, samples.get(kind.sample), trends.get(kind.digest))
    return True


def read_counted(queues: Sequence[str]) -> Program[dict[str, Groups]]:
    """The groups of each of these queues as it counts them, without trends, in a few round trips for all of them.

    A queue that does not count all of its dead letters, or whose numbers moved while they were read, is left out.
    """
    now = yield from reads.clock()
    calls: list[Command] = []
    for queue in queues:
        dead = keys.key(queue, "dead")
        calls += [(b"ZCARD", dead), (b"HGETALL", keys.key(queue, "groups")), (b"ZCARD", dead)]
    replies = yield from reads.ask_all(calls)
    counted: dict[str, list[Kind]] = {}
    for queue, before, flat, after in zip(queues, replies[::3], replies[1::3], replies[2::3], strict=True):
        if not any(map(is_error, (before, flat, after))):
            kinds = [kind for digest, raw in reads.pairs(flat) if (kind := _read_kind(digest, raw)) is not None]
            if min(before, after) <= sum(kind.size for kind in kinds) <= max(before, after):
                counted[queue] = kinds
    samples = yield from _samples_of(counted, now)
    found = {}
    for queue, kinds in counted.items():
        gathering = Gathering(now_ms=now)
        for kind in kinds:
            _put(gathering, queue, kind, samples.get((queue, kind.sample)), None)
        found[queue] = gathering.finish(exact=True)
    return found


def _samples_of(counted: Mapping[str, Sequence[Kind]], now: int) -> Program[dict[tuple[str, bytes], Row]]:
    """The one of each kind that died last, where it is a dead letter still."""
    filled = {queue: kinds for queue, kinds in counted.items() if kinds}
    places = yield from reads.fetch_all(
        [(b"ZMSCORE", keys.key(queue, "dead"), *(kind.sample for kind in kinds)) for queue, kinds in filled.items()]
    )
    found = {}
    for (queue, kinds), scores in zip(filled.items(), places, strict=True):
        [values] = yield from read_values(queue, ("error",), [kind.sample for kind in kinds])
        for kind, score, value in zip(kinds, scores, values, strict=True):
            if score is not None:
                row = found[queue, kind.sample] = Row(queue, State.DEAD, kind.sample, score, now, True)
                row.put("error", value)
    return found


def _put(gathering: Gathering, queue: str, kind: Kind, row: Row | None, trend: list[int] | None) -> None:
    """Counts a kind; `row` is its sample, if that is there."""
    if row is not None and _shape(row) != (kind.error, kind.text):
        row = None  # it was retried, and died of something else
    # Of a kind whose last one is gone the shape has to do.
    message = _ANY.sub("0", kind.text) if row is None else row.message
    gathering.put(kind, queue, None if row is None else row.id, where_of(kind.error, message), trend)


def _shape(row: Row) -> tuple[str, str]:
    error = row.error or "unknown"
    return error, payload.mask_text(pattern_of(error, row.message))


def _samples(queue: str, kinds: Sequence[Kind], now: int) -> Program[dict[bytes, Row]]:
    if not kinds:
        return {}
    places = yield (b"ZMSCORE", keys.key(queue, "dead"), *(kind.sample for kind in kinds))
    rows = [
        Row(queue, State.DEAD, kind.sample, place, now, True)
        for kind, place in zip(kinds, places, strict=True)
        if place is not None
    ]
    yield from fill(queue, "error", rows)
    return {row.raw_id: row for row in rows}


def _trends(queue: str, now: int) -> Program[dict[bytes, list[int]]]:
    """How many died in each part of the last hour, by the digests of their groups; nothing when that were too many."""
    since = now - TREND * PART_MS + 1
    count = yield (b"ZCOUNT", keys.key(queue, "dead"), since, now)
    found: dict[bytes, list[int]] = {}
    if not 0 < count <= _MOST_TREND:
        return found
    needs = Needs.of(None, now, State.DEAD, always=("attempts",))
    walk = Walk(queue, State.DEAD, needs, now, lowest=since, highest=now)
    while (rows := (yield from walk.page())) is not None:
        for row in rows:
            words = (row.attempts_raw or b"").split()
            if len(words) == 4:
                part = TREND - 1 - (now - row.at) // PART_MS
                found.setdefault(words[3], [0] * TREND)[part] += 1
    return found


def kinds_of(flat: Sequence[bytes]) -> list[Kind]:
    """The kinds in a reply with all that a queue counts; what cannot be read is left out."""
    return [kind for digest, raw in reads.pairs(flat) if (kind := _read_kind(digest, raw)) is not None]


def _read_kind(digest: bytes, raw: bytes) -> Kind | None:
    numbers, _, rest = raw.partition(b"\n")
    error, _, text = rest.decode("utf-8", "replace").partition("\n")
    try:
        size, first, last, sample = numbers.split(b" ")
        # Whoever counted it folded what differs; a short secret of letters only does not look so.
        return Kind(
            digest,
            require_integer(size),
            require_integer(first),
            require_integer(last),
            sample,
            error,
            payload.mask_text(text),
        )
    except ValueError:
        return None
