"""Native jobs that ended: their states, and the events and the log that they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._engine import codec, keys
from support.waiting import wait_until

if TYPE_CHECKING:
    import redis

    import qdeck


def ended(*jobs: qdeck.Job, timeout_s: float = 20.0) -> list[str]:
    """Wait until all of these jobs have ended; return their states."""
    wait_until(lambda: all(job.state() in ("done", "dead", "cancelled") for job in jobs), timeout_s, repr(jobs))
    return [job.state() for job in jobs]


def events_of(raw: redis.Redis, job: qdeck.Job) -> list[codec.Event]:
    """Return the failures of a job, as they are stored."""
    text = raw.hget(keys.key(job.queue, "error"), job.id)
    return codec.read_events(text if isinstance(text, bytes) else None)


def log_of(raw: redis.Redis, job: qdeck.Job) -> str:
    """Return the captured output of a job."""
    text = raw.hget(keys.key(job.queue, "log"), job.id)
    return text.decode() if isinstance(text, bytes) else ""
