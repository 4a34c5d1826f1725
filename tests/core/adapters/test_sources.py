"""Sources of every kind: in which order their entries are listed, page by page, and with what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.adapters import Kind, Raw, Source, State, cells, read_slice
from qdeck.admin import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

KEY = b"shop:orders"


def source(kind: Kind, *, down: bool = False) -> Source:
    return Source(key=KEY, kind=kind, state=State.READY, native_state="x", down=down, group=b"packers")


@pytest.fixture
def reader(url: str) -> Iterator[Reader]:
    with Reader(url) as found:
        yield found


def walk(reader: Reader, source: Source, most: int = 2) -> list[Raw]:
    """All entries of a source, read in small pages."""
    raws: list[Raw] = []
    mark: str | None = ""
    while mark is not None:
        page, mark = reader.run(read_slice(source, mark, most))
        raws += page
    return raws


def test_a_list_is_listed_from_the_end_that_is_consumed(reader: Reader, raw: redis.Redis) -> None:
    raw.rpush(KEY, "a", "b", "c", "d", "e")
    left, right = walk(reader, source(Kind.LIST)), walk(reader, source(Kind.LIST, down=True))
    assert [(one.member, one.at) for one in left] == [(b"a", 0), (b"b", 1), (b"c", 2), (b"d", 3), (b"e", 4)]
    assert [(one.member, one.at) for one in right] == [(b"e", -1), (b"d", -2), (b"c", -3), (b"b", -4), (b"a", -5)]
    assert [raw.lindex(KEY, one.at or 0) for one in right] == [one.member for one in right]


def test_a_stream_is_what_its_group_was_not_given_and_what_it_was(reader: Reader, raw: redis.Redis) -> None:
    ids = [raw.xadd(KEY, {"n": number, "m": "x"}) for number in range(7)]
    raw.xgroup_create(KEY, "packers", "0")
    raw.xreadgroup("packers", "ann", {KEY: ">"}, count=3)
    raw.xreadgroup("packers", "bob", {KEY: ">"}, count=1)
    raw.xack(KEY, "packers", ids[1])
    raw.xdel(KEY, ids[2])

    to_come = walk(reader, source(Kind.STREAM))
    assert [one.member for one in to_come] == ids[4:]
    assert cells.unpacked(to_come[0].value or b"") == [b"n", b"4", b"m", b"x"]

    pending = walk(reader, source(Kind.PENDING), most=1)
    assert [(one.member, one.score) for one in pending] == [(ids[0], b"1:ann"), (ids[2], b"1:ann"), (ids[3], b"1:bob")]
    assert pending[1].value is None  # it was deleted, and is pending all the same
    assert all(one.idle_ms is not None and one.idle_ms >= 0 for one in pending)


def test_without_its_group_nothing_of_a_stream_is_pending(reader: Reader, raw: redis.Redis) -> None:
    ids = [raw.xadd(KEY, {"n": 1}) for _ in range(3)]
    assert [one.member for one in walk(reader, source(Kind.STREAM))] == ids
    assert walk(reader, source(Kind.PENDING)) == []


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.NAMES])
def test_a_key_that_is_absent_or_of_another_type_has_none(reader: Reader, raw: redis.Redis, kind: Kind) -> None:
    assert walk(reader, source(kind)) == []
    raw.set(KEY, "text")
    assert walk(reader, source(kind)) == []
