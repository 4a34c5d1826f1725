"""The order of findings on every face: severity, then the jobs at risk and for how long.

Weights are compared by powers of two, so that problems of about one size keep their places from refresh to refresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._model.words import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qdeck._model.queue_ref import QueueRef
    from qdeck._model.values import QueueRow, Totals
    from qdeck._model.words import Finding

_AGE_S: Final = 60.0  # of what has no known age
_WAITING: Final = (
    Code.NO_WORKER, Code.LATE, Code.PAUSED, Code.BACKLOG, Code.OVERDUE, Code.FILLING, Code.UNKNOWN_TASK,
)  # fmt: skip
_SERVER: Final = (
    Code.REPLICA, Code.LOADING, Code.SAVE_FAILED, Code.NOT_PERSISTED, Code.EVICTION, Code.MEMORY, Code.UNREADABLE,
)  # fmt: skip
_JOBS: Final[Mapping[Code, Callable[[QueueRow], float]]] = {
    Code.FILLING: lambda row: row.ready or 0,
    Code.FAILING: lambda row: (row.ready or 0) + (row.running or 0),
    Code.DEAD_GROWING: lambda row: 60 * (row.dead_per_min or 0),  # those of the next hour
    Code.SCHEDULE_LATE: lambda _: 1,
}
_SEVERITIES: Final = tuple(Status)


def weight(finding: Finding, row: QueueRow | None = None, totals: Totals | None = None) -> int:
    """Return how much a finding weighs among those of its severity: jobs at risk times their age, in powers of two.

    `row` is its queue. All jobs of the server are at risk where the finding is about the server.
    """
    if finding.queue is None and finding.code in _SERVER and totals is not None:
        jobs: float = totals.ready + totals.delayed + totals.blocked + totals.running
    elif row is not None and finding.code in _JOBS:
        jobs = _JOBS[finding.code](row)
    else:
        jobs = finding.count or 1
    age_s = _AGE_S
    if finding.code in _WAITING and row is not None and row.oldest_s is not None:
        age_s = row.oldest_s
    elif finding.code is Code.LATE and finding.limit is not None:
        age_s = finding.limit
    return int(max(1, jobs) * max(1, age_s)).bit_length()


def finding_rank(finding: Finding, row: QueueRow | None = None, totals: Totals | None = None) -> tuple[int, int]:
    """Return the place of a finding among all, the worst first."""
    return -_SEVERITIES.index(finding.severity), -weight(finding, row, totals)


def ranks(totals: Totals, rows: Mapping[QueueRef, QueueRow]) -> Callable[[Finding], tuple[int, int]]:
    """Return `finding_rank` for the findings on these queues."""
    return lambda finding: finding_rank(finding, None if finding.queue is None else rows.get(finding.queue), totals)
