"""Jobs and their histories at given times. Each step is the engine's own, so the data is consistent."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec

from qdeck._engine import keys, programs, transitions
from qdeck._redis import Endpoint, SyncClient, reads
from qdeck._schedules import store
from qdeck._schedules.model import Definition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._calls import Call
    from qdeck._engine.transitions import ClaimedJob, Ending, Transition
    from qdeck._redis.commands import Program

T = TypeVar("T")
CRASHES_TO_BURY: Final = transitions.CRASH_LIMIT
_IDS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class Past:
    """The past of the queues of a server. The same seed makes the same ids; times are ms since the epoch.

    `polls` is how many polls the same worker made in an earlier past: a used number is not answered again.
    """

    def __init__(self, url: str, *, seed: int = 1, worker: str = "past", polls: int = 0) -> None:
        self._client = SyncClient(Endpoint(url))
        self.rng = random.Random(seed)  # noqa: S311 - the same seed makes the same ids
        self._worker = worker
        self._polls = polls

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def now_ms(self) -> int:
        """Return the server's clock."""

        return self._client.run(reads.clock())

    def enqueue(self, calls: Iterable[Call], at_ms: int) -> list[str]:
        """Enqueue calls of one queue; return the ids of their jobs."""
        given = list(calls)
        fresh = {call.id: self._id(at_ms, number) for number, call in enumerate(given)}
        jobs = [
            call.job._replace(id=fresh[call.id], after=tuple(fresh.get(ref, ref) for ref in call.job.after))
            for call in given
        ]
        self._client.run(programs.enqueue(given[0].queue, jobs, at_ms))
        return list(fresh.values())

    def claim(self, queue: str, at_ms: int, *, free_slots: int = 1, lease_ms: int = 30_000) -> list[ClaimedJob]:
        """Claim jobs for the worker of this past."""
        return self._poll(queue, at_ms, free_slots=free_slots, lease_ms=lease_ms).jobs

    def complete(self, queue: str, at_ms: int, jobs: Iterable[ClaimedJob]) -> None:
        """Report that claimed jobs succeeded."""
        self._poll(queue, at_ms, acks=[(job.id, job.token) for job in jobs])

    def fail(
        self,
        queue: str,
        at_ms: int,
        job: ClaimedJob,
        event: Mapping[str, Any],
        *,
        kind: str = "failed",
        retry_after_ms: int | None = None,
    ) -> None:
        """Report that a claimed job failed, with a retry or without. The event is as workers write it."""
        delay = -1 if retry_after_ms is None else retry_after_ms
        said = msgspec.json.encode({**event, "worker": self._worker})
        ending = transitions.Ending(kind=kind, id=job.id, token=job.token, delay_ms=delay, event=said)
        self._poll(queue, at_ms, endings=[ending])

    def reap(self, queue: str, at_ms: int) -> None:
        """Make jobs of a queue ready again whose leases have expired."""
        self._run(transitions.reap(queue, now=at_ms))

    def configure(self, queue: str, settings: Mapping[str, str]) -> None:
        """Set fields of a queue, such as `paused` or `limit`."""
        self._run(transitions.configure(queue, dict(settings)))

    def schedule(
        self, name: str, call: Call, *, cron: str, tz: str = "UTC", enabled: bool = True, run: bool = False
    ) -> None:
        """Add a schedule that makes this call, paused unless `enabled`; with `run` it makes the first job now."""
        self._client.run(store.register(Definition.of(name, call.queue, call.job, cron=cron, tz=tz)))
        if not enabled:
            self._client.run(store.enable(name, False))
        if run:
            self._client.run(store.run_now(name))

    def log(self, at_ms: int, entry: Mapping[str, Any]) -> None:
        """Add an entry to the log of operations."""

        def add() -> Program[None]:
            yield (b"XADD", keys.ACTIVITY, f"{at_ms}-0", b"e", msgspec.json.encode(entry))

        self._client.run(add())

    def _id(self, at_ms: int, number: int) -> str:
        return f"{at_ms * 1000 + number:013x}" + "".join(self.rng.choices(_IDS, k=7))

    def _poll(
        self,
        queue: str,
        at_ms: int,
        *,
        free_slots: int = 0,
        lease_ms: int = 30_000,
        acks: Sequence[tuple[str, str]] = (),
        endings: Sequence[Ending] = (),
    ) -> transitions.PollReply:
        self._polls += 1
        return self._run(
            transitions.poll(
                queue,
                self._worker,
                self._polls,
                free_slots=free_slots,
                lease_ms=lease_ms,
                acks=acks,
                endings=endings,
                now=at_ms,
            )
        )

    def _run(self, op: Transition[T]) -> T:
        return self._client.run(programs.call(op))
