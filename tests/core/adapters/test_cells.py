"""Every kind of cell on a real server: made, found changed, undone, and refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from qdeck import NotAllowed
from qdeck.adapters import cells, changes
from qdeck.adapters.cells import ANY, GUARD, THERE, Cell, Change, End
from qdeck.admin import Writer
from qdeck.testing.adapters import values
from support.brands import redis_binary
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from qdeck.adapters.changes import ChangeResult
    from support.servers import Server

LATER = 4_000_000_000_000


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url) as writer:
        yield writer


def made(writer: Writer, *some: Cell, batch: str = "b1", place: int = 0, **options: Any) -> ChangeResult:
    """One change of an entry `e`."""
    change = Change(id="e", cells=some, effect="changed")
    [outcome] = writer.write(changes.apply("any", batch, [change], places=[place], **options))
    return outcome


def undone(writer: Writer, batch: str = "b1") -> list[ChangeResult]:
    return writer.write(changes.undo("any", batch))


def content(raw: redis.Redis) -> dict[bytes, tuple[object, int]]:
    """All that is there but what undoes a batch, with the moment at which each key ends."""
    found: dict[bytes, tuple[object, int]] = {}
    for key, value in values(raw).items():
        found[key] = (value, raw.pexpiretime(key.decode()))
    return found


def entries(raw: redis.Redis) -> list[object]:
    """The entries of the stream `s`, without their ids."""
    return [fields for _, fields in raw.xrange("s") or []]


class Case(NamedTuple):
    """A cell: what is there, what is there then, and what somebody else may do before and after it."""

    fill: Callable[[redis.Redis], object]
    cell: Cell
    then: Callable[[redis.Redis], bool]
    before: Callable[[redis.Redis], object] | None = None
    code: str = "changed"
    after: Callable[[redis.Redis], object] | None = None
    code_after: str = "changed"


def _stream(raw: redis.Redis) -> None:
    raw.xadd("s", {"f": "1"}, id="1-1")
    raw.xgroup_create("s", "g", "0")
    raw.xreadgroup("g", "worker", {"s": ">"})


CASES = {
    "field": Case(
        lambda raw: raw.hset("h", "f", "1"), cells.field(b"h", b"f", b"1", b"2"),
        lambda raw: raw.hget("h", "f") == b"2",
        lambda raw: raw.hset("h", "f", "3"), "changed", lambda raw: raw.hset("h", "f", "3"), "changed",
    ),
    "field, gone": Case(
        lambda raw: raw.hset("h", mapping={"f": "1", "g": "1"}), cells.field(b"h", b"f", b"1", None),
        lambda raw: raw.hgetall("h") == {b"g": b"1"},
        lambda raw: raw.hdel("h", "f"), "gone", lambda raw: raw.hset("h", "f", ""), "changed",
    ),
    "field, any": Case(
        lambda raw: raw.hset("h", "f", b"\x00\xff"), cells.field(b"h", b"f", ANY, b"2"),
        lambda raw: raw.hget("h", "f") == b"2",
    ),
    "field, any, absent": Case(
        lambda raw: raw.hset("h", "g", ""), cells.field(b"h", b"f", ANY, b"2"),
        lambda raw: raw.hget("h", "f") == b"2",
    ),
    "score": Case(
        lambda raw: raw.zadd("z", {"m": 1.5, "n": 1}), cells.score(b"z", b"m", b"1.5", b"2000000000000"),
        lambda raw: raw.zscore("z", "m") == 2_000_000_000_000,
        lambda raw: raw.zadd("z", {"m": 1}), "changed", lambda raw: raw.zrem("z", "m"), "gone",
    ),
    "score, gone": Case(
        lambda raw: raw.zadd("z", {"m": 1, "n": 1}), cells.score(b"z", b"m", b"1", None),
        lambda raw: raw.zrange("z", 0, -1) == [b"n"],
        lambda raw: raw.zrem("z", "m"), "gone", lambda raw: raw.zadd("z", {"m": 1}), "already_there",
    ),
    "score, of another number format": Case(
        lambda raw: raw.zadd("z", {"m": 1e20}), cells.score(b"z", b"m", b"100000000000000000000", b"1e21"),
        lambda raw: raw.zscore("z", "m") == 1e21,
    ),
    "member": Case(
        lambda raw: raw.sadd("m", "a", "b"), cells.member(b"m", b"a", THERE, None),
        lambda raw: raw.smembers("m") == {b"b"},
        lambda raw: raw.srem("m", "a"), "gone", lambda raw: raw.sadd("m", "a"), "already_there",
    ),
    "member, new": Case(
        lambda raw: raw.sadd("m", "b"), cells.member(b"m", b"a", None, THERE),
        lambda raw: raw.smembers("m") == {b"a", b"b"},
        lambda raw: raw.sadd("m", "a"), "already_there", lambda raw: raw.srem("m", "a"), "gone",
    ),
    "string": Case(
        lambda raw: raw.set("t", "1", pxat=LATER), cells.string(b"t", b"1", b"2"),
        lambda raw: (raw.get("t"), raw.pexpiretime("t")) == (b"2", LATER),
        lambda raw: raw.set("t", "3"), "changed", lambda raw: raw.delete("t"), "gone",
    ),
    "string, gone": Case(
        lambda raw: raw.set("t", "1", pxat=LATER), cells.string(b"t", b"1", None),
        lambda raw: not raw.exists("t"),
        lambda raw: raw.delete("t"), "gone", lambda raw: raw.set("t", "3"), "already_there",
    ),
    "expiry": Case(
        lambda raw: raw.set("t", "1"), cells.expiry(b"t", None, b"%d" % LATER),
        lambda raw: raw.pexpiretime("t") == LATER,
        lambda raw: raw.pexpireat("t", LATER), "already_there",
    ),
    "expiry, ended": Case(
        lambda raw: raw.set("t", "1", pxat=LATER), cells.expiry(b"t", b"%d" % LATER, None),
        lambda raw: raw.pexpiretime("t") == -1,
        lambda raw: raw.pexpireat("t", LATER + 1), "changed",
    ),
    "expiry, later": Case(
        lambda raw: raw.set("t", "1", pxat=LATER - 5), cells.expiry_later(b"t", LATER),
        lambda raw: raw.pexpiretime("t") == LATER,
    ),
    "key": Case(
        lambda raw: (raw.rpush("l", "b", "a", "b"), raw.pexpireat("l", LATER)), cells.whole_key(b"l"),
        lambda raw: not raw.exists("l"),
        None, "", lambda raw: raw.rpush("l", "c"), "already_there",
    ),
    "key, there": Case(
        lambda raw: raw.zadd("z", {"a": 1}), cells.whole_key(b"z", THERE),
        lambda raw: not raw.exists("z"),
        lambda raw: raw.delete("z"), "gone",
    ),
    "entry taken": Case(
        lambda raw: (raw.rpush("l", "a", "x", "b", "x", "c"), raw.pexpireat("l", LATER)),
        cells.take(b"l", b"x", End.RIGHT),
        lambda raw: raw.lrange("l", 0, -1) == [b"a", b"x", b"b", b"c"],
        lambda raw: raw.lrem("l", 0, "x"), "gone",
    ),
    "entry taken at its place": Case(
        lambda raw: raw.rpush("l", "x", "x", "b", "x", "c"), cells.take(b"l", b"x", End.LEFT, 1),
        lambda raw: raw.lrange("l", 0, -1) == [b"x", b"b", b"x", b"c"],
    ),
    "entry pushed": Case(
        lambda raw: raw.rpush("l", "x", "a"), cells.push(b"l", b"x", End.RIGHT),
        lambda raw: raw.lrange("l", 0, -1) == [b"x", b"a", b"x"],
        None, "", lambda raw: raw.lrem("l", 0, "x"), "gone",
    ),
    "entry pushed to a new list": Case(
        lambda raw: raw.rpush("other", "x"), cells.push(b"l", b"x", End.LEFT),
        lambda raw: raw.lrange("l", 0, -1) == [b"x"],
    ),
    "pending": Case(
        _stream, cells.pending(b"s", b"g", b"1-1", b"1:worker"),
        lambda raw: raw.xpending("s", "g")["pending"] == 0,
        lambda raw: raw.xclaim("s", "g", "other", 0, ["1-1"], force=True), "changed",
        lambda raw: raw.xdel("s", "1-1"), "gone",
    ),
    "stream, added": Case(
        _stream, cells.stream_add(b"s", b"f", b"2", b"", b"\x00:"),
        lambda raw: entries(raw)[-1] == {b"f": b"2", b"": b"\x00:"},
        None, "", lambda raw: raw.xreadgroup("g", "worker", {"s": ">"}), "changed",
    ),
    "rename": Case(
        lambda raw: (raw.rpush("l", "a"), raw.pexpireat("l", LATER)), cells.rename(b"l", b"aside"),
        lambda raw: (raw.exists("l"), raw.lrange("aside", 0, -1)) == (0, [b"a"]),
        lambda raw: raw.set("aside", ""), "already_there", lambda raw: raw.delete("aside"), "gone",
    ),
    "rename, again": Case(
        lambda raw: raw.rpush("l", "a"), cells.rename(b"l", b"aside"), lambda raw: bool(raw.exists("aside")),
        lambda raw: raw.delete("l"), "gone", lambda raw: raw.set("l", ""), "already_there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_is_made_once_and_undone(writer: Writer, raw: redis.Redis, name: str) -> None:
    case = CASES[name]
    case.fill(raw)
    before = content(raw)
    outcome = made(writer, case.cell)
    assert outcome.done, outcome.why
    assert outcome.undoable
    assert case.then(raw)
    then = content(raw)
    assert made(writer, case.cell).done
    assert content(raw) == then
    assert [one.done for one in undone(writer)] == [True]
    assert undone(writer) == []
    assert content(raw) == before


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.before])
def test_nothing_is_written_where_it_is_not_as_it_was(writer: Writer, raw: redis.Redis, name: str) -> None:
    case = CASES[name]
    assert case.before is not None
    case.fill(raw)
    raw.set("beside", "1")
    case.before(raw)
    before = content(raw)
    outcome = made(writer, cells.string(b"beside", b"1", b"2"), case.cell)
    assert (outcome.done, outcome.code) == (False, case.code)
    assert outcome.data == case.cell.key.decode()
    assert content(raw) == before
    assert raw.keys("qdeck:undo:*") == []


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.after])
def test_an_undo_leaves_what_changed_since(writer: Writer, raw: redis.Redis, name: str) -> None:
    case = CASES[name]
    assert case.after is not None
    case.fill(raw)
    raw.set("beside", "1")
    assert made(writer, cells.string(b"beside", b"1", b"2"), case.cell).done
    case.after(raw)
    before = content(raw)
    [outcome] = undone(writer)
    assert (outcome.done, outcome.code) == (False, case.code_after)
    assert outcome.why
    assert content(raw) == before


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_where_a_right_is_missing(url: str, raw: redis.Redis, name: str) -> None:
    """Each of the commands that a change needs is asked for before the first write."""
    case = CASES[name]
    case.fill(raw)
    raw.set("beside", "1")
    before = content(raw)
    monitored = {"field": "hset hdel", "score": "zadd zrem", "member": "sadd srem", "string": "set del"}
    monitored |= {"expiry": "pexpireat persist", "key": "unlink restore", "pending": "xack xclaim", "rename": "rename"}
    monitored |= {"entry": "lset lrem lpush rpush linsert", "stream": "xadd xdel"}
    denied = [f"-{name}" for name in monitored[case.cell.kind].split()]
    raw.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", *denied)
    try:
        with Writer(url.replace("redis://", "redis://few:pw@")) as writer, pytest.raises(NotAllowed):
            made(writer, cells.effect("INCR", b"count"), case.cell)
    finally:
        raw.execute_command("ACL", "DELUSER", "few")
    assert content(raw) == before


def test_a_key_of_another_type_is_left_as_it_is(writer: Writer, raw: redis.Redis) -> None:
    raw.hset("k", "f", "1")
    raw.set("beside", "1")
    before = content(raw)
    wrong = (
        cells.score(b"k", b"m", None, b"1"), cells.member(b"k", b"m", None, THERE), cells.string(b"k", None, b"1"),
        cells.take(b"k", b"e", End.LEFT), cells.take(b"k", b"e", End.LEFT, 3), cells.push(b"k", b"e", End.LEFT),
        cells.stream_add(b"k", b"f", b"v"), cells.stream_delete(b"k", b"1-1"), cells.pending(b"k", b"g", b"1-1"),
        cells.effect("SADD", b"k", b"m", kind="set"), cells.field(b"beside", b"f", None, b"1"),
    )  # fmt: skip
    for cell in wrong:
        outcome = made(writer, cells.string(b"beside", b"1", b"2"), cell)
        assert (outcome.done, outcome.code, outcome.data) == (False, "wrong_type", cell.key.decode()), cell
    assert content(raw) == before


def test_a_key_that_goes_with_its_last_entry_comes_back_with_its_time_to_live(writer: Writer, raw: redis.Redis) -> None:
    raw.zadd("z", {"m": 1})
    raw.sadd("m", "a")
    raw.rpush("l", "a")
    for key in "zml":
        raw.pexpireat(key, LATER)
    before = content(raw)
    last = (
        cells.score(b"z", b"m", b"1", None),
        cells.member(b"m", b"a", THERE, None),
        cells.take(b"l", b"a", End.LEFT),
    )
    assert made(writer, *last).done
    assert content(raw) == {}
    raw.rpush("l", "b")  # somebody made it anew, for good
    assert [one.done for one in undone(writer)] == [True]
    assert {key: found for key, found in content(raw).items() if key != b"l"} == {
        key: found for key, found in before.items() if key != b"l"
    }
    assert content(raw)[b"l"] == ([b"a", b"b"], -1)


def test_the_place_of_each_entry_of_a_list_comes_back(writer: Writer, raw: redis.Redis) -> None:
    entries = [b"a", b"b", b"same", b"c", b"same", b"d", b"e", b"same"]
    raw.rpush("l", *entries)
    taken = [(4, End.LEFT), (1, End.LEFT), (0, End.RIGHT), (2, End.RIGHT), (2, End.LEFT), (0, End.LEFT)]
    found = []
    for number, (place, end) in enumerate(taken):
        entry = entries[place if end is End.LEFT else -1 - place]
        at = place if end is End.LEFT else -1 - place
        found.append(Change(id=str(number), cells=(cells.take(b"l", entry, end, at),), effect=""))
    assert all(one.done for one in writer.write(changes.apply("any", "b1", found)))
    assert raw.lrange("l", 0, -1) == [b"c", b"e"]
    assert all(one.done for one in undone(writer))
    assert raw.lrange("l", 0, -1) == entries


def test_entries_are_found_at_their_places_after_what_was_taken(writer: Writer, raw: redis.Redis) -> None:
    """A search through the list would take the first of those that are equal."""
    raw.rpush("l", *([b"x", b"y"] * 50))
    some = [Change(id=str(at), cells=(cells.take(b"l", b"x", End.LEFT, at),), effect="") for at in range(40, 100, 2)]
    places = changes.ListShifts()
    writer.write(changes.apply("any", "b1", some, at=places))
    assert raw.lrange("l", 0, -1) == [b"x", b"y"] * 20 + [b"y"] * 30
    back = [Change(id="9", cells=(cells.take(b"l", b"x", End.LEFT, 38), cells.push(b"l", b"x", End.LEFT)), effect="")]
    writer.write(changes.apply("any", "b2", back, at=places))
    assert raw.lrange("l", 0, 1) == [b"x", b"x"]
    next_one = Change(id="8", cells=(cells.take(b"l", b"x", End.LEFT, 36),), effect="")
    writer.write(changes.apply("any", "b3", [next_one], at=places))
    assert raw.lrange("l", 0, 40) == [b"x"] + [b"x", b"y"] * 18 + [b"y"] * 4


def test_a_guard_is_looked_at_and_never_written(writer: Writer, raw: redis.Redis) -> None:
    raw.hset("h", "f", "1")
    raw.rpush("l", "a", "b")
    changed = cells.field(b"h", b"f", b"1", b"2")
    assert made(writer, changed, cells.size(b"l", 3)).code == "changed"
    assert made(writer, changed, cells.size(b"l", 2), cells.whole_key(b"none", None, GUARD)).done
    raw.lpop("l")
    assert [one.done for one in undone(writer)] == [True]
    assert raw.hgetall("h") == {b"f": b"1"}


def test_a_guard_of_the_undo_stops_the_undo_only(writer: Writer, raw: redis.Redis) -> None:
    raw.sadd("m", "a")
    raw.sadd("other", "a")
    absent = cells.member(b"other", b"a", None).guards_undo
    assert made(writer, cells.member(b"m", b"a", THERE, None), absent).done
    assert raw.smembers("other") == {b"a"}
    assert [one.code for one in undone(writer)] == ["already_there"]
    raw.srem("other", "a")
    assert [one.done for one in undone(writer)] == [True]
    assert raw.smembers("m") == {b"a"}


def test_a_part_that_changed_is_left_by_the_undo_and_stops_nothing(writer: Writer, raw: redis.Redis) -> None:
    raw.sadd("from", "a", "b")
    moved = [
        cell
        for name in (b"a", b"b")
        for cell in (
            cells.member(b"from", name, THERE, None, part=name),
            cells.member(b"to", name, None, THERE, part=name),
        )
    ]
    assert made(writer, *moved).done
    raw.srem("to", "a")
    assert [one.done for one in undone(writer)] == [True]
    assert raw.smembers("from") == {b"b"}
    assert not raw.exists("to")


def test_an_expiry_that_somebody_set_since_stays(writer: Writer, raw: redis.Redis) -> None:
    raw.set("t", "1")
    assert made(writer, cells.expiry(b"t", None, b"%d" % LATER)).done
    raw.pexpireat("t", LATER + 1000)
    assert [one.done for one in undone(writer)] == [True]
    assert raw.pexpiretime("t") == LATER + 1000


@pytest.mark.parametrize(("ends", "then"), [(-1, -1), (LATER + 5, LATER + 5), (LATER - 5, LATER), (None, LATER)])
def test_an_expiry_is_only_brought_later(writer: Writer, raw: redis.Redis, ends: int | None, then: int) -> None:
    if ends is not None:
        raw.sadd("m", "a")
    if ends is not None and ends > 0:
        raw.pexpireat("m", ends)
    before = content(raw)
    assert made(writer, cells.member(b"m", b"b", None, THERE), cells.expiry_later(b"m", LATER)).done
    assert raw.pexpiretime("m") == then
    assert [one.done for one in undone(writer)] == [True]
    assert content(raw) == before


def test_a_key_is_removed_only_with_the_content_that_was_read(writer: Writer, raw: redis.Redis) -> None:
    raw.rpush("l", "a", "b")
    digest = cells.digest(raw.dump("l"))
    raw.rpush("l", "c")
    assert made(writer, cells.whole_key(b"l", digest)).code == "changed"
    raw.rpop("l")
    assert made(writer, cells.whole_key(b"l", digest)).done
    assert [one.done for one in undone(writer)] == [True]
    assert raw.lrange("l", 0, -1) == [b"a", b"b"]


def test_a_pending_entry_comes_back_to_its_consumer_as_it_was(writer: Writer, raw: redis.Redis) -> None:
    _stream(raw)
    raw.xclaim("s", "g", "worker", 0, ["1-1"], idle=60_000, retrycount=7)
    assert made(writer, cells.pending(b"s", b"g", b"1-1", b"7:worker")).done
    raw.xgroup_delconsumer("s", "g", "worker")
    assert [one.done for one in undone(writer)] == [True]
    [entry] = raw.xpending_range("s", "g", "-", "+", 10)
    assert (entry["consumer"], entry["times_delivered"]) == (b"worker", 7)
    assert 60_000 <= int(entry["time_since_delivered"]) < 120_000


def test_an_entry_that_was_deleted_from_a_stream_comes_back_under_a_new_id(writer: Writer, raw: redis.Redis) -> None:
    raw.xadd("s", {"f": "1", "g": b"\xff"}, id="1-1")
    raw.xadd("s", {"f": "2"}, id="2-1")
    assert made(writer, cells.stream_delete(b"s", b"1-1")).done
    assert [one.done for one in undone(writer)] == [True]
    assert entries(raw) == [{b"f": b"2"}, {b"f": b"1", b"g": b"\xff"}]


def test_effects_run_at_the_end_and_stay(writer: Writer, raw: redis.Redis) -> None:
    raw.set("t", "1")
    raw.set("count", "many")
    listener = raw.pubsub()
    listener.subscribe("channel")
    listener.get_message(timeout=5)
    sent = made(
        writer, cells.effect("PUBLISH", None, b"channel", b"hello"), cells.effect("SADD", b"seen", b"e", kind="set"),
        cells.effect("INCR", b"count"), cells.string(b"t", b"1", b"2"),
    )  # fmt: skip
    assert sent.done
    assert "not an integer" in sent.failed
    message = listener.get_message(timeout=5)
    assert message is not None
    assert message["data"] == b"hello"
    assert [one.done for one in undone(writer)] == [True]
    assert (raw.get("t"), raw.smembers("seen")) == (b"1", {b"e"})
    listener.close()


def test_what_a_batch_keeps_is_bounded(writer: Writer, raw: redis.Redis) -> None:
    raw.set("big", os.urandom(5000))
    raw.hset("h", "f", "1")
    lost = made(writer, cells.whole_key(b"big"), keep_bytes=4000)
    assert (lost.done, lost.undoable, lost.bytes) == (True, False, 0)
    kept = made(writer, cells.field(b"h", b"f", b"1", b"2"), keep_bytes=4000, place=1)
    assert (kept.done, kept.undoable) == (True, True)
    assert 0 < kept.bytes < 200
    assert not made(writer, cells.whole_key(b"big"), keep_bytes=4000).undoable  # sent again
    found = undone(writer)
    assert [(one.done, one.code) for one in found] == [(True, None), (False, "undo_not_kept")]
    assert not raw.exists("big")


def test_a_batch_is_undone_from_its_last_change_to_its_first(writer: Writer, raw: redis.Redis) -> None:
    raw.set("t", "0")
    for number in range(120):
        value = (b"%d" % number, b"%d" % (number + 1))
        assert made(writer, cells.string(b"t", *value), place=number).done
    assert all(one.done for one in undone(writer))
    assert raw.get("t") == b"0"


def test_a_change_that_nothing_undoes_is_kept_nowhere(writer: Writer, raw: redis.Redis) -> None:
    raw.set("t", "1")
    change = Change(id="e", cells=(cells.string(b"t", b"1", b"2"),), effect="")
    assert writer.write(changes.apply_once(change)).done
    assert writer.write(changes.apply_once(change)).code == "changed"
    assert raw.keys("*") == [b"t"]


def test_every_kind_on_redis(make_server: Callable[..., Server]) -> None:
    """The same on the oldest server that qdeck supports."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("no Redis server here: apt-get install redis-tools")
    server = make_server(binary=binary)
    with raw_client(server.url) as raw, Writer(server.url) as writer:
        for case in CASES.values():
            raw.flushall()
            case.fill(raw)
            before = content(raw)
            outcome = made(writer, case.cell)
            assert outcome.done, outcome.why
            assert case.then(raw)
            assert [one.done for one in undone(writer)] == [True]
            assert content(raw) == before
