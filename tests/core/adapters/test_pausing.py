"""The pause of queues of other systems: what it writes, who did it, and what cannot be paused."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from core.adapters.bullmq import records as bullmq
from core.adapters.celery import records as celery
from core.adapters.rq import records as rq
from core.adapters.sidekiq import records as sidekiq
from qdeck import InvalidOption, QdeckError, UsageError
from qdeck.admin import Writer
from qdeck.testing.adapters import contents

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from support.proxy import FaultProxy

P = bullmq.P


def test_a_pause_of_rq_suspends_all_its_workers(url: str, raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "queued")
    rq.put(raw, "bulk", "two", "queued")
    before = contents(raw)
    with Writer(url) as writer:
        left = writer.pause("rq/mail", reason="INC-42")
        assert (left.adapter, left.queue, left.paused, left.changed) == ("rq", "mail", True, True)
        assert raw.get("rq:suspended") == b"1"  # as `rq suspend` leaves it
        assert {row.name: row.paused for row in writer.snapshot().queues} == {"mail": True, "bulk": True}
        for queue in ("rq/mail", "rq/bulk"):
            stands = writer.pause_of(queue)
            assert stands is not None
            assert stands.reason == "INC-42"
            assert stands.at_ms is not None
        assert not writer.pause("rq/bulk").changed
        assert writer.resume("rq/bulk").changed
        assert writer.pause_of("rq/mail") is None
        assert not writer.resume("rq/mail").changed
    assert contents(raw) == before


def test_a_pause_by_its_own_tool_is_by_an_unknown_operator(url: str, raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "queued")
    raw.set("rq:suspended", 1, ex=600)
    with Writer(url) as writer:
        stands = writer.pause_of("rq/mail")
        assert stands is not None
        assert (stands.who, stands.at_ms) == (None, None)
        assert writer.resume("rq/mail", shown=stands).changed
    assert not raw.exists("rq:suspended")


def test_the_reason_of_another_operator_is_only_replaced_when_it_is_known(url: str, raw: redis.Redis) -> None:
    rq.put(raw, "mail", "one", "queued")
    with Writer(url) as writer:
        writer.pause("rq/mail", reason="INC-42")
        shown = writer.pause_of("rq/mail")
        with pytest.raises(UsageError, match="paused already"):
            writer.pause("rq/mail", reason="INC-43")
        assert writer.pause("rq/mail", reason="INC-43", replaces=shown).changed
        stands = writer.pause_of("rq/mail")
        assert stands is not None
        assert stands.reason == "INC-43"
        with pytest.raises(UsageError, match="paused again"):
            writer.resume("rq/mail", shown=shown)
    assert raw.exists("rq:suspended")


@pytest.mark.parametrize("version", ["5.81.5", "6.7.0"])
def test_bullmq_keeps_its_jobs_where_its_version_does(url: str, raw: redis.Redis, version: str) -> None:
    bullmq.queue(raw, version=version)
    for job in ("one", "two"):
        bullmq.put(raw, job, "wait")
    raw.zadd(P + "marker", {"0": 0})
    line = raw.lrange(P + "wait", 0, -1)
    before = contents(raw, without=bullmq.EMITTED)
    with Writer(url) as writer:
        assert writer.pause("bullmq/post").changed
        assert raw.lrange(P + ("paused" if version.startswith("5") else "wait"), 0, -1) == line
        assert raw.hget(P + "meta", "paused") == b"1"
        assert not raw.exists(P + "marker")
        assert writer.snapshot().queues[0].paused
        assert not writer.pause("bullmq/post").changed
        assert writer.resume("bullmq/post").changed
    assert contents(raw, without=bullmq.EMITTED) == before
    assert raw.zrange(P + "marker", 0, -1) == [b"0"]
    events = [str(fields) for _, fields in raw.xrange(P + "events") or ()]
    assert [word for event in events for word in ("paused", "resumed") if word in event] == ["paused", "resumed"]


def test_a_resumed_queue_wakes_its_workers_for_the_next_delayed_job(url: str, raw: redis.Redis) -> None:
    bullmq.queue(raw)
    due = int(time.time() * 1000) + 60_000
    bullmq.put(raw, "later", "delayed")
    raw.zadd(P + "delayed", {"later": due * 4096})
    with Writer(url) as writer:
        writer.pause("bullmq/post")
        writer.resume("bullmq/post")
    assert raw.zrange(P + "marker", 0, -1, withscores=True) == [(b"1", due)]


def test_a_list_that_would_be_overwritten_stops_the_pause(url: str, raw: redis.Redis) -> None:
    bullmq.queue(raw)
    bullmq.put(raw, "one", "wait")
    bullmq.put(raw, "stranded", "paused")
    before = contents(raw)
    with Writer(url) as writer, pytest.raises(UsageError, match="bullmq"):
        writer.pause("bullmq/post")
    assert contents(raw) == before


def test_a_queue_of_an_unknown_version_is_not_paused(url: str, raw: redis.Redis) -> None:
    bullmq.queue(raw, version="9.0.0")
    bullmq.put(raw, "one", "wait")
    before = contents(raw)
    with Writer(url) as writer, pytest.raises(UsageError, match="unknown version"):
        writer.pause("bullmq/post")
    assert contents(raw) == before


@pytest.mark.parametrize(("system", "why"), [(celery, "cancel_consumer"), (sidekiq, "Sidekiq Pro")])
def test_what_has_no_pause_says_why(url: str, raw: redis.Redis, system: object, why: str) -> None:
    system.fill(raw)  # type: ignore[attr-defined]
    with Writer(url) as writer:
        row = next(row for row in writer.snapshot().queues if row.ready)
        assert why in writer.why_not_pause(row.adapter)
        with pytest.raises(InvalidOption, match=why):
            writer.pause(row.ref)


@pytest.mark.parametrize("paused", [False, True])
def test_a_lost_connection_leaves_a_queue_paused_or_not(
    url: str, raw: redis.Redis, make_proxy: Callable[[str], FaultProxy], paused: bool
) -> None:
    bullmq.queue(raw)
    for job in ("one", "two"):
        bullmq.put(raw, job, "paused" if paused else "wait")
    if paused:
        raw.hset(P + "meta", "paused", 1)
    before = contents(raw, without=bullmq.EMITTED)
    with Writer(url) as writer:
        (writer.resume if paused else writer.pause)("bullmq/post")
        after = contents(raw, without=bullmq.EMITTED)
        (writer.pause if paused else writer.resume)("bullmq/post")
    assert contents(raw, without=bullmq.EMITTED) == before
    proxy, found = make_proxy(url), set()
    for sent in range(0, 8000, 400):
        with Writer(proxy.url) as cut:
            proxy.reset_after(sent)
            with suppress(QdeckError):
                (cut.resume if paused else cut.pause)("bullmq/post")
            proxy.heal()
        now = contents(raw, without=bullmq.EMITTED)
        assert now in (before, after)
        found.add(now == before)
        if now != before:
            with Writer(url) as writer:
                (writer.pause if paused else writer.resume)("bullmq/post")
    assert found == {True, False}
