"""What a worker keeps about each of its queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from qdeck._engine.ops import SLICE_BYTES
from qdeck._worker.shares import Account

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._engine.ops import Ending, Poll

Held = TypeVar("Held")
MOST_ENDINGS: Final = 100  # reported in one call
LONGEST_S: Final = 60.0  # between two looks for expired leases while anything runs


class Lane(Account, Generic[Held]):
    """One queue of a worker: ends to tell, jobs in hand, each a `Held`, and when to look again."""

    __slots__ = (
        "acks",
        "claimed",
        "crowded",
        "deadline",
        "due",
        "endings",
        "held",
        "hungry",
        "looked",
        "number",
        "outbox",
        "peeked",
        "queue",
        "tasks",
        "turned",
        "warned",
        "worker",
    )

    def __init__(self, queue: str, weight: int, worker: str) -> None:
        super().__init__(weight)
        self.queue = queue
        self.worker = worker
        self.number = 0
        self.acks: list[tuple[str, str]] = []
        self.endings: list[Ending] = []
        self.held: dict[str, Held] = {}
        self.hungry = True  # there may be work
        self.due: float | None = None  # when there will be work, on the monotonic clock
        self.deadline: float | None = None  # when a lease runs out
        self.looked = time.monotonic()  # when `deadline` was known last: a poll that fills the room does not tell
        self.outbox = 0
        self.peeked = 0.0  # when it was looked at without a bell
        self.crowded = False  # more of its jobs were for processes than processes were free
        self.turned = 0.0
        self.claimed = False
        self.tasks: dict[str, bool] = {}  # those that some worker of the queue refused, and whether this one knows them
        self.warned: set[str] = set()  # those of them that this one refused

    @property
    def told_tasks(self) -> str:
        """What a poll says about the tasks that some worker refused."""
        return "\n".join(f"{'+' if known else '-'}{task}" for task, known in self.tasks.items()) if self.tasks else ""

    def learn(self, refused: bytes, knows: Callable[[str], bool]) -> None:
        """Takes over which tasks some worker refused; of those that this one knows, jobs may be had at once."""
        names = [line.split(" ", 3)[3] for line in refused.decode("utf-8", "replace").split("\n") if line]
        before, self.tasks = self.tasks, {name: knows(name) for name in names}
        self.hungry = self.hungry or any(known and not before.get(name) for name, known in self.tasks.items())
        self.warned.intersection_update(names)

    def settle(self, poll: Poll, room: int) -> None:
        """Takes over what a poll told about the time to come."""
        now = self.turned = time.monotonic()
        if room > 0:
            taken = len(poll.jobs)
            self.charge(taken)
            self.hungry = taken >= room
            self.rests = not self.hungry
        if room == 0 or not self.hungry:
            waits = [poll.wait_ms / 1000] if poll.wait_ms else []
            if poll.due_ms:
                waits.append((poll.due_ms - poll.now_ms) / 1000)
            self.due = now + max(0.0, min(waits)) if waits else None
            self.looked = now
            if poll.deadline_ms:
                self.expect(now, (poll.deadline_ms - poll.now_ms) / 1000)
            else:
                self.deadline = None
        self.outbox = poll.outbox

    def take_endings(self) -> list[Ending]:
        """Take the next endings to report: as many as one call may carry, in number and in bytes, and at least one."""
        size = count = 0
        for ending in self.endings[:MOST_ENDINGS]:
            size += len(ending.event) + len(ending.log) + len(ending.result)
            if count and size > SLICE_BYTES:
                break
            count += 1
        taken, self.endings = self.endings[:count], self.endings[count:]
        return taken

    def expect(self, now: float, left_s: float) -> None:
        """Look for expired leases then, and in a minute at the latest: the server's clock may be set back."""
        if left_s >= LONGEST_S:
            self.deadline = min(now + LONGEST_S, self.deadline or float("inf"))
        else:
            self.deadline = now + left_s + 0.001  # a lease is over only after its last millisecond
