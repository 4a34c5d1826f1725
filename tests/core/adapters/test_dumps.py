"""What a real VMPooler left, field by field, at one moment; and every adapter on one deck."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from core.adapters.test_conformance import FILL, load_dump
from qdeck.adapters import discovery
from qdeck.adapters.paging import every
from qdeck.adapters.vmpooler.adapter import VmPooler
from qdeck.admin import State, Writer

if TYPE_CHECKING:
    import redis

    from qdeck.admin import Entry

WRITTEN = int(datetime(2026, 11, 18, 5, 58, 34, tzinfo=UTC).timestamp() * 1000)
NOW = WRITTEN + 8000_000


def look(writer: Writer) -> VmPooler:
    adapter = VmPooler()
    writer.run(discovery.look([adapter], discovery.Remembered(passes={})))
    return adapter


def by_id(writer: Writer, adapter: VmPooler, queue: str) -> dict[str, Entry]:
    return {entry.id: entry for entry in writer.run(every(adapter, queue, tuple(State), most=1000))}


def test_rows_after_failures(url: str, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1c_after_failures.json")
    with Writer(url) as writer:
        rows = {row.name: row for row in writer.run(look(writer).rows(NOW)).rows}
    pool = rows["centos-7"]
    assert (pool.delayed, pool.ready, pool.running, pool.done, pool.dead) == (2, 1, 0, 0, 3)
    assert (pool.stuck, pool.oldest_s) == (2, 8000.0)
    empty = rows["debian-12"]
    assert (empty.delayed, empty.ready, empty.running, empty.done, empty.dead, empty.oldest_s) == (0, 0, 0, 0, 0, None)
    assert rows["requests:on-demand"].running == 1
    assert rows["tasks:create"].ready == 1


def test_a_checked_out_vm_in_two_sets_counts_once(url: str, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1d_final.json")
    raw.sadd("vmpooler__running__debian-12", "run-me")
    with Writer(url) as writer:
        adapter = look(writer)
        rows = {row.name: row for row in writer.run(adapter.rows(NOW)).rows}
        assert rows["debian-12"].running == 1
        entry = by_id(writer, adapter, "debian-12")["run-me"]
        assert (entry.native_state, entry.since_ms) == ("running", WRITTEN)
        assert rows["centos-7"].dead == 5
        assert rows["centos-7"].done == 1
        completed = writer.run(every(adapter, "centos-7", (State.DONE,), most=10))
        assert [(e.id, e.age_s) for e in completed] == [("calm-otter", None)]  # never destroyed: unknown


def test_dead_letters_field_by_field(url: str, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1d_final.json")
    with Writer(url) as writer:
        adapter = look(writer)
        dead = {e.id: e for e in writer.run(every(adapter, "centos-7", (State.DEAD,), most=100))}
    assert set(dead) == {"od-badx", "od-bady", "sad-clone", "brisk-heron", "calm-otter"}
    letter = dead["od-bady"]
    assert (letter.error, letter.message) == ("RuntimeError", "network timeout talking to vcenter")
    assert (letter.attempts, letter.queue_from, letter.failed_ms) == (2, "clone", WRITTEN)
    assert set(letter.tags) == {"kind:clone", "request:req-1", "alias:el7"}
    assert dead["brisk-heron"].attempts is None  # a timeout without a request has no count


def test_every_adapter_on_one_deck(url: str, raw: redis.Redis) -> None:
    load_dump(raw, "dump_s1d_final.json")
    for name in ("ifdb", "lists", "scheduler"):
        FILL[name]().populate(raw)
    raw.set("scheduler:queue:priority:other", "unrelated")
    with Writer(url, adapters=("native", "lists", "vmpooler", "ifdb", "scheduler")) as writer:
        writer.enqueue("shop:actions", "t")
        seen = writer.snapshot()
        assert seen.adapters == ("native", "lists", "vmpooler", "ifdb", "scheduler")
        for row in seen.queues:
            listed = list(writer.jobs(row.name))
            assert listed, row.name
            assert writer.job(row.name, listed[0].key if row.adapter != "native" else listed[0].id).id == listed[0].id
        assert [found.adapter for found in writer.find("brisk-heron")] == ["vmpooler"]
