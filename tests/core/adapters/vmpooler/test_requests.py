"""Requests that failed or were lost: they are no dead letters, and there is a verb and a purge rule for them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_purge import plan_of
from qdeck.admin import Status, Writer, read_rules
from qdeck.testing.adapters import values
from qdeck_console.documents import health as health_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

QUEUE = "requests:on-demand"


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def record(raw: redis.Redis, name: str, **fields: str) -> None:
    for field, value in {"requested": "el7:pool1:1", **fields}.items():
        raw.hset(f"vmpooler__odrequest__{name}", field, value)


def test_failed_and_lost_requests_are_no_dead_letters(writer: Writer, raw: redis.Redis) -> None:
    raw.sadd("vmpooler__pools", "pool1")
    for number in range(101):
        record(raw, f"r{number}", status="failed", failure_reason="Max retry attempts exceeded")
    record(raw, "lost")
    seen = writer.snapshot()
    [row] = [row for row in seen.queues if row.name == QUEUE]
    assert (row.dead or 0, row.cancelled, seen.totals.dead) == (0, 102, 0)
    assert "dead_letters" not in {finding.code.value for finding in seen.findings}
    assert seen.status is Status.HEALTHY, seen.findings
    assert health_document(writer.health())["errors"]["dlq_size"] == 0
    found = {job.id: job for job in writer.jobs(QUEUE)}
    assert (found["r1"].state, found["r1"].native_state) == ("cancelled", "failed")
    assert found["r1"].message == "Max retry attempts exceeded"
    assert (found["lost"].state, found["lost"].native_state) == ("cancelled", "lost")


@pytest.mark.parametrize("status", ["failed", "deleted", "ready", ""])
def test_the_record_of_an_ended_request_can_be_discarded(writer: Writer, raw: redis.Redis, status: str) -> None:
    record(raw, "r1", **({"status": status} if status else {}))
    record(raw, "other", status="failed")
    before = values(raw)
    plan = writer.plan("discard", QUEUE, ids=["r1"])
    assert [entry.id for entry in plan.entries()] == ["r1"]
    assert writer.apply(plan).applied == 1
    assert not raw.exists("vmpooler__odrequest__r1")
    assert raw.exists("vmpooler__odrequest__other")
    assert writer.undo().restored == 1
    assert values(raw) == before


def test_one_that_is_worked_on_again_is_not_discarded(writer: Writer, raw: redis.Redis) -> None:
    record(raw, "r1")
    plan = writer.plan("discard", QUEUE, ids=["r1"])
    raw.zadd("vmpooler__provisioning__processing", {"r1": int(time.time())})
    assert writer.apply(plan).applied == 0
    assert raw.exists("vmpooler__odrequest__r1")


def test_the_purge_gives_a_lost_request_an_end_once(writer: Writer, raw: redis.Redis) -> None:
    """The fifth rule of the document: a request that nobody works on would stay for ever."""
    record(raw, "lost")
    record(raw, "failed", status="failed")
    raw.expire("vmpooler__odrequest__failed", 1000)
    record(raw, "waits")
    raw.zadd("vmpooler__provisioning__request", {"waits": int(time.time())})
    [entry] = plan_of(writer).values()
    assert (entry.id, entry.rule, entry.verb) == ("lost", "request_too_old", "expire")
    plan = writer.plan_purge(read_rules(()))
    assert plan.tail.skipped == ()
    assert writer.apply(plan).applied == 1
    assert 0 < raw.ttl("vmpooler__odrequest__lost") <= 168 * 3600
    assert raw.ttl("vmpooler__odrequest__waits") == -1
    assert writer.plan_purge(read_rules(())).count == 0
    assert writer.undo().restored == 1
    assert raw.ttl("vmpooler__odrequest__lost") == -1
