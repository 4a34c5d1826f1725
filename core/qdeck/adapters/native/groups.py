"""Dead letters of native queues in groups, as the queues count them by class and shape of the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._engine import keys
from qdeck._engine.stored_numbers import require_integer
from qdeck._model import payload
from qdeck._model.queue_ref import QueueRef
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.errors import is_error
from qdeck.adapters.groups import PART_MS, TREND, CountedGroup, Gathering
from qdeck.adapters.native.records import Row
from qdeck.adapters.native.walk import Needs, Walk, fill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.groups import Groups

_TRIES: Final = 3  # reads of the counts while jobs die
_MOST_TREND: Final = 20_000  # dead letters that are read for the trends


class GroupWalk:
    """Counts the dead letters of one queue page by page, so that intermediate results can be shown."""

    def __init__(self, queue: str, now_ms: int, gathering: Gathering, wanted: Filter | None = None) -> None:
        needs = Needs.of(wanted, now_ms, State.DEAD, always=("error",))
        self.queue, self.gathering = queue, gathering
        self.over = False
        self._walk = Walk(queue, State.DEAD, needs, now_ms, highest=now_ms)

    @property
    def scanned(self) -> int:
        """The number of dead letters that were read."""
        return self._walk.scanned

    def page(self) -> Program[int]:
        """Count the next page and return its size; `over` is then whether it was the last."""
        rows = yield from self._walk.page()
        self.over = rows is None
        for row in rows or ():
            self.gathering.add(row)
        return len(rows or ())


def take_counts(queue: QueueRef, gathering: Gathering, now: int) -> Program[bool]:
    """Take the counts that the queue keeps; return false if they do not cover all of its dead letters."""
    for _ in range(_TRIES):
        counted = yield from _read_counts([queue.name])
        if counted:
            break
    else:
        return False
    samples = yield from _read_samples(counted, now)
    trends = yield from _trends(queue.name, now)
    for group in counted[queue.name]:
        gathering.put(group, queue, samples.get((queue.name, group.sample)), trends.get(group.digest))
    return True


def read_counted(adapter: str, queues: Sequence[str]) -> Program[dict[str, Groups]]:
    """Return the groups that each of these queues counts, without trends, in a few round trips for all of them.

    A queue that does not count all of its dead letters, or whose numbers moved while they were read, is left out.
    """
    now = yield from reads.clock()
    counted = yield from _read_counts(queues)
    samples = yield from _read_samples(counted, now)
    found = {}
    for queue, groups in counted.items():
        gathering = Gathering(now_ms=now)
        for group in groups:
            gathering.put(group, QueueRef(adapter, queue), samples.get((queue, group.sample)), None)
        found[queue] = gathering.finish(exact=True)
    return found


def _read_counts(queues: Sequence[str]) -> Program[dict[str, list[CountedGroup]]]:
    """Return the counts of the queues that count all of their dead letters, and did not change meanwhile."""
    calls: list[Command] = []
    for queue in queues:
        dead = keys.key(queue, "dead")
        calls += [(b"ZCARD", dead), (b"HGETALL", keys.key(queue, "groups")), (b"ZCARD", dead)]
    replies = yield from reads.try_all(calls)
    counted: dict[str, list[CountedGroup]] = {}
    for queue, before, flat, after in zip(queues, replies[::3], replies[1::3], replies[2::3], strict=True):
        if not any(map(is_error, (before, flat, after))):
            groups = read_groups(flat)
            if min(before, after) <= sum(group.size for group in groups) <= max(before, after):
                counted[queue] = groups
    return counted


def _read_samples(counted: Mapping[str, Sequence[CountedGroup]], now: int) -> Program[dict[tuple[str, bytes], Row]]:
    """Return the newest dead letter of each group, if it is still dead."""
    filled = {queue: groups for queue, groups in counted.items() if groups}
    places = yield from reads.fetch_all(
        [(b"ZMSCORE", keys.key(queue, "dead"), *(group.sample for group in some)) for queue, some in filled.items()]
    )
    found: dict[tuple[str, bytes], Row] = {}
    for (queue, groups), scores in zip(filled.items(), places, strict=True):
        rows = [
            Row(queue, State.DEAD, group.sample, score, now, True)
            for group, score in zip(groups, scores, strict=True)
            if score is not None
        ]
        yield from fill(queue, "error", rows)
        found |= {(queue, row.raw_id): row for row in rows}
    return found


def _trends(queue: str, now: int) -> Program[dict[bytes, list[int]]]:
    """Return how many died in each part of the last hour, by the digests of their groups; none if too many."""
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


def read_groups(flat: Sequence[bytes]) -> list[CountedGroup]:
    """Return the groups in a reply with all that a queue counts, without what cannot be read."""
    return [group for digest, raw in reads.pairs(flat) if (group := _read_group(digest, raw)) is not None]


def _read_group(digest: bytes, raw: bytes) -> CountedGroup | None:
    numbers, _, rest = raw.partition(b"\n")
    error, _, text = rest.decode("utf-8", "replace").partition("\n")
    try:
        size, first, last, sample = numbers.split(b" ")
        # Whoever counted it folded what differs; a short secret of letters only does not look so.
        return CountedGroup(
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
