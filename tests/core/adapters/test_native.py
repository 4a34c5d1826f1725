"""The native queue as an adapter: what the class of all adapters does with its sources is what it does by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck import InvalidOption, UnknownJob
from qdeck.adapters import Adapter, Seen, every
from qdeck.admin import NATIVE, QueueRef, State, Writer
from support.yard import QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

STATES = tuple(State)


@pytest.fixture
def yard(url: str, raw: redis.Redis) -> Iterator[Yard]:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "t")  # makes the queue
        yard = Yard(writer, raw)
        yard.keep_all()
        for _ in range(3):
            yard.ready(50)
        yard.delayed(5)
        yard.running(10)
        for state in ("done", "dead", "cancelled"):
            yard.ended(state, 100)
        yield yard


def test_it_is_the_adapter_of_native_queues(yard: Yard) -> None:
    adapters, run = yard.writer.adapters, yard.writer.run
    for name in (QUEUE, f"{NATIVE}/{QUEUE}", QueueRef(NATIVE, QUEUE)):
        assert run(adapters.resolve(name)) == (QueueRef(NATIVE, QUEUE), adapters.native)
    assert isinstance(adapters.native, Adapter)
    assert [row.name for row in run(adapters.native.rows(0)).rows] == [QUEUE]


def test_its_sources_hold_the_jobs_of_its_pages(yard: Yard) -> None:
    native, run = yard.writer.adapters.native, yard.writer.run
    for state in STATES:
        entries = run(every(native, QUEUE, (state,), most=100))
        jobs = run(native.page(QUEUE, (state,))).jobs
        assert [(one.key, one.state, one.body) for one in entries] == [(one.key, one.state, one.body) for one in jobs]
    assert len(run(every(native, QUEUE, STATES, most=100))) == 9


def test_a_job_that_was_seen_is_recalled_until_it_changes(yard: Yard) -> None:
    native, writer = yard.writer.adapters.native, yard.writer
    seen = [Seen.parse(str(entry.seen)) for entry in writer.run(every(native, QUEUE, (State.DEAD,), most=100))]
    [again] = writer.run(native.recall(QUEUE, "dead", seen, yard.now_ms))
    assert again is not None
    writer.apply(writer.plan("retry", queues=QUEUE, where="state:dead"))
    assert writer.run(native.recall(QUEUE, "dead", seen, yard.now_ms)) == [None]


def test_a_job_is_given_by_its_id_or_its_key(yard: Yard) -> None:
    native, run = yard.writer.adapters.native, yard.writer.run
    for job in run(native.page(QUEUE, STATES)).jobs:
        for wanted in (job.id, job.key):
            entry = run(native.entry(QUEUE, wanted))
            assert entry is not None
            assert (entry.key, entry.state) == (job.key, job.state)
            assert yard.writer.job(QUEUE, wanted).key == job.key
    assert run(native.entry(QUEUE, "nobody")) is None
    with pytest.raises(UnknownJob):
        yard.writer.job(QUEUE, "nobody")


def test_why_it_cannot_is_told_as_of_every_adapter(yard: Yard) -> None:
    native = yard.writer.adapters.native
    assert "does not support expire" in native.why_not("expire")
    assert native.why_not("edit", State.DEAD) == ""
    assert "applies to dead jobs" in yard.writer.why_not(NATIVE, "retry", "ready")


def test_what_only_native_queues_have_is_refused_elsewhere(url: str, raw: redis.Redis) -> None:
    raw.zadd("ifdb:task_queue", {"t1": 1})
    raw.hset("ifdb:task_data", "t1", '{"pending": true}')
    with Writer(url) as writer:
        [row] = writer.snapshot().queues
        for act in (writer.pause, writer.resume, writer.limit, lambda queue: writer.draft(queue, "t1")):
            with pytest.raises(InvalidOption, match=r"ifdb (does not support|cannot be paused)"):
                act(row.ref)
