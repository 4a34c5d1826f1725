"""The numbers of groups: what they were not given, and what their consumers were given and did not acknowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._model.values import Measure, QueueRow
from qdeck._model.words import Unreadable
from qdeck._redis import reads
from qdeck._redis.commands import text_of
from qdeck._redis.errors import is_error
from qdeck.adapters.model import Look, age_s
from qdeck.adapters.streams.groups import ConsumerGroup, Place, is_topic, moment, read_consumers, read_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program
    from qdeck.adapters.streams.groups import Consumer, PendingLimits

MOST_PENDING: Final = 10_000  # entries of a group that are looked at
MOST_COUNTED: Final = 1_000  # entries that are read where the server cannot say how many a group was not given


def read(adapter: str, streams: Sequence[bytes], limits: PendingLimits, now: int) -> Program[Look]:
    """Read the groups of these streams."""
    known = yield from read_groups(streams)
    rows = [
        QueueRow(adapter=adapter, name=text_of(stream), problem=Unreadable.of(said, text_of(stream), "stream"))
        for stream, said in known.items()
        if isinstance(said, Exception)
    ]
    groups = [group for said in known.values() if not isinstance(said, Exception) for group in said]
    consumers = yield from read_consumers([group.place for group in groups])
    replies = yield from reads.try_each([_commands(group) for group in groups])
    notices: list[str] = []
    for group, (pending, waiting) in zip(groups, replies, strict=True):
        row = _row(adapter, group, consumers[group.place], pending, waiting, limits, now)
        rows.append(row)
        if row.ready is None:
            notices.append(f"{row.name}: over {MOST_COUNTED:,} entries wait; the server does not count them")
        if group.pending > MOST_PENDING:
            notices.append(f"{row.name}: {group.pending:,} entries are pending, the first {MOST_PENDING:,} are read")
    bare = [stream for stream, said in known.items() if said == []]
    without, unheard = yield from _without_groups(adapter, bare, now)
    measure = Measure(
        name="events_without_subscriber", what="events of topics without a subscriber", value=sum(unheard.values()),
        limit=0,
    )  # fmt: skip
    notices += [f"{name}: {count:,} events, and no service subscribed" for name, count in unheard.items()]
    return Look(
        rows=tuple(sorted([*rows, *without], key=lambda row: row.name)), notices=tuple(notices),
        measures=(measure,) if any(map(is_topic, known)) else (),
    )  # fmt: skip


def _commands(group: ConsumerGroup) -> list[Command]:
    count = 1 if group.lag is not None else MOST_COUNTED
    return [
        (b"XPENDING", *group.place, b"-", b"+", MOST_PENDING),
        (b"XRANGE", group.place.stream, b"(" + group.last, b"+", b"COUNT", count),
    ]


def _row(
    adapter: str,
    group: ConsumerGroup,
    consumers: Sequence[Consumer],
    pending: Any,
    waiting: Any,
    limits: PendingLimits,
    now: int,
) -> QueueRow:
    rows = [] if is_error(pending) else pending
    dead = sum(limits.is_dead(deliveries, idle) for _, _, idle, deliveries in rows)
    stuck = sum(limits.is_stuck(idle) for _, _, idle, _ in rows) - dead
    entries = [] if is_error(waiting) else waiting
    ready = group.lag
    if ready is None and not is_error(waiting) and len(entries) < MOST_COUNTED:
        ready = len(entries)
    return QueueRow(
        adapter=adapter, name=group.place.queue, ready=ready, running=group.pending - dead, dead=dead, stuck=stuck,
        oldest_s=age_s(now, moment(entries[0][0])) if entries else None,
        workers=sum(not limits.is_stuck(one.idle_ms) for one in consumers),
    )  # fmt: skip


def _without_groups(adapter: str, streams: Sequence[bytes], now: int) -> Program[tuple[list[QueueRow], dict[str, int]]]:
    """Read streams that have no group: all entries of one of a service wait, those of a topic have no reader.

    Return the topics that have events, too, with their number.
    """
    replies = yield from reads.try_each(
        [[(b"XLEN", stream), (b"XRANGE", stream, b"-", b"+", b"COUNT", 1)] for stream in streams]
    )
    rows, unheard = list[QueueRow](), dict[str, int]()
    for stream, (size, first) in zip(streams, replies, strict=True):
        name = Place(stream, b"").queue
        count, oldest = reads.number(size), None if is_error(first) or not first else moment(first[0][0])
        if not is_topic(stream):
            rows.append(QueueRow(adapter=adapter, name=name, ready=count, running=0, dead=0, stuck=0, workers=0,
                                 oldest_s=age_s(now, oldest)))  # fmt: skip
        else:
            rows.append(QueueRow(adapter=adapter, name=name, running=0, dead=0, stuck=0, workers=0))
            if count:
                unheard[name] = count
    return rows, unheard
