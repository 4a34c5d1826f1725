"""Changes of other systems' keys on a cluster: each with what undoes it in the slot of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from redis.crc import key_slot

from qdeck._redis import reads
from qdeck.adapters import CapabilityCode, Change, End, Verb, cells, changes, make
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck.adapters import Command
    from support.clusters import Cluster

TAGS = ("bull", "other", "third", "fourth")


@pytest.fixture
def writer(cluster: Cluster) -> Iterator[Writer]:
    with Writer(cluster.url) as writer:
        yield writer


def moved(number: int) -> Change:
    """A job that goes from a sorted set to a list, under the tag of its queue."""
    tag, job = TAGS[number % len(TAGS)].encode(), b"%d" % number
    out = cells.score(b"{%b}:failed" % tag, job, b"%d" % number, None)
    return Change(id=str(number), cells=(out, cells.push(b"{%b}:wait" % tag, job, End.LEFT)), effect="")


def fill(writer: Writer, count: int) -> None:
    """Put so many jobs into the sorted sets."""
    back = [(one.id, one.cells[0]) for one in map(moved, range(count))]
    some = [Change(id=job, cells=(cells.score(out.key, out.ident, None, out.before),), effect="") for job, out in back]
    assert all(one.done for one in writer.write(changes.apply("any", "fill", some)))


def state(writer: Writer) -> dict[str, list[object]]:
    """What is in the sorted set and the list of each tag."""
    keys = [f"{{{tag}}}:".encode() for tag in TAGS]
    calls: list[Command] = [
        call for key in keys for call in ((b"ZRANGE", key + b"failed", 0, -1), (b"LRANGE", key + b"wait", 0, -1))
    ]
    found = writer.run(reads.fetch_all(calls))
    return {tag: found[2 * number : 2 * number + 2] for number, tag in enumerate(TAGS)}


def test_the_tags_are_in_several_slots() -> None:
    assert len({key_slot(tag.encode()) for tag in TAGS}) == len(TAGS)


def test_a_batch_over_several_slots_is_made_once_and_undone(writer: Writer) -> None:
    fill(writer, 200)
    before = state(writer)
    some = [moved(number) for number in range(200)]
    assert all(one.done and one.undoable for one in writer.write(changes.apply("any", "b1", some)))
    then = state(writer)
    assert all(not failed for failed, _ in then.values())
    assert all(one.done for one in writer.write(changes.apply("any", "b1", some)))
    assert state(writer) == then
    assert writer.run(changes.done_places("any", "b1", [*range(200), 900])) == [*[True] * 200, None]
    undone = writer.write(changes.undo("any", "b1"))
    assert [one.code for one in undone] == [None] * 200
    assert state(writer) == before
    assert writer.write(changes.undo("any", "b1")) == []


def test_what_a_batch_keeps_is_bounded_over_all_slots(writer: Writer) -> None:
    fill(writer, 200)
    some = [moved(number) for number in range(200)]
    found = writer.write(changes.apply("any", "b1", some, keep_bytes=4000))
    assert all(one.done for one in found)
    kept = sum(one.undoable for one in found)
    assert 0 < kept < 200
    assert max(one.bytes for one in found) <= 4000
    assert sum(one.done for one in writer.write(changes.undo("any", "b1"))) == kept


def test_a_verb_that_would_write_in_several_slots_is_disabled() -> None:
    adapter = make("ifdb")
    assert "retry" in adapter.able()
    adapter.in_cluster = True
    assert adapter.able() == []
    assert adapter.states("retry") == ()
    assert adapter.why_not("retry") == "ifdb cannot retry: the keys of a job are in several slots of the cluster"
    assert adapter.verbs()[Verb.RETRY].code is CapabilityCode.CLUSTER
    assert adapter.verbs()[Verb.CANCEL] == adapter.capabilities()[Verb.CANCEL]
