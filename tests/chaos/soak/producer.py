"""A producer of the soak: notes the ids of each call before it is sent, and again once it is confirmed."""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
from typing import TYPE_CHECKING, Any

from chaos.jobs import NOTES_URL
from chaos.soak.app import ATTEMPTED, CONFIRMED, make_app
from qdeck import OutcomeUnknown, ServerRefused, ServerUnreachable, UnknownDependency, chain, group
from support.servers import raw_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qdeck import App, Call

RESEND_S = 45.0  # within the minute in which a call may be sent again
PER_SECOND = float(os.environ.get("SOAK_RATE", "60"))


class Producer:
    """Makes jobs of all kinds, both queues mixed."""

    def __init__(self, app: App, name: str) -> None:
        self._app = app
        self._name = name
        self._numbers = itertools.count()
        self._dice = random.Random(name)

    def batch(self) -> list[Call]:
        """Return the calls of one request."""
        dice = self._dice
        kind = dice.randrange(100)
        if kind < 25:
            return [self._call("quick", dice.random() * 0.02) for _ in range(dice.randint(1, 20))]
        if kind < 50:
            return [self._call("aquick", dice.random() * 0.05) for _ in range(dice.randint(1, 20))]
        if kind < 60:
            return [self._call("aquick", _delay=dice.random() * 5) for _ in range(dice.randint(1, 10))]
        if kind < 68:
            return [self._call("flaky", dice.randint(1, 3)) for _ in range(3)]
        if kind < 74:
            return [self._call("doomed") for _ in range(dice.randint(1, 5))]
        if kind < 82:
            return chain(*(self._call("quick", 0.001) for _ in range(3)))
        if kind < 88:
            return group([self._call("aquick", 0.01) for _ in range(4)], self._call("quick"))
        if kind < 92:
            doomed = [self._call("doomed") for _ in range(2)]
            return [*doomed, self._call("aquick", _after=doomed), self._call("quick", _after=doomed, _run_anyway=True)]
        if kind < 96:
            return [self._call("quick", _name=f"one-{dice.randrange(50)}", _unique=True, _priority="HIGH")]
        if kind < 99:
            return [self._call("whoami", 0.01, prefix="") for _ in range(2)]
        return [self._call("poison")] if dice.random() < 0.05 else [self._call("quick", _priority="LOW")]

    def send(self, calls: list[Call]) -> Iterator[str]:
        """Enqueue, again with the same ids for as long as that is safe; yield the ids that were confirmed."""
        until = time.monotonic() + RESEND_S
        while True:
            try:
                jobs = self._app.enqueue_many(calls)
            except (OutcomeUnknown, ServerUnreachable, ServerRefused):
                if time.monotonic() > until:
                    return
                time.sleep(0.2)
            except UnknownDependency:
                return  # the operator discarded the parent between two requests of one chain
            else:
                yield from (job.id for job in jobs)
                return

    def _call(self, task: str, *args: Any, prefix: str | None = None, **options: Any) -> Call:
        chosen = self._dice.choice(("", "", "other.")) if prefix is None else prefix
        call_id = f"{self._name}-{next(self._numbers):07d}"
        return self._app.find_task(chosen + task).call(*args, _id=call_id, **options)


def main(name: str) -> None:
    """Enqueue jobs until this process is ended."""
    notebook = raw_client(os.environ[NOTES_URL], timeout_s=30)
    producer = Producer(make_app(os.environ["SOAK_URL"], patience=5.0), name)
    print("producing", flush=True)  # noqa: T201 - what the soak waits for
    while True:
        calls = producer.batch()
        notebook.sadd(ATTEMPTED, *(call.id for call in calls))
        if confirmed := list(producer.send(calls)):
            notebook.sadd(CONFIRMED, *confirmed)
        time.sleep(len(calls) / PER_SECOND)


if __name__ == "__main__":
    main(sys.argv[1])
