"""Samples: written small, read back whole, by whomever they were taken."""

from __future__ import annotations

import time
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdeck import UsageError
from qdeck._agent.history_sampler import HistorySampler
from qdeck._server import history
from qdeck._server.history import COARSE, FINE
from qdeck.admin import AsyncWriter, QueueRow, Sample, Writer
from support.agents import QUEUE, make_jobs

if TYPE_CHECKING:
    import redis

    from qdeck._redis import SyncClient

STEP = FINE.step_ms


def row(name: str = QUEUE, *, ready: int = 0, dead: int = 0, **totals: int) -> QueueRow:
    all_totals = dict.fromkeys(("enqueued", "done", "failed", "dead", "cancelled", "expired"), 0) | totals
    return QueueRow(name=name, ready=ready, dead=dead, totals=MappingProxyType(all_totals))


def start(steps_ago: int) -> int:
    now = int(time.time() * 1000)
    return now - now % STEP - steps_ago * STEP


def past(client: SyncClient, seconds: int = 86_400) -> list[Sample]:
    return client.run(history.read_history([QUEUE], seconds=seconds))[QUEUE]


numbers = st.integers(min_value=0, max_value=2**53)


@given(st.lists(st.tuples(st.integers(0, 179), numbers, numbers, numbers, numbers, numbers), max_size=20), st.data())
def test_what_was_packed_is_unpacked_and_a_torn_end_is_left_out(
    taken: list[tuple[int, ...]], data: st.DataObject
) -> None:
    samples = [
        Sample(at_ms=7 * FINE.chunk_ms + slot * STEP, ready=a, dead=b, enqueued=c, done=d, failed=e)
        for slot, a, b, c, d, e in taken
    ]
    parts = [history.pack(sample, FINE) for sample in samples]
    raw = b"".join(parts)
    assert history.unpack(raw, FINE, 7) == samples
    cut = data.draw(st.integers(0, len(raw)))
    whole = [sample for at, sample in enumerate(samples) if sum(map(len, parts[: at + 1])) <= cut]
    assert history.unpack(raw[:cut], FINE, 7) == whole


def test_what_a_newer_qdeck_adds_is_passed_over() -> None:
    sample = Sample(at_ms=STEP, ready=1, dead=2, enqueued=300, done=4, failed=5)
    packed = history.pack(sample, FINE)
    newer = bytes([packed[0] + 2]) + packed[1:] + b"\x80\x01\x07"
    assert history.unpack(newer + packed, FINE, 0) == [sample, sample]


def test_samples_come_back_in_order_and_idle_times_are_filled(client: SyncClient, url: str) -> None:
    sampler, first = HistorySampler(), start(30)
    for n in range(31):
        work = min(n, 10) if n < 25 else n
        client.run(sampler.take([row(ready=work, enqueued=100 + work)], first + n * STEP))
    make_jobs(client, 1)
    with Writer(url) as writer:
        found = writer.history(QUEUE, seconds=400)
    recent = [sample for sample in found if sample.at_ms >= first]
    assert [sample.at_ms for sample in recent] == [first + n * STEP for n in range(31)]
    assert [sample.ready for sample in recent] == [min(n, 10) if n < 25 else n for n in range(31)]


def test_a_time_without_agents_is_a_gap(client: SyncClient) -> None:
    first = start(30)
    client.run(HistorySampler().take([row(ready=1, enqueued=1)], first))
    client.run(HistorySampler().take([row(ready=2, enqueued=9)], first + 20 * STEP))
    found = past(client, 600)
    assert [sample.at_ms for sample in found if sample.at_ms >= first] == [first, first + 20 * STEP]


def test_nothing_happened_while_no_agent_ran_and_the_totals_are_the_same(client: SyncClient) -> None:
    first = start(30)
    client.run(HistorySampler().take([row(ready=1, enqueued=1)], first))
    client.run(HistorySampler().take([row(ready=1, enqueued=1)], first + 20 * STEP))
    found = past(client, 600)
    assert len([sample for sample in found if sample.at_ms >= first]) == 21


def test_two_agents_in_turns_tell_what_one_would(client: SyncClient, raw: redis.Redis) -> None:
    first, both = start(40), (HistorySampler(), HistorySampler())
    told = [0, 0, 0, 5, 5, 5, 5, 6, 6, 7, 7, 7, 7, 7, 0, 0, 0, 1, 2, 3, 3]
    for n, ready in enumerate(told):
        client.run(both[n % 2].take([row(ready=ready, enqueued=ready)], first + n * STEP))
    found = [sample for sample in past(client, 900) if sample.at_ms >= first]
    assert [sample.ready for sample in found] == told


