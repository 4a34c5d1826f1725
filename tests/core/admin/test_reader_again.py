"""Looking again: whatever changed in a queue since the last look is noticed, also what others wrote into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Writer

if TYPE_CHECKING:
    import redis

    from qdeck.admin import QueueRow

META = "{mail}:meta"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("limit", "-", "counters"),
        ("limit", "3", None),
        ("rate", "-", "counters"),
        ("rate", "10 60", None),
        ("paused", "-", None),
        ("ready", "-", "counters"),
        ("v", "3", "layout 3"),
        ("v", "1", "layout 1"),
    ],
)
def test_a_field_that_comes_and_goes_is_noticed(
    url: str, raw: redis.Redis, field: str, value: str, problem: str | None
) -> None:
    raw.hset("qdeck:queues", "mail", 1)
    raw.hset(META, mapping={"v": 2, "dead_letter": 3})
    with Writer(url) as writer:

        def look() -> QueueRow:
            [row] = writer.snapshot().queues
            return row

        before = look()
        raw.hset(META, field, value)
        changed = look()
        assert changed != before
        assert (changed.problem is None) if problem is None else problem in str(changed.problem)
        if field == "v":
            raw.hset(META, "v", 2)
        else:
            raw.hdel(META, field)
        after = look()
    assert (after.problem, after.dead, after.limit, after.rate, after.paused) == (None, 3, None, None, False)


def test_a_key_of_another_kind_that_goes_leaves_the_queue_as_it_was(url: str, raw: redis.Redis) -> None:
    raw.hset("qdeck:queues", "mail", 1)
    raw.set(META, "x")
    with Writer(url) as writer:
        [row] = writer.snapshot().queues
        assert "another type" in str(row.problem)
        raw.delete(META)
        assert writer.snapshot().queues == ()
        raw.hset(META, mapping={"v": 2, "dead_letter": 3})
        [row] = writer.snapshot().queues
        assert (row.problem, row.dead) == (None, 3)
