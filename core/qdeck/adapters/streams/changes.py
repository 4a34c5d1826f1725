"""The changes of verbs in streams, as cells.

Workers read only what their group was not given, so an entry that is to be done again is added again: its id, which the
group was given, is acknowledged in the same step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis.commands import text_of
from qdeck.adapters import cells
from qdeck.adapters.cells import Change
from qdeck.adapters.model import Entry, Skipped
from qdeck.adapters.streams.entries import delivery_of
from qdeck.adapters.streams.groups import Place

if TYPE_CHECKING:
    from collections.abc import Sequence


def build(act: Verb, entry: Entry, groups: Sequence[Place], dead_at: int) -> Change:
    """Return the change of a verb for one entry; `groups` are those of its stream.

    `dead_at` is the delivery count of a dead letter. A group has no place for dead letters, and a copy in another key
    has no reader, so an entry is buried by its count alone.
    """
    seen, place = entry.seen, Place.of(entry.queue)
    stream, others = text_of(seen.key), [text_of(group.group) for group in groups if group != place]
    if act is Verb.DISCARD and entry.state is State.READY:
        if others:
            raise Skipped.because(f"the other groups would lose it: {', '.join(others[:3])}")
        deleted = cells.stream_delete(seen.key, seen.member, seen.value)
        return Change(id=entry.id, cells=(deleted,), effect=f"deleted from {stream}")
    if entry.state is State.RUNNING and entry.stuck is None:
        raise Skipped.because(f"consumer {entry.worker} received it a short while ago")
    done = cells.pending(seen.key, place.group, seen.member, seen.score)
    if act is Verb.DISCARD:
        return Change(id=entry.id, cells=(done,), effect="acknowledged; it stays in the stream")
    if seen.value is None:
        raise Skipped.because("it was deleted from the stream")
    if act is Verb.BURY:
        after = b"%d:%b" % (dead_at, delivery_of(seen.score)[1])
        buried = cells.pending(seen.key, place.group, seen.member, seen.score, after)
        return Change(id=entry.id, cells=(buried,), effect=f"its delivery count is set to {dead_at}")
    if others:
        raise Skipped.because(f"added again, it would reach the other groups, too: {', '.join(others[:3])}")
    added = cells.stream_add(seen.key, *cells.unpacked(seen.value))
    effect = f"added to the end of {stream}, the old entry acknowledged"
    return Change(id=entry.id, cells=(done, added), effect=effect)
