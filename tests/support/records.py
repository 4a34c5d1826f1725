"""A job record for filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NOW = int(datetime(2026, 11, 18, 12, tzinfo=UTC).timestamp()) * 1000
HOUR = 3_600_000


@dataclass(kw_only=True)
class Job:
    """A record; `reads` counts how often its payload was read."""

    id: str = "01J"
    name: str | None = "CloneUrl(42)"
    task: str | None = "clone_file"
    queue: str = "billing"
    adapter: str = "native"
    state: str = "dead"
    error: str | None = "TimeoutError"
    message: str | None = "Connection reset by peer, twice"
    worker: str | None = None
    tags: tuple[str, ...] = ("nightly", "eu")
    priority: float | None = 100
    attempts: int | None = 3
    crashes: int | None = 0
    since_ms: int | None = NOW - 3 * HOUR
    due_ms: int | None = None
    failed_ms: int | None = NOW - 2 * HOUR
    enqueued_ms: int | None = NOW - 3 * HOUR
    data: Any = field(default_factory=lambda: [[7, {"deep": [1, 2]}], {"user": {"id": 42, "a.b": True}, "n": None}])
    reads: int = 0

    def payload(self) -> object:
        self.reads += 1
        return self.data

    def text(self) -> str:
        return " ".join(str(part) for part in (self.id, self.name, self.task, self.error, self.message) if part)
