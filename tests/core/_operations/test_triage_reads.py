"""What a screen for dead letters and long lists reads: parts by their place, the limits, and filters for groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from core._operations.yard import QUEUE, Yard
from qdeck.adapters.groups import like
from qdeck.adapters.native.dead_limits import KEEP_MS, read_headroom
from qdeck.adapters.native.list_window import read_some, read_stretch
from qdeck.admin import parse

if TYPE_CHECKING:
    from qdeck.admin import Writer


def said(message: str | None) -> Any:
    """A record of which only the message is asked for."""
    return SimpleNamespace(message=message)


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("job 7 timed out after 12.5 s", "job 81 timed out after 1 s"),
        ("no such user 'ana'", "no such user 'bo*b'"),
        ("502 for https://a1.example/in/3dde (x)", "502 for https://a1.example/out/?q=1 (x)"),
        ("no https://me:***@a.example:80/in/3dde", "no https://me:***@a.example:81/x"),
        ('a star * and a "quote" and \\', 'a star * and a "word" and \\'),
        ("two\nlines  and\ttabs 5", "two\nlines  and\ttabs 6"),
        ("long " * 400 + "1", "long " * 400 + "2"),
        ("\x1b[2J 0x7f3a2b1c", "\x1b[2J 0x00000000"),
        (None, None),
    ],
)
def test_the_filter_of_a_group_finds_messages_of_its_shape(message: str | None, other: str | None) -> None:
    found = parse(f"message:{like(message)}").compile(0)
    assert found(said(message))
    assert found(said(other))
    assert not found(said("something else altogether"))


def test_each_group_has_a_filter_that_finds_it(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(40)
    yard.die(event={"class": "KeyError", "message": "'ana' \"x\""})
    yard.die(event={"class": "KeyError"})
    for group in writer.groups(QUEUE).groups:
        plan = writer.plan("retry", QUEUE, where=group.where)
        assert plan.count == group.count, group.where
    newest = next(group for group in writer.groups(QUEUE).groups if group.error_class == "KeyError")
    assert sum(newest.trend) == newest.count
    assert newest.trend[-1] == newest.count


def test_the_filter_of_a_group_does_not_follow_a_job_that_died_of_something_else(writer: Writer, yard: Yard) -> None:
    yard.die(event={"class": "Refused", "message": "502 for a"})
    last = yard.die(event={"class": "Refused", "message": "503 for a"})
    writer.apply(writer.plan("retry", QUEUE, ids=[last]))
    [job] = yard.claim()
    yard.end(job, **{"class": "KeyError", "message": "'ana'"})
    groups = writer.groups(QUEUE).groups
    assert {group.error_class: group.count for group in groups} == {"Refused": 1, "KeyError": 1}
    for group in groups:
        assert writer.plan("retry", QUEUE, where=group.where).count == 1


def test_a_stretch_of_a_list_and_jobs_by_their_ids(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(100)
    first = writer.run(read_stretch(QUEUE, "dead", 0, 30))
    assert (len(first.jobs), first.total) == (30, 100)
    end = writer.run(read_stretch(QUEUE, "dead", 90, 30))
    assert (len(end.jobs), end.first) == (10, 90)
    oldest = writer.run(read_stretch(QUEUE, "dead", 0, 1, newest=False)).jobs[0]
    assert oldest.id == end.jobs[-1].id
    assert oldest.payload() is not None
    writer.apply(writer.plan("retry", QUEUE, ids=[oldest.id]))
    [moved, gone] = writer.run(read_some(QUEUE, [oldest.id, "nobody"]))
    assert moved is not None
    assert moved.state == "ready"
    assert gone is None
    assert writer.run(read_stretch("demo:none:actions", "ready", 5, 10)).jobs == ()


def test_headroom_is_that_of_the_queue(writer: Writer, yard: Yard) -> None:
    yard.bulk_dead(3)
    [room] = writer.run(read_headroom([QUEUE]))
    assert (room.count, room.most, room.keep_ms, room.dropped) == (3, 100_000, KEEP_MS, 0)
    assert room.oldest_ms is not None
