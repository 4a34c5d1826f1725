"""Recurring jobs of RQ, BullMQ, Celery and Sidekiq, from values as their own schedulers write them."""

from __future__ import annotations

import json
import pickle  # what rq-scheduler writes has to be made
import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from core.adapters.bullmq import records as bullmq
from core.adapters.celery import records as celery
from core.adapters.rq import records as rq
from core.adapters.sidekiq import records as sidekiq
from qdeck.admin import Reader, ScheduleRow, Writer, read_payload
from support.breaking import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

P: Final = bullmq.P
NOON: Final = {"year": 2026, "month": 11, "day": 19, "hour": 12, "minute": 0, "second": 0, "microsecond": 0}
NOON_MS: Final = 1_795_089_600_000


def in_ms(seconds: float) -> int:
    """A moment so many seconds from now."""
    return int((time.time() + seconds) * 1000)


def fill_rq(raw: redis.Redis) -> None:
    rq.put(raw, "mail", "made", "failed")
    jobs = [
        {"func_name": "calendar.month", "name": "monthly", "queue_name": "mail", "args": "[2026, 1]", "kwargs": None,
         "interval": None, "cron": "0 3 * * *", "latest_enqueue_time": rq.stamp(60),
         "next_enqueue_time": rq.stamp(-90)},
        {"func_name": "tasks.ping", "name": "tasks.ping", "queue_name": "mail", "args": None, "kwargs": None,
         "interval": 3600, "cron": None, "latest_enqueue_time": None, "next_enqueue_time": None},
    ]  # fmt: skip
    raw.zadd("rq:cron_schedulers", {"c1": 5, "gone": 6})
    raw.hset("rq:cron_scheduler:c1", mapping={"name": "c1", "cron_jobs": json.dumps(jobs)})
    raw.zadd("rq:cron_job:monthly:jobs", {"older": 1, "made": 2})
    for name, meta in {
        "nightly": {"cron_string": "0 4 * * *"},
        "every": {"interval": 60, "repeat": 5},
        "once": {},
    }.items():
        raw.zadd("rq:scheduler:scheduled_jobs", {name: in_ms(-600 if name == "every" else 600) // 1000})
        raw.hset(
            f"rq:job:{name}", mapping={"origin": "mail", "description": "tasks.fetch(1)", "meta": pickle.dumps(meta)}
        )


def fill_bullmq(raw: redis.Redis) -> None:
    bullmq.queue(raw)
    at = in_ms(600)
    raw.zadd(P + "repeat", {"nightly": at, "every": in_ms(-600), "old": 5})
    raw.hset(P + "repeat:nightly", mapping={"name": "report", "pattern": "0 3 * * *", "tz": "Europe/Madrid", "ic": 7,
                                            "data": '{"token":"tok123"}'})  # fmt: skip
    raw.hset(P + "repeat:every", mapping={"name": "ping", "every": 60_000})
    bullmq.put(raw, f"repeat:nightly:{at}", "none", rjk="nightly")
    raw.zadd(P + "delayed", {f"repeat:nightly:{at}": at * 4096})


def fill_celery(raw: redis.Redis) -> None:
    celery.bind(raw, "celery")
    raw.lpush("celery", celery.message("t1"))
    cron = {
        "__type__": "crontab",
        "minute": 0,
        "hour": "3,4",
        "day_of_week": "*",
        "day_of_month": 1,
        "month_of_year": "*",
    }
    entries = {
        "nightly": {"schedule": cron, "options": {"queue": "mail"}, "args": [1], "kwargs": {"a": 2}},
        "off": {"schedule": {"__type__": "interval", "every": 90.0, "relative": False}, "enabled": False},
    }
    for name, entry in entries.items():
        definition = {"name": name, "task": "tasks.report", "options": {}, "enabled": True, **entry}
        meta = {"last_run_at": {"__type__": "datetime", **NOON, "timezone": "UTC"}, "total_run_count": 3}
        raw.hset(f"redbeat:{name}", mapping={"definition": json.dumps(definition), "meta": json.dumps(meta)})
        raw.zadd("redbeat::schedule", {f"redbeat:{name}": in_ms(-600) // 1000})


def fill_sidekiq(raw: redis.Redis) -> None:
    sidekiq.fill(raw)
    for name, cron, status in (("nightly", "0 3 * * * Europe/Madrid", "enabled"), ("off", "*/5 * * * *", "disabled")):
        key = f"cron_job:default:{name}"
        raw.sadd("cron_jobs:default", key)
        message = {"retry": True, "queue": "low", "class": "HardJob", "args": [1]}
        raw.hset(key, mapping={"name": name, "klass": "HardJob", "cron": cron, "args": "[1]", "status": status,
                               "message": json.dumps(message),
                               "last_enqueue_time": "2026-11-19 12:00:00 +0000"})  # fmt: skip


FILL: Final[dict[str, Callable[[Any], None]]] = {
    "rq": fill_rq, "bullmq": fill_bullmq, "celery": fill_celery, "sidekiq": fill_sidekiq,
}  # fmt: skip


def schedules(url: str) -> dict[str, ScheduleRow]:
    with Reader(url) as reader:
        return {row.name: row for row in reader.schedules()}


def test_rq_cron_and_rq_scheduler_are_listed(url: str, raw: redis.Redis) -> None:
    fill_rq(raw)
    rows = schedules(url)
    assert {name: row.cron for name, row in rows.items()} == {
        "monthly": "0 3 * * *", "tasks.ping": "every 1h 00m", "nightly": "0 4 * * *", "every": "every 1m 00s",
        "once": "once",
    }  # fmt: skip
    assert {(row.adapter, row.queue) for row in rows.values()} == {("rq", "mail")}
    monthly, every = rows["monthly"], rows["every"]
    assert (monthly.task, read_payload(monthly.payload, is_handler=False)) == ("calendar.month", [[2026, 1], {}])
    assert (monthly.last_id, monthly.last_outcome) == ("made", "dead")
    assert monthly.next_ms is not None
    assert monthly.last_ms is not None
    assert monthly.next_ms > monthly.last_ms
    assert (every.task, monthly.late_s) == ("tasks.fetch", None)
    assert every.late_s is not None


def test_job_schedulers_of_bullmq_are_listed_with_their_next_jobs(url: str, raw: redis.Redis) -> None:
    fill_bullmq(raw)
    rows = schedules(url)
    nightly, every, old = rows["nightly"], rows["every"], rows["old"]
    assert (nightly.cron, nightly.tz, nightly.task, nightly.jobs_made) == ("0 3 * * *", "Europe/Madrid", "report", 7)
    assert (nightly.queue, nightly.next_id) == ("post", f"repeat:nightly:{nightly.next_ms}")
    assert read_payload(nightly.payload, is_handler=False) == {"token": "***"}
    assert (every.cron, every.next_id, every.late_s is None) == ("every 1m 00s", None, False)
    assert old.problem == "it has no record"


def test_the_next_job_of_a_scheduler_runs_now_and_is_put_back(url: str, raw: redis.Redis) -> None:
    fill_bullmq(raw)
    job = schedules(url)["nightly"].next_id
    assert job is not None
    with Writer(url) as writer:
        done = writer.apply(writer.plan("run", "bullmq/post", ids=(job,)))
        assert (done.applied, raw.lrange(P + "wait", 0, -1)) == (1, [job.encode()])
        assert schedules(url)["nightly"].next_id is None
        writer.undo(done.batch)
    assert schedules(url)["nightly"].next_id == job


def test_schedules_of_redbeat_are_listed(url: str, raw: redis.Redis) -> None:
    fill_celery(raw)
    rows = schedules(url)
    nightly, off = rows["nightly"], rows["off"]
    assert (nightly.cron, nightly.queue, nightly.task) == ("0 3,4 1 * *", "mail", "tasks.report")
    assert (nightly.last_ms, nightly.jobs_made, nightly.tz) == (NOON_MS, 3, "UTC")
    assert read_payload(nightly.payload, is_handler=False) == [[1], {"a": 2}]
    assert nightly.late_s is not None
    assert (off.cron, off.queue, off.enabled, off.late_s) == ("every 1m 30s", "celery", False, None)


def test_schedules_of_sidekiq_cron_are_listed(url: str, raw: redis.Redis) -> None:
    fill_sidekiq(raw)
    rows = schedules(url)
    nightly, off = rows["nightly"], rows["off"]
    assert (nightly.queue, nightly.task, nightly.tz, nightly.last_ms) == ("low", "HardJob", "Europe/Madrid", NOON_MS)
    assert nightly.next_ms is not None
    assert nightly.next_ms > time.time() * 1000
    assert (off.enabled, off.next_ms) == (False, None)


@pytest.mark.parametrize("system", FILL)
def test_only_its_own_system_changes_a_schedule_and_the_row_says_so(url: str, raw: redis.Redis, system: str) -> None:
    FILL[system](raw)
    assert all(row.why_fixed for row in schedules(url).values())


@pytest.mark.parametrize("system", FILL)
def test_a_broken_schedule_stops_no_other(url: str, raw: redis.Redis, system: str) -> None:
    FILL[system](raw)
    count = len(schedules(url))
    records = [key for key in raw.scan_iter() if raw.type(key) == b"hash" and b"meta" not in key.rsplit(b":", 1)]
    values = [
        *TEXTS.values(),
        b'{"name": 5, "schedule": 7, "interval": 1e400}',
        b"[[[]], {}, 5, null]",
        b"\x80\x05K\x05.",
    ]
    for key in records:
        for field in raw.hkeys(key):
            before: Any = raw.hget(key, field)
            for value in values:
                raw.hset(key, field, value)
                digest = raw.execute_command("DEBUG", "DIGEST")
                rows = schedules(url)
                assert count - 1 <= len(rows) + (field == b"cron_jobs") <= count + 2, (key, field, value)
                assert raw.execute_command("DEBUG", "DIGEST") == digest
            raw.hset(key, field, before)
    for key in [*records, *(key for key in raw.scan_iter() if raw.type(key) == b"zset")]:
        kept: Any = raw.dump(key)
        raw.set(key, "of another type")
        schedules(url)
        raw.restore(key, 0, kept, replace=True)
    assert len(schedules(url)) == count
