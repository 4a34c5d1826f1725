"""The keys of Sidekiq and their states."""

from __future__ import annotations

from typing import Final

from qdeck._model.values import State
from qdeck._redis.commands import raw_of
from qdeck._settings.model import AdapterSettings

NAME: Final = "sidekiq"
SETS: Final = {"set:retry": State.DELAYED, "set:schedule": State.DELAYED, "set:dead": State.DEAD}
"""Sorted sets with the jobs of all queues, each shown as a queue of its own."""
WAITING: Final = "enqueued"
RUNNING: Final = "running"


class SidekiqSettings(AdapterSettings, frozen=True, kw_only=True):
    """`[adapters.sidekiq]`."""

    namespace: str = ""
    """What `redis-namespace` puts before each key, without the colon."""


class SidekiqKeys:
    """Builds the names of the keys in one namespace."""

    def __init__(self, namespace: str = "") -> None:
        self.prefix = f"{namespace}:".encode() if namespace else b""
        self.queues = self.prefix + b"queues"
        self.processes = self.prefix + b"processes"
        self.paused = self.prefix + b"paused"
        self.cron_jobs = (self.prefix + b"cron_jobs:default", self.prefix + b"cron_jobs")

    def queue(self, queue: str) -> bytes:
        """Return the list of the jobs that wait in a queue."""
        return self.prefix + b"queue:" + raw_of(queue)

    def set_of(self, queue: str) -> bytes:
        """Return the sorted set that is shown as this queue."""
        return self.prefix + queue.removeprefix("set:").encode()

    def process(self, identity: bytes) -> bytes:
        """Return the hash in which a process describes itself."""
        return self.prefix + identity

    def work(self, identity: bytes) -> bytes:
        """Return the hash of the jobs that a process runs."""
        return self.prefix + identity + b":work"
