"""Stuck jobs with their reasons, and whether their workers are alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import keys
from qdeck._errors import QdeckError
from qdeck._model.reasons import StuckCode
from qdeck._model.values import State
from qdeck._redis import reads
from qdeck._redis.errors import LOST
from qdeck._server import workers
from qdeck._server.queue_details import stuck_since
from qdeck.adapters.native.walk import Needs, Walk
from qdeck.adapters.plans import StuckJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from qdeck._filter import Filter
    from qdeck._model.values import WorkerRow
    from qdeck._redis.commands import Program
    from qdeck.adapters.native.records import Row

HELD: Final = ("head", "lease", "attempts")  # what the rule and the facts about a running job need
NEEDED: Final = (*HELD, "error")


def is_stuck(row: Row) -> bool:
    """Return whether a running job is stuck, at a tenth of what its record costs."""
    return stuck_since(row.lease_raw, row.head_raw, row.at, row.now) is not None


def note_owners(rows: Iterable[Row]) -> Program[None]:
    """Note which workers are alive, of running jobs whose lease expired."""
    held = [(row, row.worker) for row in rows if is_stuck(row) and row.stuck.code is StuckCode.LEASE_EXPIRED]
    if not held:
        return
    alive = yield from workers.read_alive(list(dict.fromkeys(owner for _, owner in held)), held[0][0].now)
    for row, owner in held:
        _note(row, alive.get(owner))


def _note(row: Row, alive: bool | None) -> None:
    row.owner_alive = alive
    row.record = None  # it was made without


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
        self._owners = owners

    def stuck(self, row: Any) -> StuckJob | None:
        """Return the job if it is stuck."""
        if (self.state == State.RUNNING and not is_stuck(row)) or row.stuck is None:
            return None
        if row.worker is not None and self._owners is not None:
            owner = self._owners.get(row.worker)
            _note(row, owner is not None and owner.alive)
        job, why = row.full(), row.stuck
        return StuckJob(
            id=row.id, queue=row.queue, why=why, age_s=job.age_s, since_ms=why.since_ms,
            stuck_s=why.seconds, worker=job.worker, worker_alive=row.owner_alive, task=job.task, attempts=job.attempts,
        )  # fmt: skip


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
