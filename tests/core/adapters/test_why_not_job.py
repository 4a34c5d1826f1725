"""Why a verb cannot be used on one job: what is known of the job counts, not only its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from qdeck.admin import Reader
from support.documents import HOUR_S, ago, machine, machine_letter, pool, ruby

if TYPE_CHECKING:
    import redis


@pytest.fixture
def reasons(url: str, raw: redis.Redis) -> dict[str, dict[str, str]]:
    """The reasons by job and verb."""
    pool(raw, "centos-7")
    machine(raw, "pending", "pend1", "centos-7", clone=ruby(ago(3 * HOUR_S)))
    raw.sadd("vmpooler__tasks__disk", "vm1:10")
    raw.zadd("vmpooler__provisioning__request", {"req-9": ago(HOUR_S)})
    raw.hset("vmpooler__odrequest__req-9", "requested", "centos-7:centos-7:1")
    machine_letter(raw, "clone", "whole", "centos-7", 60)
    machine_letter(raw, "pending", "no-request", "centos-7", 60, request_id=None)
    machine_letter(raw, "clone", "no-alias", "centos-7", 60, pool_alias=None)
    machine_letter(raw, "clone", "no-pool", None, 60, pool_alias="centos-7")
    raw.hset("vmpooler__dlq__tasks", "disk", '[{"vm": "disk-vm", "error_message": "no such VM"}]')
    raw.zadd("scheduler:queue:delayed", {"job-3:HIGH": (ago(HOUR_S)) * 1000, ":LOW": ago(60) * 1000, "late": 1})
    verbs = ("retry", "requeue", "run", "bury", "cancel", "discard")
    with Reader(url) as reader:
        jobs = [job for row in reader.snapshot().queues for job in reader.jobs(row.ref)]
        return {job.id: {verb: reader.why_not_job(verb, job) for verb in verbs} for job in jobs}


def test_a_dead_letter_says_what_of_its_request_is_gone(reasons: dict[str, dict[str, str]]) -> None:
    retry = {job: of["retry"] for job, of in reasons.items()}
    assert retry["whole"] == ""
    assert "belongs to no request" in retry["no-request"]
    assert "pool_alias" in retry["no-alias"]
    assert "does not have its pool" in retry["no-pool"]
    failed = next(why for job, why in retry.items() if "disk" in job)
    assert "failed task" in failed
    assert "refills the pool" not in failed


def test_tasks_and_requests_have_reasons_of_their_own(reasons: dict[str, dict[str, str]]) -> None:
    assert reasons["vm1:10"]["requeue"] == "a task can only be discarded"
    assert reasons["vm1:10"]["discard"] == ""
    assert reasons["req-9"]["requeue"] == reasons["req-9"]["bury"] == "a request can only be cancelled"
    assert reasons["req-9"]["cancel"] == ""
    assert "the manager refills pools" in reasons["pend1"]["requeue"]
    assert reasons["pend1"]["bury"] == ""


def test_a_broken_entry_of_the_scheduler_can_only_be_moved_or_removed(reasons: dict[str, dict[str, str]]) -> None:
    assert reasons["job-3"]["run"] == ""
    assert "`id:PRIORITY`" in reasons["late"]["run"]
    assert reasons["late"]["bury"] == reasons["late"]["discard"] == ""


def test_the_reason_is_that_of_the_plan(url: str, raw: redis.Redis) -> None:
    """What is shown of a key before it is pressed is what the plan says."""
    pool(raw, "centos-7")
    machine_letter(raw, "pending", "no-alias", "centos-7", 60, pool_alias=None, error_message="timed out")
    with Reader(url) as reader:
        [letter] = reader.jobs("centos-7")
        plan = reader.plan("retry", ["centos-7"])
        assert [skip.why for skip in plan.tail.skipped] == [reader.why_not_job("retry", letter)]
