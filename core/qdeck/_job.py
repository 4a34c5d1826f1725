"""Jobs: handles on enqueued jobs, with their state and result."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from qdeck._engine import codec, keys, programs, transitions
from qdeck._errors import JobFailed, QdeckError, ResultTimeout, UnknownJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._durability import Durability
    from qdeck._redis import AsyncClient, SyncClient
    from qdeck._redis.commands import Program

_FIRST_PAUSE: Final = 0.002
_LONGEST_PAUSE: Final = 0.1


class JobStatus(NamedTuple):
    """A job's state and, when it ended, its result or failure."""

    state: str
    result: bytes | None
    events: bytes | None


def look(queue: str, job_id: str) -> Program[JobStatus]:
    """Read a job's state and result with plain reads."""
    states = ("done", "dead", "cancelled", "running", "ready", "delayed", "blocked")
    *scores, result, events = yield [
        *((b"ZSCORE", keys.key(queue, state), job_id) for state in states),
        (b"HGET", keys.key(queue, "result"), job_id),
        (b"HGET", keys.key(queue, "error"), job_id),
    ]
    # A job that moves between two of these reads is found by the next refresh.
    found = next((state for state, score in zip(states, scores, strict=True) if score is not None), "unknown")
    return JobStatus(found, result, events)


class Connected(Protocol):
    """The part of an app that a job needs."""

    @property
    def client(self) -> SyncClient:
        """Return the blocking client."""

    def aclient(self) -> AsyncClient:
        """Return the client of the running event loop."""


class Job:
    """A job on the server. `created` is false when a job of this unique name, or this id, existed.

    `durable` is how durable it was when its enqueue returned, if that was requested.
    """

    __slots__ = ("_app", "created", "durable", "id", "queue")

    def __init__(self, app: Connected, queue: str, job_id: str, created: bool = True) -> None:
        self._app = app
        self.queue = queue
        self.id = job_id
        self.created = created
        self.durable: Durability | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} on {self.queue}>"

    def state(self) -> str:
        """Return the job's state now; `unknown` when it ended so long ago that it was dropped, or never existed."""
        return self._app.client.run(look(self.queue, self.id)).state

    async def astate(self) -> str:
        """Return the job's state now, in asyncio."""
        return (await self._app.aclient().run(look(self.queue, self.id))).state

    def result(self, timeout: float | None = None) -> Any:
        """Return the job's result; wait for its end, at most `timeout` seconds."""
        wait = _Wait(self, timeout)
        while True:
            seen = self._app.client.run(look(self.queue, self.id))
            if wait.is_over(seen):
                return wait.value(seen)
            time.sleep(wait.pause())

    async def aresult(self, timeout: float | None = None) -> Any:
        """Return the job's result, in asyncio; wait for its end, at most `timeout` seconds."""
        wait = _Wait(self, timeout)
        while True:
            seen = await self._app.aclient().run(look(self.queue, self.id))
            if wait.is_over(seen):
                return wait.value(seen)
            await asyncio.sleep(wait.pause())

    def cancel(self) -> str:
        """Cancel the job: `ok`, `requested` of its worker when it runs, or why not: `gone`, `moved done` …"""
        return self._app.client.run(programs.call(self._cancel_op()))[0]

    async def acancel(self) -> str:
        """Cancel the job, in asyncio."""
        return (await self._app.aclient().run(programs.call(self._cancel_op())))[0]

    def _cancel_op(self) -> transitions.Transition[list[str]]:
        return transitions.change_jobs(
            self.queue, "cancel", [(self.id, "")], event=b'{"reason":"cancelled by the application"}'
        )


@dataclass(slots=True)
class _Wait:
    job: Job
    timeout: float | None
    _pause: float = _FIRST_PAUSE
    _until: float = 0.0
    _missed: int = 0

    def __post_init__(self) -> None:
        self._until = time.monotonic() + self.timeout if self.timeout is not None else float("inf")

    def is_over(self, seen: JobStatus) -> bool:
        if seen.state == "unknown":
            self._missed += 1
            return self._missed > 3  # a job on its way from one state to the next may be missed, not four times
        self._missed = 0
        return seen.state in ("done", "dead", "cancelled")

    def pause(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise ResultTimeout(f"job {self.job.id} did not end within {self.timeout:g}s", hint="It continues to run.")
        pause, self._pause = min(self._pause, left), min(self._pause * 1.5, _LONGEST_PAUSE)
        return pause

    def value(self, seen: JobStatus) -> Any:
        if seen.state == "done":
            return None if seen.result is None else codec.decode_json(seen.result)
        if seen.state == "unknown":
            raise UnknownJob(
                f"there is no job {self.job.id!r} in queue {self.job.queue!r}",
                hint="Ended jobs are kept for a limited time (keep_result, done_max).",
            )
        last = next((e for e in reversed(codec.read_events(seen.events)) if e.kind in _CAUSES), None)
        why = _describe(last) if last else "no reason is recorded"
        raise JobFailed(
            f"job {self.job.id} is {seen.state}: {why}", hint=f"Run qdeck job {self.job.queue} {self.job.id}."
        )


_CAUSES: Final = ("failed", "timeout", "crashed", "outage", "expired", "cancelled", "dependency", "buried")


def _describe(event: codec.Event) -> str:
    data = event.data
    if "class" in data:
        return f"{data['class']}: {data.get('message', '')}"
    return " ".join(f"{name} {value}" for name, value in data.items()) or event.kind


class NotDurable(QdeckError):
    """The jobs are enqueued, but not as durable as requested.

    `jobs` are all jobs of the call; `job.durable` of each has the number of replicas that have it.
    """

    def __init__(self, message: str = "", *, jobs: Sequence[Job] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.jobs = tuple(jobs)