def test_a_sample_written_twice_is_one(client: SyncClient) -> None:
    at = start(3)
    for _ in range(3):
        client.run(HistorySampler().take([row(ready=4, enqueued=4)], at))
    found = past(client, 300)
    assert [sample.ready for sample in found if sample.at_ms == at] == [4]


def test_an_hour_is_fine_and_the_day_before_it_by_the_minute(client: SyncClient) -> None:
    sampler = HistorySampler()
    begin = start(6 * 60 * 3)
    for n in range(6 * 60 * 3 + 1):
        client.run(sampler.take([row(ready=n, enqueued=n)], begin + n * STEP))
    found = past(client)
    now = int(time.time() * 1000)
    old = [sample.at_ms for sample in found if sample.at_ms < now - FINE.keep_ms - 60_000]
    new = [sample.at_ms for sample in found if sample.at_ms > now - FINE.keep_ms]
    assert {b - a for a, b in pairwise(old)} == {COARSE.step_ms}
    assert {b - a for a, b in pairwise(new)} == {FINE.step_ms}
    assert len(old) >= 115
    assert len(new) >= 358


def test_memory_is_bounded(client: SyncClient, raw: redis.Redis) -> None:
    sampler, begin = HistorySampler(), start(6 * 60 * 2)
    for n in range(6 * 60 * 2):
        rows = [
            row("idle:service:actions", ready=3, enqueued=3),
            row("busy:service:actions", ready=n, enqueued=n * 999),
        ]
        client.run(sampler.take(rows, begin + n * STEP))
    sizes = {b"idle": 0, b"busy": 0}
    for key in raw.scan_iter("{*}:history:*"):
        assert 0 < raw.ttl(key) <= (COARSE.keep_ms + COARSE.chunk_ms) / 1000
        if b"}:history:s" in key:
            assert raw.ttl(key) <= (FINE.keep_ms + FINE.chunk_ms) / 1000
        sizes[key[1:5]] += raw.strlen(key)
    assert sizes[b"idle"] < 200
    assert sizes[b"busy"] < 12_000, "two hours; a day by the minute and an hour by ten seconds are 27 KB at most"


def test_who_looks_for_the_first_time_has_rates(client: SyncClient, url: str) -> None:
    make_jobs(client, 50)
    with Writer(url) as writer:
        [seen] = writer.snapshot().queues
        assert seen.in_per_s is None
    at = int(time.time() * 1000) - 10_000
    client.run(HistorySampler().take([row(ready=0, enqueued=0)], at))
    with Writer(url) as writer:
        [seen] = writer.snapshot().queues
    assert seen.in_per_s == pytest.approx(5, rel=0.2)
    assert seen.out_per_s == 0


def test_an_old_sample_tells_no_rate(client: SyncClient, url: str) -> None:
    make_jobs(client, 50)
    client.run(HistorySampler().take([row(enqueued=0)], int(time.time() * 1000) - 120_000))
    with Writer(url) as writer:
        assert writer.snapshot().queues[0].in_per_s is None


def test_a_queue_that_is_gone_is_forgotten(client: SyncClient, raw: redis.Redis) -> None:
    sampler, at = HistorySampler(), start(5)
    client.run(sampler.take([row("a:b:actions"), row("c:d:actions")], at))
    client.run(sampler.take([row("c:d:actions")], at + STEP))
    assert set(raw.hkeys(history.LATEST)) == {b"", b"c:d:actions"}


def test_history_of_no_queue(url: str) -> None:
    with Writer(url) as writer, pytest.raises(UsageError, match="there is no queue"):
        writer.history("no:such:actions")


def test_the_histories_of_many_queues_come_together(client: SyncClient, url: str) -> None:
    names = [f"q{n}:s:actions" for n in range(150)]
    sampler, first = HistorySampler(), start(3)
    for step in range(3):
        rows = [row(name, ready=n + step, enqueued=n + step) for n, name in enumerate(names)]
        client.run(sampler.take(rows, first + step * STEP))
    with Writer(url) as writer:
        found = writer.histories([*names, "never:seen:actions"], seconds=300)
    assert [[sample.ready for sample in found[name]][-3:] for name in names] == [[n, n + 1, n + 2] for n in range(150)]
    assert found["never:seen:actions"] == []


async def test_history_in_asyncio(client: SyncClient, url: str) -> None:
    make_jobs(client, 1)
    client.run(HistorySampler().take([row(ready=1, enqueued=1)], start(2)))
    async with AsyncWriter(url) as writer:
        assert (await writer.history(QUEUE, seconds=300))[0].ready == 1
