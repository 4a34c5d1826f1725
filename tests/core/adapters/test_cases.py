"""The cases of VMPooler's own test suite that are not told elsewhere, by their numbers.

Those of dead letters and purge (2 to 8, 23, 24) are in test_purge.py, those of health (9 to 12) in test_health.py, and
the retry of two failures of one request (13) in test_verbs.py. The rest of the suite is about what its manager does.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_purge import ago, plan_of, vm
from qdeck.admin import Limits, Writer, load_configuration
from qdeck.testing.adapters import values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from qdeck.admin import JobRecord


@pytest.fixture
def writer(url: str) -> Iterator[Writer]:
    with Writer(url, adapters=("vmpooler",)) as writer:
        yield writer


def letter(raw: redis.Redis, name: str, **facts: object) -> None:
    """A dead letter of a clone, as VMPooler writes it."""
    at = int(time.time()) - 60
    told = {"vm": name, "pool": "pool1", "queue_from": "clone", "error_class": "RuntimeError", **facts}
    raw.zadd("vmpooler__dlq__clone", {f"{name}:{at}:{json.dumps(told)}": at})


def request(raw: redis.Redis, name: str, requested: str, **fields: str) -> None:
    """A request that is worked on."""
    for field, value in {"requested": requested, **fields}.items():
        raw.hset(f"vmpooler__odrequest__{name}", field, value)
    raw.zadd("vmpooler__provisioning__processing", {name: int(time.time())})


def by_id(writer: Writer, queue: str) -> dict[str, JobRecord]:
    return {job.id: job for job in writer.jobs(queue)}


def test_case_1_settings_and_their_defaults(tmp_path: Path) -> None:
    file = tmp_path / "qdeck.toml"
    for written, meant in (("true", True), ("false", False)):
        file.write_text(f"[dead_letters]\ndlq_enabled = {written}\n")
        given = load_configuration(file).settings.dead_letters
        assert (given.dlq_enabled, given.dlq_ttl, given.dlq_max_entries) == (meant, 168, 10_000)
    assert (Limits().dlq_ttl, Limits().dlq_max_entries) == (168, 10_000)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"status": "failed", "failure_reason": "Max retry attempts exceeded"}, "is failed"),
        ({"status": "failed", "failure_reason": "Configuration error: template not found"}, "is failed"),
        ({"status": "deleted"}, "is deleted"),
        ({"status": "ready"}, "is ready"),
    ],
)
def test_cases_13_and_18_what_is_over_is_not_retried(
    writer: Writer, raw: redis.Redis, fields: dict[str, str], why: str
) -> None:
    """A failure with tries left asks for its machine again; the manager would complete what comes too late."""
    request(raw, "open", "el7:pool1:1", retry_count="1")
    request(raw, "over", "el7:pool1:1", **fields)
    letter(raw, "vm-open", request_id="open", pool_alias="el7", retry_count=1)
    letter(raw, "vm-over", request_id="over", pool_alias="el7", retry_count=3)
    letter(raw, "vm-gone", request_id="gone", pool_alias="el7")
    plan = writer.plan("retry", "pool1")
    assert [entry.id for entry in plan.entries()] == ["vm-open"]
    assert {skip.id: skip.why.partition("its request ")[2] for skip in plan.tail.skipped} == {
        "vm-over": f"'over' {why}", "vm-gone": "'gone' is gone"
    }  # fmt: skip
    assert writer.apply(plan).applied == 1
    assert raw.zrange("vmpooler__odcreate__task", 0, -1, withscores=True) == [(b"el7:pool1:1:open", 1.0)]
    assert raw.hget("vmpooler__odrequest__over", "status") == fields["status"].encode()


def test_case_15_a_moment_that_cannot_be_read_is_no_age(writer: Writer, raw: redis.Redis) -> None:
    vm(raw, "pending", "odd", clone="when it was made")
    vm(raw, "pending", "old", clone=ago(10_000))
    assert set(plan_of(writer, "pending_too_old")) == {"old"}
    assert by_id(writer, "pool1")["odd"].age_s is None


def test_case_19_completed_and_discovered_machines(writer: Writer, raw: redis.Redis) -> None:
    """Both are done; one that its manager found although it is in another set counts there, and only there."""
    vm(raw, "completed", "ended", destroy=ago(60))
    vm(raw, "discovered", "found")
    for state in ("pending", "ready", "running"):
        vm(raw, state, f"in-{state}", clone=ago(5))
        vm(raw, "discovered", f"in-{state}")
    states = {name: (job.state, job.native_state) for name, job in by_id(writer, "pool1").items()}
    assert states == {
        "ended": ("done", "completed"), "found": ("done", "discovered"), "in-pending": ("delayed", "pending"),
        "in-ready": ("ready", "ready"), "in-running": ("running", "running"),
    }  # fmt: skip
    [row] = writer.snapshot().queues
    assert (row.delayed, row.ready, row.running, row.done) == (1, 1, 1, 2)


def test_case_20_requests_that_are_unknown_failed_or_good(writer: Writer, raw: redis.Redis) -> None:
    now = int(time.time())
    raw.zadd("vmpooler__provisioning__request", {"unknown": now, "failed": now, "good": now})
    raw.hset("vmpooler__odrequest__failed", mapping={"requested": "el7:pool1:1", "status": "failed"})
    raw.hset("vmpooler__odrequest__good", mapping={"requested": "el7:pool1:1"})
    found = by_id(writer, "requests:on-demand")
    assert {name: job.state for name, job in found.items()} == dict.fromkeys(("unknown", "failed", "good"), "ready")
    assert (found["failed"].native_state, [*writer.stuck()]) == ("requested, failed", [])
    assert getattr(found["unknown"], "problem", "") == "it has no record of the request"
    raw.zrem("vmpooler__provisioning__request", "good")
    raw.zadd("vmpooler__provisioning__processing", {"good": now})  # with the old score
    assert by_id(writer, "requests:on-demand")["good"].age_s == pytest.approx(0, abs=5)


def test_case_21_tasks_tell_how_many_machines_are_still_to_be_made(writer: Writer, raw: redis.Redis) -> None:
    raw.zadd("vmpooler__odcreate__task", {"el7:pool1:2:re:q": 1_794_981_514})
    [task] = writer.jobs("tasks:create")
    assert task.payload() == {"alias": "el7", "pool": "pool1", "count": 2, "request_id": "re:q"}


@pytest.mark.parametrize("requested", ["el7:pool1", "", "el7:pool1:many", ":::", "el7:pool1:1,pool2:1"])
def test_case_22_what_was_requested_in_a_broken_form(writer: Writer, raw: redis.Redis, requested: str) -> None:
    """It stops nothing: the request can be deleted, and what can be read of it is given back."""
    request(raw, "r1", requested)
    before = values(raw)
    assert writer.snapshot().queues
    assert writer.apply(writer.plan("cancel", "requests:on-demand")).applied == 1
    assert raw.hget("vmpooler__odrequest__r1", "status") == b"deleted"
    writer.undo()
    assert values(raw) == before
