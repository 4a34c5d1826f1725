"""Celery itself: an application, run by the Python of an environment that has it. `real.py COMMAND [ARGUMENTS…]`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import redis
from celery import Celery, chord  # type: ignore[import-not-found]

URL = os.environ["SERVER"]
app = Celery("real", broker=URL, backend=URL)
app.conf.update(
    result_extended=True, worker_prefetch_multiplier=1, task_acks_late=True, task_track_started=True,
    worker_hijack_root_logger=False, broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 36_000},
)  # fmt: skip


def _here() -> Any:
    return redis.Redis.from_url(URL)


@app.task(name="real.count")  # type: ignore[untyped-decorator]
def count(name: str) -> None:
    """Note that it ran."""
    _here().incr(f"ran:{name}")


@app.task(name="real.fail")  # type: ignore[untyped-decorator]
def fail(name: str, *, key: int = 1) -> None:
    """Note that it ran, and fail until the cause is repaired."""
    _here().incr(f"ran:{name}")
    if not _here().exists("repaired"):
        raise ConnectionError(f"502 from http://x/{name}")


@app.task(name="real.hold")  # type: ignore[untyped-decorator]
def hold(name: str) -> None:
    """Note that it ran, and go on until there is `released`."""
    _here().incr(f"ran:{name}")
    while not _here().exists("released"):
        time.sleep(0.05)


def main(command: str, *names: str) -> None:
    """Do one thing as a user of Celery does."""
    if command == "later":
        for name in names:
            count.apply_async((name,), countdown=3600)
    elif command == "chord":
        chord([count.s(name) for name in names[1:]])(count.si(names[0]))
    elif command == "forget":
        for name in names:
            app.AsyncResult(name).forget()
    elif command == "restore":
        with app.connection_for_read() as connection:
            connection.default_channel.qos.restore_visible()
    elif command == "purge":
        app.control.purge()
    elif command == "urgent":
        for name in names:
            count.apply_async((name,), priority=9)
    else:
        for name in names:
            {"count": count, "fail": fail, "hold": hold}[command].delay(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
