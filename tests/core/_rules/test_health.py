"""The report on health: true numbers, what is not known is null and named, and the verdict is that of status."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys, programs
from qdeck._engine.codec import BAND
from qdeck._redis import Endpoint, SyncClient
from qdeck._rules import doctor
from qdeck.adapters.native import ages, orphans
from qdeck.admin import (
    NATIVE,
    AsyncWriter,
    Code,
    Configuration,
    QueueRef,
    Settings,
    State,
    Status,
    Target,
    Thresholds,
    Writer,
)
from support.yard import HOUR, QUEUE, Yard

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.servers import Server

PLACE = QueueRef(NATIVE, QUEUE)


def test_queue_sizes_are_monitored_per_queue(yard: Yard, make_yard: Callable[[str], Yard]) -> None:
    """'Queue sizes are monitored per pool'"""
    other = make_yard("demo:other:actions")
    for _ in range(3):
        yard.ended("dead", 5)
    other.ready(1)
    yard.delayed(-100)
    queues = yard.writer.health().queues
    assert queues["dead"][PLACE].size == 3
    assert queues["dead"][QueueRef(NATIVE, "demo:other:actions")].size == 0
    assert (queues["ready"][PLACE].size, queues["delayed"][PLACE].size) == (1, 1)
    assert set(queues) == {"ready", "delayed", "blocked", "running", "done", "dead", "cancelled"}


def test_queue_ages_are_calculated(yard: Yard) -> None:
    """'Queue ages are calculated (oldest, average)'"""
    yard.writer.apply(yard.writer.plan("discard", QUEUE))
    for age in (100, 200, 600):
        yard.ready(age, priority=age)
        yard.ended("dead", age)
    yard.running(-50)
    queues = yard.writer.health().queues
    for state in ("ready", "dead"):
        row = queues[state][PLACE]
        assert row.oldest_age == pytest.approx(600, abs=2)
        assert row.avg_age == pytest.approx(300, abs=2)
        assert row.exact
    running = queues["running"][PLACE]
    assert running.oldest_age == pytest.approx(0, abs=2), "since it was claimed"
    assert queues["blocked"][PLACE].avg_age is None


def test_ages_of_many_come_from_an_even_sample(yard: Yard) -> None:
    now, count = yard.now_ms, 5000
    yard.raw.zadd(yard.key("dead"), {f"j{n}": now - n * 1000 for n in range(count)})
    yard.raw.zadd(yard.key("ready"), {f"j{n}": 7 * BAND + now - n * 1000 for n in range(count)})
    found = yard.writer.run(ages.measure([(QUEUE, state) for state in (State.DEAD, State.READY)], now))
    assert len(found) == 2
    for age in found:
        assert age is not None
        assert not age.exact
        assert age.oldest_s == pytest.approx(count, abs=2)
        assert age.average_s == pytest.approx(count / 2, rel=0.02)


def test_stuck_jobs_are_detected(yard: Yard) -> None:
    """'Stuck VMs are detected (age > threshold)'"""
    yard.running(10)
    for age in (2 * HOUR + 5, 2 * HOUR - 5, 3 * HOUR):
        yard.ready(age, priority=age % 7)
        yard.delayed(age)
    report = yard.writer.health()
    stuck = {state: rows[PLACE].stuck_count for state, rows in report.queues.items()}
    assert stuck == {"ready": 2, "delayed": 2, "running": 1, "blocked": 0, "done": 0, "dead": 0, "cancelled": 0}
    assert (report.errors.stuck, report.errors.late, report.errors.stuck_vms) == (1, 4, 5)
    assert (report.errors.stuck, report.errors.late) == (report.snapshot.totals.stuck, report.snapshot.totals.late)
    assert any("4 jobs" in reason.text and "over 2h" in reason.text for reason in report.findings)


def test_dead_letters_are_monitored(yard: Yard) -> None:
    """'DLQ size is monitored'
    Healthy: DLQ size < 100; Degraded: DLQ size < 1000; Unhealthy: DLQ size > 1000
    """
    assert yard.writer.health().errors.dead == 0
    yard.ended("dead", 5)
    assert yard.writer.health().errors.dead == 1
    for count, status in (
        (100, Status.HEALTHY),
        (101, Status.DEGRADED),
        (1000, Status.DEGRADED),
        (1001, Status.UNHEALTHY),
    ):
        yard.raw.hset(yard.key("meta"), mapping={"dead_letter": count, "ready": 0})
        assert yard.writer.health().status is status, count


def test_processing_rates_are_calculated_from_two_looks_and_else_unknown(yard: Yard) -> None:
    """'Processing rates are calculated'"""
    assert yard.writer.health().rates is None
    yard.raw.hincrby(yard.key("meta"), "n:done", 1000)
    rates = yard.writer.health().rates
    assert rates is not None
    assert rates.ended > 0
    assert rates.enqueued == 0


def test_overall_status_is_determined_and_is_that_of_status(yard: Yard) -> None:
    """'Overall health status is determined'"""
    yard.ended("dead", 1)
    for mapping in ({}, {"dead_letter": 500}, {"ready": 501}, {"dead_letter": 5000}, {"paused": 1}):
        if mapping:
            yard.raw.hset(yard.key("meta"), mapping=mapping)  # type: ignore[arg-type]  # invariance
        report, seen = yard.writer.health(), yard.writer.snapshot()
        assert (report.status, [str(r) for r in report.findings]) == (seen.status, [str(r) for r in seen.findings])


def test_thresholds_of_the_context_are_used_by_status_and_health(yard: Yard) -> None:
    yard.ended("dead", 1)
    yard.raw.hset(yard.key("meta"), "ready", 0)
    assert yard.writer.snapshot().status is Status.HEALTHY
    with Writer(yard.writer.endpoint.url, thresholds=Thresholds(dlq_max_warning=0)) as writer:
        assert writer.snapshot().status is writer.health().status is Status.DEGRADED


def test_orphaned_records_are_counted_as_a_purge_would_take_them(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.orphan(25 * HOUR)
    yard.orphan(25 * HOUR, "body")
    yard.orphan(1)
    assert yard.writer.health().errors.orphaned == 2
    assert yard.writer.health(orphans=False).errors.orphaned is None
    monkeypatch.setattr(orphans, "MOST_FIELDS", 1)
    report = yard.writer.health()
    assert report.errors.orphaned is None
    assert any("qdeck purge reads all" in notice for notice in report.notices), "never a silent zero"


async def test_in_asyncio(yard: Yard) -> None:
    async with AsyncWriter(yard.writer.endpoint.url) as writer:
        assert (await writer.health()).queues["ready"][PLACE].size == 1


def test_a_broken_key_is_a_reason_and_the_rest_is_told(yard: Yard, make_yard: Callable[[str], Yard]) -> None:
    broken = make_yard("demo:broken:actions")
    broken.ready(1)
    broken.raw.delete(broken.key("ready"))
    broken.raw.set(broken.key("ready"), "x")
    report = yard.writer.health()
    assert any("another type" in reason.text for reason in report.findings)
    assert report.queues["ready"][PLACE].size == 1


def test_a_user_that_may_only_read_learns_what_it_may_not_see_and_writes_nothing(yard: Yard) -> None:
    """A user with +@read only runs health and doctor: what it may not see is named, nothing is written."""
    yard.raw.execute_command("ACL", "SETUSER", "looker", "on", ">pw", "+@read", "~*", "resetchannels")
    before = yard.digest()
    url = yard.writer.endpoint.url.split("?")[0].replace("redis://", "redis://looker:pw@")
    with Writer(url) as writer:
        report = writer.health()
        unknown = {check.name: check.detail for check in report.checks if check.status is None}
        assert unknown["memory"] == "INFO is not allowed: memory is unknown"
        assert set(unknown) == {"loading", "saving", "persistence", "eviction", "memory", "clock", "trends"}
        assert report.errors.orphaned == 0
        found = writer.diagnosis(Configuration(settings=Settings()), Target(url=url), read_only=False)
    named = {check.name: check for check in found.checks}
    assert (named["looking"].ok, named["changing"].ok, named["memory"].ok) == (True, False, None)
    assert "EVALSHA" in named["changing"].detail
    assert yard.digest() == before


def test_doctor_names_missing_rights(yard: Yard) -> None:
    for user, rights in (("a", ["+@read", "-hscan", "~*"]), ("b", ["+@all", "-zadd", "~*"]), ("c", ["+@all", "~{*"])):
        yard.raw.execute_command("ACL", "SETUSER", user, "on", ">pw", *rights)
    told = {}
    for user in "abc":
        url = yard.writer.endpoint.url.split("?")[0].replace("redis://", f"redis://{user}:pw@")
        with Writer(url) as writer:
            found = writer.diagnosis(Configuration(settings=Settings()), Target(url=url), read_only=False).checks
            told[user] = {finding.name: finding for finding in found}
    assert told["a"]["looking"].detail == "not allowed: HSCAN"
    assert told["b"]["looking"].ok
    assert told["b"]["changing"].detail == "not allowed: ZADD"
    assert told["c"]["looking"].detail == "not allowed: HLEN qdeck:queues, HLEN qdeck:workers, HLEN qdeck:control"
    assert all(finding.hint for rows in told.values() for finding in rows.values() if finding.ok is False)


def test_doctor_tells_the_dangers_of_the_server(make_server: Callable[..., Server]) -> None:
    server = make_server("--save", "", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with Writer(server.url) as writer:
        found = writer.diagnosis(Configuration(settings=Settings()), Target(url=server.url), read_only=False)
        named = {check.name: check for check in found.checks}
        assert (named["eviction"].ok, named["persistence"].ok, named["memory"].ok) == (False, False, True)
        assert "noeviction" in named["eviction"].hint
        assert writer.health().status is Status.DEGRADED
    assert not found.is_well


def test_doctor_asks_every_command_of_the_scripts(yard: Yard) -> None:
    """A wrong number of arguments would be answered before the rights are looked at."""
    calls = doctor._changes()
    assert len(calls) > 20
    for call in calls:
        reply = yard.raw.execute_command("ACL", "DRYRUN", "default", *call)
        assert reply in (b"OK", "OK"), call


def test_doctor_tells_whose_queues_there_are_and_what_can_be_done_with_them(yard: Yard) -> None:
    """'checks connection, rights, server settings, adapters, what qdeck can and cannot do here'"""
    yard.raw.sadd("vmpooler__pools", "debian-12")
    yard.raw.sadd("vmpooler__ready__debian-12", "vm1")
    yard.raw.rpush("mails", "one")
    before = yard.digest()
    with Writer(yard.writer.endpoint.url, adapters=("native", "lists", "vmpooler")) as writer:
        target = Target(url=yard.writer.endpoint.url)
        found = writer.diagnosis(Configuration(settings=Settings()), target, read_only=False).checks
    named = {finding.name: finding for finding in found}
    assert "native: 1 queue; " in named["adapters"].detail
    assert "vmpooler: " in named["adapters"].detail
    assert "can retry, discard" in named["adapter_vmpooler"].detail
    assert "cannot requeue: the manager refills pools automatically" in named["adapter_vmpooler"].detail
    assert "adapter_ifdb" not in named
    assert yard.digest() == before


def test_a_handler_that_ignores_its_cancellation_is_unhealthy(yard: Yard) -> None:
    """What a worker writes about itself is read, and counts while the worker lives."""
    said = {"heartbeat_ms": time.time_ns() // 1_000_000, "state": "running"}
    yard.raw.hset(keys.WORKERS, "w1", json.dumps(said | {"stuck_handlers": 2}))
    yard.raw.hset(keys.WORKERS, "w2", json.dumps(said | {"stuck_handlers": 5, "heartbeat_ms": 1}))
    report = yard.writer.health()
    assert report.status is Status.UNHEALTHY
    assert [reason.text for reason in report.findings if "ignored" in reason.text] == [
        "worker w1: 2 handlers ignored cancellation; restart it"
    ]
    yard.raw.hset(keys.WORKERS, "w1", json.dumps(said | {"stuck_handlers": 0}))
    assert not [one for one in yard.writer.health().findings if one.code is Code.HANDLER_STUCK]


def test_entries_that_were_set_aside_are_a_finding_until_they_are_removed(yard: Yard, url: str) -> None:
    yard.raw.xadd(yard.key("outbox"), {"k": "newkind"})
    yard.raw.xadd(yard.key("outbox"), {"i": b"\xff"})
    with contextlib.closing(SyncClient(Endpoint(url))) as client:
        client.run(programs.deliver(QUEUE))
    report = yard.writer.health()
    [check] = [one for one in report.checks if one.name == "readable"]
    key = yard.key("quarantine")
    assert (check.status, check.value, check.threshold) == (Status.DEGRADED, 1, 0)
    [reason] = check.findings
    assert reason in report.findings
    assert reason.queue == ("native", QUEUE)
    assert reason.text == (
        f"2 entries of the outbox of {QUEUE} could not be read and were moved to quarantine: "
        f"read them with XRANGE {key} - +, then delete them with DEL {key}"
    )
    yard.raw.delete(key)
    [check] = [one for one in yard.writer.health().checks if one.name == "readable"]
    assert (check.status, check.value, check.findings) == (Status.HEALTHY, 0, ())
