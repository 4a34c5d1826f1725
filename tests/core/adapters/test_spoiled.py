"""A job that its adapter fails to read: it says so, and the others are listed as if it was not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.adapters.test_recall import Line
from qdeck.adapters import Entry, Seen, State
from qdeck.admin import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck.adapters import Program, Raw, Want


class Fragile(Line):
    """An adapter whose author thought that every id is a number."""

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        for raw in raws:
            int(raw.member)
        return (yield from super().fill(queue, raws, now, want))


def test_one_that_cannot_be_read_takes_no_other_with_it(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:line", *range(7), "seven", *range(8, 20))
    adapter = Fragile()
    with Reader(url) as reader:
        jobs = reader.run(adapter.page("line", (State.READY,))).jobs
    assert len(jobs) == 20
    [spoiled] = [job for job in jobs if getattr(job, "problem", None)]
    assert spoiled.id == "seven"
    assert "it cannot be read: ValueError" in str(getattr(spoiled, "problem", ""))


def test_neither_does_it_when_planned_jobs_are_read_again(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:line", "1", "two", "3")
    adapter = Fragile()
    with Reader(url) as reader:
        jobs = reader.run(adapter.page("line", (State.READY,))).jobs
        planned = [Seen.parse(str(job.seen)) for job in jobs if isinstance(job, Entry)]
        again = reader.run(adapter.recall("line", "ready", planned, 0))
    assert [entry and entry.id for entry in again] == ["1", "two", "3"]


def test_one_of_several_of_a_system_names_it_once(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:line", "one")
    adapter = Fragile()
    adapter.name = "line@eu"
    with Reader(url) as reader:
        [spoiled] = reader.run(adapter.page("line", (State.READY,))).jobs
    assert (spoiled.adapter, spoiled.key) == ("line@eu", "line@eu/line/waiting/one")
