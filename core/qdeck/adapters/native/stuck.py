"""Stuck jobs with the reason for each, and whether the worker that holds them lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import workers
from qdeck._deck.details import GRACE_MS
from qdeck._deck.model import State
from qdeck._deck.reasons import Stuck, StuckCode
from qdeck._engine import codec, keys
from qdeck._errors import QdeckError
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck.adapters.native.records import read_head, read_lease
from qdeck.adapters.native.walk import Needs, Walk
from qdeck.adapters.plans import StuckJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import WorkerRow
    from qdeck._filter import Filter
    from qdeck._redis.commands import Program
    from qdeck.adapters.native.records import Row

NEEDED: Final = ("head", "lease", "attempts", "error")


def judge(row: Row, owners: Mapping[str, WorkerRow] | None, now_ms: int) -> StuckJob | None:
    """Whether a running job is stuck, and why."""
    lease, head = read_lease(row.lease_raw), read_head(row.head_raw)
    deadline = row.at
    if lease is None:
        return _stuck(row, StuckCode.NO_LEASE, now_ms - deadline, None, None, now_ms)
    owner = None if owners is None else owners.get(lease.worker)
    alive = None if owners is None else owner is not None and owner.alive
    late = now_ms - deadline
    if lease.expired_once:
        late = max(late, now_ms - (deadline - lease.lease_ms // 2))
    if late > 0:
        code = StuckCode.OWNER_GONE if alive is False else StuckCode.LEASE_EXPIRED
        return _stuck(row, code, late, lease.worker, alive, now_ms)
    if head is not None and head.limit_ms is not None:
        over = now_ms - lease.claimed_ms - head.limit_ms
        if over > GRACE_MS:
            return _stuck(row, StuckCode.OVER_LIMIT, over, lease.worker, alive, now_ms)
    return None


def judge_refused(row: Row, owners: Mapping[str, WorkerRow] | None, now_ms: int) -> StuckJob | None:
    """A delayed job whose task its last worker did not know, unless a later event says otherwise."""
    events = codec.read_events(row.error_raw)
    if not events or events[-1].kind != codec.UNKNOWN_TASK:
        return None
    worker = str(events[-1].data.get("worker", ""))
    owner = None if owners is None else owners.get(worker)
    alive = None if owners is None else owner is not None and owner.alive
    return _stuck(row, StuckCode.UNKNOWN_TASK, now_ms - events[-1].at_ms, worker, alive, now_ms)


def _stuck(row: Row, code: StuckCode, ms: int, worker: str | None, alive: bool | None, now_ms: int) -> StuckJob:
    record = row.full()
    since = record.since_ms
    return StuckJob(
        id=row.id, queue=row.queue, why=Stuck(code=code), age_s=None if since is None else (now_ms - since) / 1000,
        stuck_s=max(0, ms) / 1000, worker=worker, worker_alive=alive, task=record.task, attempts=record.attempts,
    )  # fmt: skip


def read_owners(now_ms: int) -> Program[dict[str, WorkerRow] | None]:
    """The workers that are known, or None when they may not be read."""
    try:
        return {row.id: row for row in (yield from workers.list_workers(now_ms))}
    except LOST:
        raise
    except QdeckError:
        return None


class StuckPages(Walk):
    """Jobs of one list that may be stuck: those that run, or those whose worker did not know their task."""

    def __init__(
        self, queue: str, owners: Mapping[str, WorkerRow] | None, wanted: Filter | None, now: int, *, refused: bool
    ) -> None:
        state, part = (State.DELAYED, "unknown_tasks") if refused else (State.RUNNING, None)
        super().__init__(queue, state, Needs.of(wanted, now, state, always=NEEDED), now, part=part)
        self._owners, self._judge = owners, judge_refused if refused else judge

    def stuck(self, row: Any) -> StuckJob | None:
        """The job, if it is stuck; in a queue the longest stuck are first."""
        return self._judge(row, self._owners, self.now)


def pages(queues: Sequence[str], wanted: Filter | None, now: int) -> Program[list[StuckPages]]:
    """Return what has to be looked through for the stuck jobs of these queues."""
    owners = yield from read_owners(now)
    refused = yield from reads.ask_all([(b"EXISTS", keys.key(queue, "unknown_tasks")) for queue in queues])
    return [
        StuckPages(queue, owners, wanted, now, refused=is_refused)
        for queue, some_refused in zip(queues, refused, strict=True)
        for is_refused in (False, True)
        if not is_refused or some_refused == 1
    ]
