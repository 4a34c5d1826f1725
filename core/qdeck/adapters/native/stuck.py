"""Stuck jobs with their reasons, and whether their workers are alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, keys
from qdeck._errors import QdeckError
from qdeck._model.reasons import Stuck, StuckCode
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck._server import workers
from qdeck._server.queue_details import stuck_since
from qdeck.adapters.native.records import read_lease
from qdeck.adapters.native.walk import Needs, Walk, fill
from qdeck.adapters.plans import StuckJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import WorkerRow
    from qdeck._redis.commands import Program
    from qdeck.adapters.native.records import Row

HELD: Final = ("head", "lease", "attempts")  # what the rule and the facts about a running job need
NEEDED: Final = (*HELD, "error")


def judge(row: Row, owners: Mapping[str, WorkerRow] | None, now_ms: int) -> StuckJob | None:
    """Return why a running job is stuck; None if it is not."""
    found = stuck_since(row.lease_raw, row.head_raw, row.at, now_ms)
    if found is None:
        return None
    code, since = StuckCode(found[0]), found[1]
    lease = read_lease(row.lease_raw)
    if lease is None:
        return _stuck(row, code, since, None, None, now_ms)
    alive = _is_alive(lease.worker, owners)
    if code is StuckCode.LEASE_EXPIRED and alive is False:
        code = StuckCode.OWNER_GONE
    return _stuck(row, code, since, lease.worker, alive, now_ms)


def _is_alive(worker: str, owners: Mapping[str, WorkerRow] | None) -> bool | None:
    """Return whether a worker is alive; None if workers may not be read."""
    if owners is None:
        return None
    owner = owners.get(worker)
    return owner is not None and owner.alive


def judge_refused(row: Row, owners: Mapping[str, WorkerRow] | None, now_ms: int) -> StuckJob | None:
    """A delayed job whose task its last worker did not know, unless a later event says otherwise."""
    events = codec.read_events(row.error_raw)
    if not events or events[-1].kind != codec.UNKNOWN_TASK:
        return None
    worker = str(events[-1].data.get("worker", ""))
    return _stuck(row, StuckCode.UNKNOWN_TASK, events[-1].at_ms, worker, _is_alive(worker, owners), now_ms)


def _stuck(row: Row, code: StuckCode, since_ms: int, worker: str | None, alive: bool | None, now_ms: int) -> StuckJob:
    record = row.full()
    stuck_s = max(0, now_ms - since_ms) / 1000
    started = record.since_ms
    return StuckJob(
        id=row.id, queue=row.queue, why=Stuck(code=code, seconds=stuck_s),
        age_s=None if started is None else (now_ms - started) / 1000, since_ms=since_ms,
        stuck_s=stuck_s, worker=worker, worker_alive=alive, task=record.task,
        attempts=record.attempts,
    )  # fmt: skip


def read_owners(now_ms: int) -> Program[dict[str, WorkerRow] | None]:
    """Return the known workers; None if they may not be read."""
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
        super().__init__(queue, state, Needs.of(wanted, now, state, always=NEEDED if refused else HELD), now, part=part)
        self._owners, self._judge = owners, judge_refused if refused else judge

    def stuck(self, row: Any) -> StuckJob | None:
        """Return the job if it is stuck."""
        return self._judge(row, self._owners, self.now)


def pages(queues: Sequence[str], wanted: Filter | None, now: int) -> Program[list[StuckPages]]:
    """Return the searches that find the stuck jobs of these queues."""
    owners = yield from read_owners(now)
    refused = yield from reads.try_all([(b"EXISTS", keys.key(queue, "unknown_tasks")) for queue in queues])
    return [
        StuckPages(queue, owners, wanted, now, refused=is_refused)
        for queue, some_refused in zip(queues, refused, strict=True)
        for is_refused in (False, True)
        if not is_refused or some_refused == 1
    ]


def read_running(
    queue: str, owners: Mapping[str, WorkerRow], wanted: Filter | None, now: int, limit: int, most_read: int
) -> Program[tuple[list[StuckJob], bool]]:
    """Return the first stuck jobs among those that run, and whether the list ended before a bound was met."""
    walk = StuckPages(queue, owners, wanted, now, refused=False)
    found: list[StuckJob] = []
    while len(found) < limit and walk.scanned < most_read:
        rows = yield from walk.page()
        if rows is None:
            return found, True
        found += [job for row in rows if (job := walk.stuck(row)) is not None]
    return found[:limit], False


def read_one(queue: str, job_id: str, owners: Mapping[str, WorkerRow], now: int) -> Program[StuckJob | None]:
    """Return why one job is stuck; None where it does not run, or is not stuck."""
    from qdeck.adapters.native.job import by_id

    [row] = yield from by_id(queue, [job_id], now)
    if row is None or row.state != State.RUNNING:
        return None
    for part in HELD:
        yield from fill(queue, part, [row])
    return judge(row, owners, now)
