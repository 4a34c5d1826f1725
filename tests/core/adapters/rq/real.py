"""RQ itself: run as a script by the Python of an environment that has it. `real.py URL COMMAND [ARGUMENTS…]`."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import redis
import rq  # type: ignore[import-not-found]
import rq.registry  # type: ignore[import-not-found]
import rq.scheduler  # type: ignore[import-not-found]
import rq.suspension  # type: ignore[import-not-found]

QUEUE = "mail"


def count(name: str) -> None:
    """A job: notes that it ran."""
    _here().incr(f"ran:{name}")


def fail(name: str) -> None:
    """A job: notes that it ran, and fails until the cause is repaired."""
    _here().incr(f"ran:{name}")
    if not _here().exists("repaired"):
        raise ConnectionError(f"502 from http://x/{name}")


def die(name: str) -> None:
    """A job: notes that it ran, and takes its worker with it the first time."""
    if _here().incr(f"ran:{name}") == 1:
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)


def _here() -> Any:
    return redis.Redis.from_url(os.environ["SERVER"])


def main(url: str, command: str, *names: str) -> None:
    """Do one thing as a user of RQ does."""
    os.environ["SERVER"] = url
    connection = redis.Redis.from_url(url)
    queue = rq.Queue(QUEUE, connection=connection)
    own = command in ("requeue", "cancel", "delete")
    jobs = [rq.job.Job.fetch(name, connection=connection) for name in names] if own else []
    if command in ("count", "fail", "die"):
        for name in names:
            queue.enqueue(f"real.{command}", name, job_id=name)
    elif command == "later":
        for name in names:
            queue.enqueue_in(timedelta(hours=1), "real.count", name, job_id=name)
    elif command == "chain":
        first = queue.enqueue("real.count", names[0], job_id=names[0])
        for name in names[1:]:
            queue.enqueue("real.count", name, job_id=name, depends_on=first)
    elif command == "requeue":
        for job in jobs:
            job.requeue()
    elif command == "cancel":
        for job in jobs:
            job.cancel()
    elif command == "delete":
        for job in jobs:
            job.delete()
    elif command == "due":
        scheduler = rq.scheduler.RQScheduler([queue], connection=connection)
        scheduler.acquire_locks()
        scheduler.enqueue_scheduled_jobs()
        scheduler.release_locks()
    elif command == "cleanup":
        rq.registry.StartedJobRegistry(queue=queue).cleanup()
    elif command == "empty":
        queue.empty()
    elif command == "suspend":
        rq.suspension.suspend(connection)
    elif command == "resume":
        rq.suspension.resume(connection)
    elif command == "work":
        rq.SimpleWorker([queue], connection=connection).work(burst=True, with_scheduler=False)
    elif command == "fork":
        rq.Worker([queue], connection=connection).work(burst=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120 - jobs are named `real.…`
    main(*sys.argv[1:])
