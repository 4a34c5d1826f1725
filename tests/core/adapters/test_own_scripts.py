"""An adapter whose verb is a script of its own for many entries, in the conformance suite, and undone from cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from core.adapters.test_third_party import FAILED_MS, TestMinq, load, put
from qdeck import NotAllowed
from qdeck.adapters import Change, End, ScriptChange, Verb, adapter_script, cells, changes
from qdeck.admin import Writer
from qdeck.testing.adapters import contents
from support.counting import CountingProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from qdeck.adapters import Adapter, Context, Entry, Program, Skipped

RETRY: Final = adapter_script(
    "minq/retry",
    """
    -- KEYS: failed (sorted set), wait (list). Arguments: id, score as it was read.
    return function(args, keep)
      local id, score = args[1], args[2]
      local now = redis.call('ZSCORE', KEYS[1], id)
      if not now then return 'gone', KEYS[1] end
      if tonumber(now) ~= tonumber(score) then return 'changed', KEYS[1] end
      local record = 'minq:job:' .. id
      local error = redis.pcall('HGET', record, 'error')
      if type(error) == 'table' then return 'wrong_type', record end
      if error then
        keep('field', record, 'error', error, nil)
        redis.call('HDEL', record, 'error')
      end
      keep('score', KEYS[1], id, score, nil)
      redis.call('ZREM', KEYS[1], id)
      keep('entry', KEYS[2], id, nil, '', 'L')
      redis.call('LPUSH', KEYS[2], id)
    end
    """,
)


def make() -> Adapter:
    """Return minq with a retry of many jobs in one call."""
    module = load()

    class BulkMinq(module.Minq):  # type: ignore[misc,name-defined] # it is loaded from a file
        def changes(
            self, act: Verb, entries: Sequence[Entry], context: Context
        ) -> Program[Sequence[Change | ScriptChange | Skipped]]:
            found: list[Change | Skipped] = yield from super().changes(act, entries, context)
            if act is not Verb.RETRY:
                return found
            return [
                self._bulk(entry) if isinstance(change, Change) else change
                for entry, change in zip(entries, found, strict=True)
            ]

        def _bulk(self, entry: Entry) -> ScriptChange:
            seen = entry.seen
            assert seen.score is not None
            return ScriptChange(
                id=entry.id,
                script=RETRY,
                keys=(seen.key, module.key_of(entry.queue, b"wait")),
                args=(seen.member, seen.score),
                effect="from failed to the end of wait",
            )

    made: Adapter = BulkMinq()
    return made


class TestBulkMinq(TestMinq):
    def make(self) -> Adapter:
        return make()


def fail(raw: redis.Redis, count: int) -> None:
    """Put so many failed jobs into a queue."""
    raw.sadd("minq:queues", "mail")
    for number in range(count):
        put(raw, b"%d" % number, error="ValueError: bad")
        raw.zadd("minq:mail:failed", {str(number): FAILED_MS + number})


def retries(count: int, first: int = 0) -> list[ScriptChange]:
    return [
        ScriptChange(
            id=str(number),
            script=RETRY,
            keys=(b"minq:mail:failed", b"minq:mail:wait"),
            args=(b"%d" % number, b"%d" % (FAILED_MS + number)),
            effect="",
        )
        for number in range(first, first + count)
    ]


def test_one_call_makes_many_changes_and_each_is_undone_by_its_cells(url: str, raw: redis.Redis) -> None:
    fail(raw, 100)
    raw.rpush("minq:mail:wait", "first")
    before = contents(raw)
    raw.config_resetstat()
    with Writer(url) as writer:
        found = writer.write(changes.apply("minq", "b1", retries(100)))
        assert all(one.done and one.undoable for one in found)
        assert raw.lrange("minq:mail:wait", 0, -1) == [b"%d" % at for at in range(99, -1, -1)] + [b"first"]
        assert raw.zcard("minq:mail:failed") == 0
        stats: dict[str, Any] = raw.info("commandstats")
        assert stats["cmdstat_eval"]["calls"] + stats.get("cmdstat_evalsha", {"calls": 0})["calls"] <= 4
        then = contents(raw)
        again = writer.write(changes.apply("minq", "b1", retries(100)))
        assert [(one.done, one.undoable) for one in again] == [(True, True)] * 100
        assert contents(raw) == then
        back = writer.write(changes.undo("minq", "b1"))
        assert all(one.done for one in back)
    assert contents(raw) == before


def test_an_entry_that_changed_is_left_and_stops_no_other(url: str, raw: redis.Redis) -> None:
    fail(raw, 4)
    raw.zadd("minq:mail:failed", {"1": 5})
    raw.zrem("minq:mail:failed", "2")
    with Writer(url) as writer:
        found = writer.write(changes.apply("minq", "b1", retries(4)))
        assert [one.code for one in found] == [None, "changed", "gone", None]
        assert found[1].data == "minq:mail:failed"
        assert raw.lrange("minq:mail:wait", 0, -1) == [b"3", b"0"]
        assert [one.done for one in writer.write(changes.undo("minq", "b1"))] == [True, True]


def test_cells_and_scripts_of_one_slice_are_made_in_their_order(url: str, raw: redis.Redis) -> None:
    fail(raw, 6)
    raw.rpush("minq:mail:wait", "first")
    before = contents(raw)
    pushed = [
        Change(
            id=str(number),
            cells=(
                cells.score(b"minq:mail:failed", b"%d" % number, b"%d" % (FAILED_MS + number), None),
                cells.push(b"minq:mail:wait", b"%d" % number, End.LEFT),
            ),
            effect="",
        )
        for number in (2, 3)
    ]
    some: list[Change | ScriptChange] = [*retries(2), *pushed, *retries(2, first=4)]
    with Writer(url) as writer:
        assert all(one.done for one in writer.write(changes.apply("minq", "b1", some)))
        assert raw.lrange("minq:mail:wait", 0, -1) == [b"5", b"4", b"3", b"2", b"1", b"0", b"first"]
        assert all(one.done for one in writer.write(changes.undo("minq", "b1")))
    assert contents(raw) == before


def test_what_its_batch_keeps_is_bounded(url: str, raw: redis.Redis) -> None:
    fail(raw, 10)
    with Writer(url) as writer:
        found = writer.write(changes.apply("minq", "b1", retries(10), keep_bytes=700))
        assert all(one.done for one in found)
        kept = sum(one.undoable for one in found)
        assert 0 < kept < 10
        assert found[-1].bytes <= 700
        assert sum(one.done for one in writer.write(changes.undo("minq", "b1"))) == kept


def test_nothing_is_written_where_a_right_is_missing(url: str, raw: redis.Redis) -> None:
    fail(raw, 3)
    before = contents(raw)
    raw.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~*", "&*", "+@all", "-lpush")
    try:
        with Writer(url.replace("redis://", "redis://few:pw@")) as writer, pytest.raises(NotAllowed):
            writer.write(changes.apply("minq", "b1", retries(3)))
    finally:
        raw.execute_command("ACL", "DELUSER", "few")
    assert contents(raw) == before


def test_a_slice_is_bounded_in_changes_and_in_bytes(url: str, raw: redis.Redis) -> None:
    """What goes to the server in one round trip is few changes, and not many bytes."""
    big = b"x" * 300_000
    some = [Change(id=str(at), cells=(cells.string(b"t%d" % at, None, big),), effect="") for at in range(8)]
    with CountingProxy.before(url) as proxy, Writer(proxy.url) as writer:
        assert all(one.done for one in writer.write(changes.apply("minq", "b1", some)))
        trips = sum(request.starts_trip for request in proxy.requests() if request.name == "evalsha")
    assert trips >= 3
    assert raw.get("t7") == big
