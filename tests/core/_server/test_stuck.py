"""When a job is stuck: the row of a queue, the lists of jobs and each job go by one rule."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from qdeck._engine import keys
from qdeck.admin import StuckCode, Writer
from support.screens import claim, row

if TYPE_CHECKING:
    import redis

QUEUE = "demo:mail:actions"
HELD_MS = 30_000  # since the claim


@pytest.mark.parametrize(
    ("deadline_s", "lease", "code", "since_s"),
    [
        (60, "w1:1 {claimed} 60000 0", None, None),
        (-60, "w1:1 {claimed} 60000 0", StuckCode.OWNER_GONE, -60),
        (20, "w1:1 {claimed} 60000 0 ?", StuckCode.OWNER_GONE, -10),
        (60, "w1:1 {claimed} 60000 0 ?", StuckCode.OWNER_GONE, 0),
        (60, "w1:1", StuckCode.NO_LEASE, 0),
        (-60, "", StuckCode.NO_LEASE, -60),
        (60, "", None, None),
    ],
)
def test_the_row_and_the_list_agree(
    url: str, raw: redis.Redis, deadline_s: int, lease: str, code: StuckCode | None, since_s: int | None
) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        [job] = claim(url, QUEUE)
        now = time.time_ns() // 1_000_000
        raw.zadd(keys.key(QUEUE, "running"), {job.id: now + deadline_s * 1000})
        if lease:
            raw.hset(keys.key(QUEUE, "lease"), job.id, lease.format(claimed=now - HELD_MS))
        else:
            raw.hdel(keys.key(QUEUE, "lease"), job.id)
        found = writer.stuck()
        running = writer.stuck_running(QUEUE, {}, now, limit=5, most_read=5)
        assert row(url, QUEUE).stuck == len(found)
        assert [job.why.code for job in found] == ([] if code is None else [code])
        assert ([each.why.code for each in running[0]], running[1]) == ([each.why.code for each in found], True)
        for alone in (writer.job(QUEUE, job.id), *writer.jobs(QUEUE, state="running")):
            why = alone.stuck
            assert (why.code if why else None) == code
            assert since_s is None or (why and why.seconds == pytest.approx(-since_s, abs=5))
        if since_s is not None:
            assert found[0].since_ms == pytest.approx(now + since_s * 1000, abs=5_000)
            assert found[0].stuck_s == pytest.approx(-since_s, abs=5)


def test_a_job_over_its_time_limit(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        writer.enqueue(QUEUE, "send", [1])
        [job] = claim(url, QUEUE)
        now = time.time_ns() // 1_000_000
        raw.hset(keys.key(QUEUE, "head"), job.id, f"{now} 100 0 send\nm1000")
        assert (row(url, QUEUE).stuck, writer.stuck()) == (0, [])
        raw.hset(keys.key(QUEUE, "lease"), job.id, f"w1:1 {now - HELD_MS} 60000 0")
        [found] = writer.stuck()
        assert (row(url, QUEUE).stuck, found.why.code) == (1, StuckCode.OVER_LIMIT)
        assert row(url, QUEUE).over_limit == 1
        assert found.since_ms == pytest.approx(now - HELD_MS + 1_000, abs=10)
        alone = writer.job(QUEUE, job.id).stuck
        assert alone is not None
        assert (alone.code, alone.limit) == (StuckCode.OVER_LIMIT, 1)
        assert alone.seconds == pytest.approx(HELD_MS / 1000 - 1, abs=5)


def test_a_job_whose_worker_did_not_know_its_task(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        job = writer.enqueue(QUEUE, "send", [1], delay=60)
        assert writer.job(QUEUE, job.id).stuck is None
        at_ms = time.time_ns() // 1_000_000 - 9_000
        raw.hset(keys.key(QUEUE, "error"), job.id, f'{at_ms} unknown_task {{"worker":"w1"}}')
        found = writer.job(QUEUE, job.id).stuck
    assert found is not None
    assert found.code is StuckCode.UNKNOWN_TASK
    assert found.seconds == pytest.approx(9, abs=5)


def test_a_job_that_waits_is_not_stuck(url: str) -> None:
    with Writer(url) as writer:
        job = writer.enqueue(QUEUE, "send", [1])
        assert writer.job(QUEUE, job.id).stuck is None


def test_the_search_for_stuck_jobs_ends_at_its_bounds(url: str, raw: redis.Redis) -> None:
    with Writer(url) as writer:
        for number in range(100):
            writer.enqueue(QUEUE, "send", [number])
        jobs = [job.id for job in claim(url, QUEUE, 100)]
        raw.zadd(keys.key(QUEUE, "running"), {job: number for number, job in enumerate(jobs[:3])})
        raw.hdel(keys.key(QUEUE, "lease"), jobs[0])
        now = time.time_ns() // 1_000_000

        def found(limit: int, most_read: int, where: str = "") -> tuple[list[str], bool]:
            some, is_all = writer.stuck_running(QUEUE, {}, now, where=where, limit=limit, most_read=most_read)
            return [job.id for job in some], is_all

        assert found(limit=2, most_read=1_000) == (jobs[:2], False)
        assert found(limit=4, most_read=1) == (jobs[:3], False)
        assert found(limit=4, most_read=1_000) == (jobs[:3], True)
        assert found(limit=4, most_read=1_000, where=f"id:{jobs[1]}") == (jobs[1:2], True)
