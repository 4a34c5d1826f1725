"""Divides the free slots of a worker among its queues, by weight."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROUNDING: Final = 1e-6
_used: Final = attrgetter("used")


class QueueUse:
    """What a queue used of a worker: `used` is the number of its starts divided by its weight."""

    __slots__ = ("is_idle", "used", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.used = 0.0
        self.is_idle = True  # it had no jobs, and must not catch up on the share it did not use

    def count_started(self, started: int) -> None:
        """Count started jobs; the count is negative when jobs were requeued."""
        self.used += started / self.weight


A = TypeVar("A", bound=QueueUse)


class FairShare:
    """Stride scheduling: the queue with the least use for its weight comes first.

    Each start counts the same, however long the job runs. A queue that was idle begins at the use of the others.
    """

    def __init__(self) -> None:
        self._used = 0.0  # the least use of a queue with jobs, at the last choice

    def choose(self, queues: Iterable[A]) -> A | None:
        """Return the queue that comes next, of queues that may have jobs."""
        best: A | None = None
        for queue in queues:
            if queue.is_idle:
                queue.is_idle, queue.used = False, max(queue.used, self._used)
            if best is None or queue.used < best.used:
                best = queue
        if best is not None:
            self._used = max(self._used, best.used)
        return best

    def slots_for(self, queue: QueueUse, queues: Sequence[QueueUse], slots: int, ends_per_poll: int) -> int:
        """Return how many free slots a queue may claim, among all queues that may have jobs.

        The queue that comes next gets at least `ends_per_poll`, as many jobs as end within the time of a poll: to
        divide slots that are free again at once would only make more polls.
        """
        first = self.choose(queues)
        if len(queues) == 1 or (queue is first and ends_per_poll >= slots):
            return slots
        entitled = (_level(queues, slots) - queue.used) * queue.weight
        if queue is first:
            return min(slots, max(1, ends_per_poll, math.ceil(entitled - _ROUNDING)))
        return min(slots, max(0, math.floor(entitled + _ROUNDING)))


def _level(queues: Sequence[QueueUse], slots: int) -> float:
    """Return the use of all queues that get a slot, when slots go one by one to the queue with the least use."""
    weights, used = 0, float(slots)
    for queue in sorted(queues, key=_used):
        if weights and queue.used * weights >= used:
            break
        weights += queue.weight
        used += queue.used * queue.weight
    return used / weights
