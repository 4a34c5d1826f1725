"""A walk through a sorted set that changes meanwhile: what stays is met once, and its end is not asked for twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdeck.adapters.sorted_sets import SortedSet
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

KEY = "sorted"
# Between two pages: what happens to a member. Nothing gets a score between those that were met and those to come.
CHANGES = st.lists(st.tuples(st.sampled_from(["remove", "first", "last"]), st.integers(0, 19)), max_size=4)


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    scores=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    size=st.integers(1, 7),
    down=st.booleans(),
    changes=st.lists(CHANGES, max_size=12),
)
def test_what_stays_is_met_once_however_the_rest_moves(
    writer: Writer, raw: redis.Redis, scores: list[int], size: int, down: bool, changes: list[Any]
) -> None:
    raw.delete(KEY)
    raw.zadd(KEY, {f"m{at:02d}": score for at, score in enumerate(scores)})
    stays = {f"m{at:02d}".encode() for at in range(len(scores))}
    walk, met = SortedSet(KEY.encode(), down=down), Counter[bytes]()
    for at in range(100):
        flat = writer.run(walk.take(size))
        met.update(flat[::2])
        if walk.over or not flat:
            break
        for what, number in changes[at] if at < len(changes) else ():
            member = f"m{number:02d}"
            stays.discard(member.encode())
            if what == "remove":
                raw.zrem(KEY, member)
            elif number < len(scores):
                raw.zadd(KEY, {member: 9 if (what == "last") != down else -1})
    assert walk.over
    assert {member for member in stays if met[member] != 1} == set()


def test_a_page_that_is_not_full_is_the_last(writer: Writer, raw: redis.Redis) -> None:
    raw.zadd(KEY, {f"m{at}": at for at in range(5)})
    walk = SortedSet(KEY.encode())
    assert (len(writer.run(walk.take(3))), walk.over) == (6, False)
    raw.config_resetstat()
    assert (writer.run(walk.take(3))[::2], walk.over) == ([b"m3", b"m4"], True)
    assert writer.run(walk.take(3)) == []
    assert raw.info("commandstats")["cmdstat_zrange"]["calls"] == 1
