"""An application under way: producers and a reader in threads, a worker, and what any of them had to suffer."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Self

import qdeck
from qdeck.admin import Writer
from support.beside import Beside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Load:
    """Enqueues jobs on several queues one by one, works on them, and looks, until it is told to stop."""

    def __init__(self, url: str, queues: Sequence[str], *, pause_s: float = 0.001) -> None:
        self.url = url
        self.queues = list(queues)
        self.pause_s = pause_s
        self.app = qdeck.App(url, queue=self.queues[0])
        self.ids: dict[str, list[str]] = {queue: [] for queue in self.queues}
        self.ran: list[str] = []
        self.errors: list[str] = []
        self.unseen: list[str] = []  # looks that came to nothing: a reader says so and looks again
        self.longest_s = 0.0  # that an enqueue took
        self.looks = 0
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._produce, args=(queue,)) for queue in self.queues]
        self._threads.append(threading.Thread(target=self._look))

        @self.app.task(retries=0, name="step")
        def step(number: int) -> int:
            self.ran.append(f"{qdeck.current_job().queue} {number}")
            return number

        self._step = step

    def __enter__(self) -> Self:
        self._worker = Beside(self.app, dict.fromkeys(self.queues, 1), lease=5.0)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._worker.end(60)
        self.app.close()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the worker had to wait for."""
        return self._worker.told("waiting")

    @property
    def made(self) -> int:
        """How many jobs were enqueued."""
        return sum(map(len, self.ids.values()))

    def stop(self) -> None:
        """Ends the producers; the worker goes on."""
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def drain(self, timeout_s: float = 60.0) -> dict[str, int]:
        """Waits until no job is left to be done; returns how many are in each state."""
        last_moment = time.monotonic() + timeout_s
        with Writer(self.url) as writer:
            while time.monotonic() < last_moment:
                totals = writer.snapshot().totals
                if totals.ready + totals.running + totals.delayed == 0:
                    break
                time.sleep(0.1)
            rows = writer.snapshot().queues
            return {
                state: sum(getattr(row, state) or 0 for row in rows) for state in ("ready", "running", "done", "dead")
            }

    def states(self) -> dict[str, list[str]]:
        """The ids by the state that the server knows of them now."""
        found: dict[str, list[str]] = {}
        for queue, ids in self.ids.items():
            for job_id in ids:
                found.setdefault(qdeck.Job(self.app, queue, job_id).state(), []).append(job_id)
        return found

    def _produce(self, queue: str) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            began = time.monotonic()
            self._try(self.errors, lambda: self.ids[queue].append(self._step.enqueue(number, _queue=queue).id))  # noqa: B023 - called at once
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            time.sleep(self.pause_s)

    def _look(self) -> None:
        with Writer(self.url) as writer:
            while not self._ended.is_set():
                self._try(self.unseen, writer.snapshot)
                self.looks += 1
                time.sleep(0.05)

    def _try(self, errors: list[str], what: Callable[[], object]) -> None:
        try:
            what()
        except Exception as error:  # noqa: BLE001 - counted: no error may reach an application
            errors.append(f"{type(error).__name__}: {error}")
