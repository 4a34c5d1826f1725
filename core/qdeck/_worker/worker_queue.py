"""The state of one queue inside a worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from qdeck._engine.transitions import SLICE_BYTES
from qdeck._worker.fair_share import QueueUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.transitions import Ending, PollReply

Held = TypeVar("Held")
MAX_ENDINGS: Final = 100  # reported in one call
LONGEST_S: Final = 60.0  # between two checks for expired leases while jobs run


class WorkerQueue(QueueUse, Generic[Held]):
    """One queue of a worker: endings to report, held jobs (each a `Held`), and when to poll again."""

    __slots__ = (
        "acks",
        "claimed",
        "endings",
        "held",
        "jobs_due_at",
        "lacks_processes",
        "lease_ends_at",
        "leases_checked_at",
        "may_have_jobs",
        "name",
        "number",
        "outbox",
        "peeked_at",
        "polled_at",
        "tasks",
        "warned",
        "worker",
    )

    def __init__(self, name: str, weight: int, worker: str) -> None:
        super().__init__(weight)
        self.name = name
        self.worker = worker
        self.number = 0
        self.acks: list[tuple[str, str]] = []
        self.endings: list[Ending] = []
        self.held: dict[str, Held] = {}
        self.may_have_jobs = True  # there may be work
        self.jobs_due_at: float | None = None  # when a delayed job is due, on the monotonic clock
        self.lease_ends_at: float | None = None  # when the next lease expires
        self.leases_checked_at = (
            time.monotonic()
        )  # when `lease_ends_at` was read; a poll that fills all slots does not return it
        self.outbox = 0
        self.peeked_at = 0.0  # when it was last peeked at without a wake-up
        self.lacks_processes = False  # more of its jobs were for processes than processes were free
        self.polled_at = 0.0
        self.claimed = False
        self.tasks: dict[str, bool] = {}  # refused by some worker of the queue → whether this worker has it
        self.warned: set[str] = set()  # refused by this worker

    @property
    def task_report(self) -> str:
        """Return the lines of a poll about the tasks that some worker refused."""
        return "\n".join(f"{'+' if known else '-'}{task}" for task, known in self.tasks.items()) if self.tasks else ""

    def update_tasks(self, refused: bytes, has_task: Callable[[str], bool]) -> None:
        """Store which tasks some worker refused; a task that this worker has may have jobs at once."""
        names = [line.split(" ", 3)[3] for line in refused.decode("utf-8", "replace").split("\n") if line]
        before, self.tasks = self.tasks, {name: has_task(name) for name in names}
        self.may_have_jobs = self.may_have_jobs or any(
            known and not before.get(name) for name, known in self.tasks.items()
        )
        self.warned.intersection_update(names)

    def apply_poll(self, poll: PollReply, slots: int) -> None:
        """Store when the queue needs the next poll, and what its reply counted."""
        now = self.polled_at = time.monotonic()
        if slots > 0:
            taken = len(poll.jobs)
            self.count_started(taken)
            self.may_have_jobs = taken >= slots
            self.is_idle = not self.may_have_jobs
        if slots == 0 or not self.may_have_jobs:
            waits = [poll.wait_ms / 1000] if poll.wait_ms else []
            if poll.due_ms:
                waits.append((poll.due_ms - poll.now_ms) / 1000)
            self.jobs_due_at = now + max(0.0, min(waits)) if waits else None
            self.leases_checked_at = now
            if poll.deadline_ms:
                self.check_leases_at(now, (poll.deadline_ms - poll.now_ms) / 1000)
            else:
                self.lease_ends_at = None
        self.outbox = poll.outbox

    def take_endings(self) -> list[Ending]:
        """Take the next endings to report: as many as one call may carry, in number and in bytes, and at least one."""
        size = count = 0
        for ending in self.endings[:MAX_ENDINGS]:
            size += len(ending.event) + len(ending.log) + len(ending.result)
            if count and size > SLICE_BYTES:
                break
            count += 1
        taken, self.endings = self.endings[:count], self.endings[count:]
        return taken

    def check_leases_at(self, now: float, left_s: float) -> None:
        """Check for expired leases then, and in a minute at the latest: the server's clock may be set back."""
        if left_s >= LONGEST_S:
            self.lease_ends_at = min(now + LONGEST_S, self.lease_ends_at or float("inf"))
        else:
            self.lease_ends_at = now + left_s + 0.001  # a lease is over only after its last millisecond
