"""Streams, their consumer groups and consumers, as the server describes them; each group is a queue.

A queue has the name of its stream, and of its group behind `@` where that is not `{service}-group`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from qdeck._engine.stored_numbers import digits
from qdeck._redis import reads
from qdeck._redis.commands import raw_of, text_of
from qdeck._redis.errors import ReplyCode, code_of, is_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._redis.commands import Command, Program

NAMED: Final = re.compile(rb"(?:^|:)(?P<service>[^:@]+):(?P<kind>streams|notifications):[^:@]+$")
"""The streams that are queues: `…:service:streams:main`, and the topics of a service."""


class Place(NamedTuple):
    """A group of a stream; an empty one stands for a stream without groups."""

    stream: bytes
    group: bytes

    @classmethod
    def of(cls, queue: str) -> Place:
        """Return the group that a queue is."""
        stream, at, group = queue.partition("@")
        key = raw_of(stream)
        return cls(key, raw_of(group) if at else _usual(key))

    @property
    def queue(self) -> str:
        """The name of the queue."""
        name = text_of(self.stream)
        return name if self.group in (b"", _usual(self.stream)) else f"{name}@{text_of(self.group)}"


def is_topic(stream: bytes) -> bool:
    """Return whether every group of a stream is a subscriber, which gets the events from then on."""
    found = NAMED.search(stream)
    return found is not None and found["kind"] == b"notifications"


def _usual(stream: bytes) -> bytes:
    """Return the group that the workers of a service make; a topic has none."""
    found = NAMED.search(stream)
    return b"" if found is None or is_topic(stream) else found["service"] + b"-group"


class Consumer(NamedTuple):
    """A consumer of a group. Idle is the time since it last requested anything."""

    name: bytes
    pending: int
    idle_ms: int


class ConsumerGroup(NamedTuple):
    """A group: how many entries it was not given, how many are pending, and the last one it was given."""

    place: Place
    lag: int | None
    pending: int
    last: bytes


def read_groups(streams: Sequence[bytes]) -> Program[dict[bytes, list[ConsumerGroup] | Exception]]:
    """Read the groups of streams; an error for one that cannot be read. A stream that is gone is left out."""
    replies = yield from reads.try_all([(b"XINFO", b"GROUPS", stream) for stream in streams])
    found: dict[bytes, list[ConsumerGroup] | Exception] = {}
    for stream, reply in zip(streams, replies, strict=True):
        if not is_error(reply):
            found[stream] = [_group(stream, dict(reads.pairs(flat))) for flat in reply]
        elif code_of(reply) is not ReplyCode.NO_KEY:
            found[stream] = reply
    return found


def _group(stream: bytes, facts: Mapping[bytes, Any]) -> ConsumerGroup:
    place = Place(stream, facts[b"name"])
    return ConsumerGroup(place, facts.get(b"lag"), int(facts[b"pending"]), facts[b"last-delivered-id"])


def read_consumers(places: Sequence[Place]) -> Program[dict[Place, list[Consumer]]]:
    """Read the consumers of groups; none of those that cannot be read."""
    calls: list[Command] = [(b"XINFO", b"CONSUMERS", *place) for place in places]
    replies = yield from reads.try_all(calls)
    return {
        place: [] if is_error(reply) else [_consumer(dict(reads.pairs(flat))) for flat in reply]
        for place, reply in zip(places, replies, strict=True)
    }


def _consumer(facts: Mapping[bytes, Any]) -> Consumer:
    return Consumer(facts[b"name"], int(facts[b"pending"]), int(facts[b"idle"]))


class PendingLimits(NamedTuple):
    """When a pending entry is stuck, and when it is a dead letter."""

    idle_ms: int
    deliveries: int

    def is_stuck(self, idle_ms: int | None) -> bool:
        """Return whether its consumer has had it for too long."""
        return idle_ms is not None and idle_ms >= self.idle_ms

    def is_dead(self, deliveries: int, idle_ms: int | None) -> bool:
        """Return whether it was given to consumers so often that it will not be done."""
        return deliveries >= self.deliveries and self.is_stuck(idle_ms)


def moment(entry_id: bytes) -> int | None:
    """Return when an entry was added, by its id."""
    return digits(entry_id.partition(b"-")[0])
