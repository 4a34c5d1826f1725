"""Workers as subprocesses, and a load that has some of everything."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

from chaos.jobs import NOTES_URL, QUEUE
from chaos.ledger import Ledger
from qdeck import chain, group
from qdeck._engine import programs, transitions
from support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from qdeck import App, Call
    from support.processes import PythonProcess

LEASE_S: Final = 0.6


class Fleet:
    """The workers of one test and the producer that feeds them."""

    def __init__(
        self,
        app: App,
        url: str,
        raw: redis.Redis,
        notebook: redis.Redis,
        notes_url: str,
        make_process: Callable[..., PythonProcess],
    ) -> None:
        self.app = app
        self.url = url
        self.books = Ledger(raw, notebook)
        self.dice = random.Random(4711)
        self._notes_url = notes_url
        self._mark = 0
        self._make_process = make_process
        self.workers: list[PythonProcess] = []
        # All that ends is kept, so that it can be counted.
        app.client.run(programs.make_queue(QUEUE))
        app.client.run(programs.call(transitions.configure(QUEUE, {"done_max": "1000000", "dead_max": "1000000"})))

    def start(self, *, wait: bool = True, **options: Any) -> PythonProcess:
        """Starts a worker; with `wait` it has said that it is there."""
        options = {"url": self.url, "lease": LEASE_S, "concurrency": 10} | options
        env = {"CHAOS_WORKER": json.dumps(options), NOTES_URL: self._notes_url}
        worker = self._make_process("-m", "chaos.worker", env=env)
        self.workers.append(worker)
        if wait:
            worker.wait_for('"started"', 60)
        return worker

    def kill(self, worker: PythonProcess) -> None:
        """SIGKILL, entered in the books."""
        self.books.killed.add(worker.pid)
        self.workers.remove(worker)
        worker.kill9()

    def call(self, task: str, *args: Any, **options: Any) -> Call:
        """A job that is not enqueued yet."""
        return self.app.find_task(task).call(*args, **options)

    def add(self, task: str, *args: Any, end: str = "done", count: int = 1, **options: Any) -> list[str]:
        """Submits jobs that have to end so, and gives their ids."""
        self._mark = self.notes()
        jobs = self.app.enqueue_many([self.call(task, *args, **options) for _ in range(count)])
        self.books.add(jobs, end)
        return [job.id for job in jobs]

    def load(self) -> int:
        """Submits about sixty jobs: both kinds of handlers, failures, delays, dependencies, cancels."""
        before = len(self.books.submitted)
        self._mark = self.notes()
        dice = self.dice
        for call in [self.call("aquick", dice.random() * 0.05) for _ in range(20)]:
            self._enter([call])
        self._enter([self.call("quick", dice.random() * 0.05) for _ in range(12)])
        self._enter([self.call("aquick", _delay=dice.random() * 0.3) for _ in range(6)])
        self._enter([self.call("flaky", dice.randint(1, 3)) for _ in range(5)])
        self._enter(chain(*(self.call("quick", 0.002) for _ in range(3))))
        self._enter(group([self.call("aquick", 0.01) for _ in range(4)], self.call("quick")))
        doomed = [self.call("doomed") for _ in range(3)]
        self._enter([*doomed, self.call("aquick", _after=doomed)], "dead")
        for job in self.app.enqueue_many([self.call("aquick", _delay=3600) for _ in range(2)]):
            job.cancel()
            self.books.add([job], "cancelled")
        return len(self.books.submitted) - before

    def _enter(self, calls: list[Call], end: str = "done") -> None:
        self.books.add(self.app.enqueue_many(calls), end)

    def notes(self) -> int:
        """How many notes there are."""
        return int(self.books.notebook.xlen("chaos:notes"))

    def wait_notes(self, more: int, timeout_s: float = 60.0, *, fresh: bool = False) -> None:
        """Waits until handlers have noted so much more since the last submission or wait; if `fresh`, since now."""
        goal = (self.notes() if fresh else self._mark) + more
        self._mark = goal
        wait_until(lambda: self.notes() >= goal, timeout_s, lambda: f"{self.notes()} notes of {goal}, {self.tell()}")

    def wait_done(self, job_id: str, timeout_s: float = 60.0) -> None:
        """Waits until a job ended well."""
        wait_until(lambda: self.books.is_done(job_id), timeout_s, self.tell)

    def tell(self) -> str:
        """What the workers said, for the message of a failed test."""
        return "\n".join(f"{worker!r}\n{worker.output[-2000:]}" for worker in self.workers)

    def check_alive(self) -> None:
        """Fails when a worker ended that nobody killed."""
        gone = [worker for worker in self.workers if worker.code is not None]
        assert not gone, "\n".join(worker.output for worker in gone)
