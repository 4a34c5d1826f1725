"""The verdict on a deck: how it is, and why, worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._deck.model import QueueRow, Reason, ServerInfo, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEAD_DEGRADED: Final = 100  # dead letters of one queue
DEAD_UNHEALTHY: Final = 1000
STUCK_DEGRADED: Final = 1  # stuck jobs of all queues together
STUCK_UNHEALTHY: Final = 50
UNSERVED_UNHEALTHY_S: Final = 300  # how long jobs wait for a worker that does not exist
MEMORY_DEGRADED: Final = 0.90  # part of maxmemory in use
MEMORY_UNHEALTHY: Final = 0.98


def judge(server: ServerInfo, rows: Sequence[QueueRow]) -> tuple[Status, tuple[Reason, ...]]:
    """The status, which is that of the worst reason, and the reasons."""
    reasons = [*_of_server(server), *_of_stuck(rows)]
    for row in rows:
        reasons += _of_queue(row)
    order = list(Status)
    reasons.sort(key=lambda reason: -order.index(reason.status))
    return (reasons[0].status if reasons else Status.HEALTHY), tuple(reasons)


def _of_server(server: ServerInfo) -> Iterable[Reason]:
    if server.role == "replica":
        yield Reason(status=Status.DEGRADED, text="the server is a replica: nothing can be changed here")
    if server.save_failed:
        yield Reason(status=Status.UNHEALTHY, text="the server fails to save its data to disk: see its log")
    if server.max_memory_bytes:
        if server.eviction not in (None, "noeviction"):
            text = f"the server may throw queue data away when memory is full (maxmemory-policy {server.eviction})"
            yield Reason(status=Status.DEGRADED, text=text)
        part = (server.memory_bytes or 0) / server.max_memory_bytes
        if part >= MEMORY_DEGRADED:
            status = Status.UNHEALTHY if part >= MEMORY_UNHEALTHY else Status.DEGRADED
            yield Reason(status=status, text=f"the server uses {part:.0%} of its memory limit")


def _of_stuck(rows: Sequence[QueueRow]) -> Iterable[Reason]:
    stuck = [row for row in rows if row.stuck]
    count = sum(row.stuck or 0 for row in stuck)
    if count >= STUCK_DEGRADED:
        status = Status.UNHEALTHY if count >= STUCK_UNHEALTHY else Status.DEGRADED
        where = stuck[0].name if len(stuck) == 1 else f"{len(stuck):,} queues"
        text = f"{_jobs(count)} stuck in {where}"
        yield Reason(status=status, text=text, queue=stuck[0].name if len(stuck) == 1 else None)


def _of_queue(row: QueueRow) -> Iterable[Reason]:
    if row.problem is not None:
        yield Reason(status=Status.DEGRADED, text=row.problem, queue=row.name)
    dead = row.dead or 0
    if dead >= DEAD_DEGRADED:
        status = Status.UNHEALTHY if dead > DEAD_UNHEALTHY else Status.DEGRADED
        letters = f"{dead:,} dead letters in {row.name}"
        yield Reason(status=status, text=letters, queue=row.name)
    if not row.ready:
        return
    if row.paused:
        yield Reason(status=Status.DEGRADED, text=f"{row.name} is paused, {_jobs(row.ready)} waiting", queue=row.name)
    elif row.workers == 0:
        status = Status.UNHEALTHY if (row.oldest_s or 0) >= UNSERVED_UNHEALTHY_S else Status.DEGRADED
        text = f"no live worker for {row.name}, {_jobs(row.ready)} waiting"
        yield Reason(status=status, text=text, queue=row.name)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
