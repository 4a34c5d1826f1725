"""Random cells on random keys: what a batch of them did is undone whole, with order and times to live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qdeck.adapters import cells, changes
from qdeck.adapters.cells import ANY, THERE, Cell, Change, End
from qdeck.admin import Writer
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

LATER: Final = 4_000_000_000_000
WORDS: Final = (b"a", b"b", b"c", b"\x00\xff")
KEYS: Final = {b"h": "hash", b"z": "zset", b"m": "set", b"l": "list", b"k": "list", b"t": "string"}
words = st.sampled_from(WORDS)
lives = st.sampled_from([None, LATER, LATER + 7])


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def content(raw: redis.Redis) -> dict[bytes, tuple[object, int]]:
    """All that is there but what undoes a batch, with the moment at which each key ends."""
    return {key: (value, raw.pexpiretime(key.decode())) for key, value in values(raw).items()}


FILLS: Final[dict[str, Callable[[redis.Redis, bytes, list[bytes]], object]]] = {
    "hash": lambda raw, key, some: raw.hset(key.decode(), mapping={word: word for word in some}),
    "zset": lambda raw, key, some: raw.zadd(key.decode(), {word: len(word) + at for at, word in enumerate(some)}),
    "set": lambda raw, key, some: raw.sadd(key.decode(), *some),
    "list": lambda raw, key, some: raw.rpush(key.decode(), *some),
    "string": lambda raw, key, some: raw.set(key.decode(), b"".join(some)),
}


@st.composite
def keyspaces(draw: st.DrawFn) -> dict[bytes, tuple[list[bytes], int | None]]:
    """Some of the keys, each with what is in it and when it ends."""
    there = draw(st.lists(st.sampled_from(sorted(KEYS)), unique=True))
    return {key: (draw(st.lists(words, min_size=1, max_size=6)), draw(lives)) for key in there}


@st.composite
def some_cells(draw: st.DrawFn) -> Cell:
    """A cell of any kind but those of streams; `before` is what is there, whatever that is."""
    word, value = draw(words), draw(st.sampled_from([None, b"1", b"2.5"]))
    there = draw(st.sampled_from([None, THERE]))
    end, at = draw(st.sampled_from(End)), draw(st.integers(-4, 3) | st.none())
    return draw(
        st.sampled_from(
            [
                cells.field(b"h", word, ANY, value),
                cells.score(b"z", word, ANY, value),
                cells.member(b"m", word, ANY, there),
                cells.string(b"t", ANY, value),
                cells.take(draw(st.sampled_from([b"l", b"k"])), word, end, at),
                cells.push(draw(st.sampled_from([b"l", b"k"])), word, end),
                cells.expiry(draw(st.sampled_from(sorted(KEYS))), ANY, b"%d" % (LATER + draw(st.integers(1, 5)))),
                cells.expiry(draw(st.sampled_from(sorted(KEYS))), ANY, None),
                cells.expiry_later(draw(st.sampled_from(sorted(KEYS))), LATER + 3),
                cells.whole_key(draw(st.sampled_from(sorted(KEYS))), THERE),
                cells.rename(draw(st.sampled_from([b"l", b"k", b"aside"])), draw(st.sampled_from([b"aside", b"k"]))),
            ]
        )
    )


def is_sound(change: list[Cell]) -> bool:
    """Whether no two cells of a change are of one value, and none of a key that another one moves or removes."""
    known = [(cell.kind, cell.key, cell.ident) for cell in change if cell.kind != "entry"]
    whole = [key for cell in change if cell.kind in ("key", "rename") for key in (cell.key, cell.ident) if key]
    touched = [cell.key for cell in change if cell.kind not in ("key", "rename")]
    return len(known) == len(set(known)) and len(whole) == len(set(whole)) and not set(whole) & set(touched)


sound = st.lists(some_cells(), min_size=1, max_size=4).filter(is_sound)
batches = st.lists(sound, min_size=1, max_size=8)


def fill(raw: redis.Redis, keyspace: dict[bytes, tuple[list[bytes], int | None]]) -> None:
    raw.flushall()
    for key, (some, ends) in keyspace.items():
        FILLS[KEYS[key]](raw, key, some)
        if ends is not None:
            raw.pexpireat(key.decode(), ends)


def run(writer: Writer, batch: list[list[Cell]]) -> list[Any]:
    some = [Change(id=str(number), cells=tuple(one), effect="") for number, one in enumerate(batch)]
    return writer.write(changes.apply("any", "b1", some))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keyspace=keyspaces(), batch=batches)
def test_a_batch_is_undone_whole(
    writer: Writer, raw: redis.Redis, keyspace: dict[bytes, tuple[list[bytes], int | None]], batch: list[list[Cell]]
) -> None:
    fill(raw, keyspace)
    before = content(raw)
    run(writer, batch)
    undone = writer.write(changes.undo("any", "b1"))
    assert {one.code for one in undone} <= {None}
    assert content(raw) == before


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(st.integers(1, 12), min_size=1, max_size=12, unique=True), given_to=st.integers(0, 12))
def test_entries_of_a_stream_come_back_in_their_order(
    writer: Writer, raw: redis.Redis, ids: list[int], given_to: int
) -> None:
    """In whatever order they went; a group is given them as new ones, and keeps what is pending of the others."""
    raw.flushall()
    raw.xgroup_create("s", "g", "0", mkstream=True)
    for number in range(1, 13):
        raw.xadd("s", {"n": number}, id=f"{number}-1")
    if given_to:
        raw.xreadgroup("g", "worker", {"s": ">"}, count=given_to)
    batch: list[list[Cell]] = []
    for number in ids:
        deleted = cells.stream_delete(b"s", b"%d-1" % number)
        pending = cells.pending(b"s", b"g", b"%d-1" % number)
        batch.append([pending, deleted] if number <= given_to else [deleted])
    assert all(one.done for one in run(writer, batch))
    assert [one.code for one in writer.write(changes.undo("any", "b1"))] == [None] * len(ids)
    kept = [number for number in range(1, 13) if number not in ids]
    now: Any = raw.xrange("s")
    assert [int(fields[b"n"]) for _, fields in now] == [*kept, *sorted(ids)]
    assert raw.xpending("s", "g")["pending"] == len([number for number in kept if number <= given_to])
    fresh: Any = raw.xreadgroup("g", "worker", {"s": ">"}, count=100) or [(b"s", [])]
    late = [number for number in kept if number > given_to]
    assert [int(fields[b"n"]) for _, fields in fresh[0][1]] == [*late, *sorted(ids)]


def test_an_entry_that_is_taken_once_comes_back_once(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("l", "a", "b")
    taken = cells.take(b"l", b"a", End.LEFT)
    assert run(writer, [[taken, taken]])[0].done
    assert writer.write(changes.undo("any", "b1"))[0].done
    assert raw.lrange("l", 0, -1) == [b"a", b"b"]
