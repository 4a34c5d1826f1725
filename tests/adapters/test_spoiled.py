"""A job that its adapter fails to read: it says so, and the others are listed as if it was not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.test_recall import Line
from qdeck.adapters import State
from qdeck.admin import Reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck.adapters import Entry, Program, Raw


class Fragile(Line):
    """An adapter whose author thought that every id is a number."""

    def fill(self, queue: str, raws: Sequence[Raw], now: int) -> Program[list[Entry]]:
        for raw in raws:
            int(raw.member)
        return (yield from super().fill(queue, raws, now))


def test_one_that_cannot_be_read_takes_no_other_with_it(url: str, raw: redis.Redis) -> None:
    raw.rpush("shop:line", *range(7), "seven", *range(8, 20))
    adapter = Fragile()
    with Reader(url) as reader:
        jobs = reader.run(adapter.page("line", (State.READY,))).jobs
    assert len(jobs) == 20
    [spoiled] = [job for job in jobs if getattr(job, "problem", None)]
    assert spoiled.id == "seven"
    assert "it cannot be read: ValueError" in str(getattr(spoiled, "problem", ""))
