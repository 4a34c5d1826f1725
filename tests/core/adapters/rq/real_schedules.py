"""The schedulers of RQ: `rq cron` and rq-scheduler. `real_schedules.py URL KIND`."""

from __future__ import annotations

import calendar
import os
import sys
import threading
import time
from datetime import UTC, datetime

import redis


def main(url: str, kind: str) -> None:
    """Write schedules as their own scheduler does."""
    connection = redis.Redis.from_url(url)
    if kind == "cron":
        from rq.cron import CronScheduler  # type: ignore[import-not-found]

        cron = CronScheduler(connection=connection, name="cron-1")
        cron.register(calendar.month, "mail", args=(2026, 1), cron="0 3 1 1 *")
        cron.register(calendar.isleap, "mail", args=(2024,), interval=3600)
        threading.Thread(target=_end_once, args=(connection,)).start()
        cron.start()
    else:
        from rq_scheduler import Scheduler  # type: ignore[import-not-found]

        scheduler = Scheduler("mail", connection=connection)
        scheduler.cron("0 3 1 1 *", func="calendar.month", args=[2026, 1], queue_name="mail", id="yearly")
        scheduler.schedule(datetime.now(UTC), func="calendar.isleap", args=[2024], interval=3600, id="hourly")
        scheduler.enqueue_at(datetime(2030, 1, 1, tzinfo=UTC), "calendar.isleap", 2024, job_id="once")


def _end_once(connection: redis.Redis) -> None:
    """Kill this process when its scheduler has described itself after its first job."""
    while b"2024" not in (connection.hget("rq:cron_scheduler:cron-1", "cron_jobs") or b"") or not connection.exists(
        "rq:queue:mail"
    ):
        time.sleep(0.05)
    time.sleep(1)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
