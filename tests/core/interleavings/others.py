"""The entries of another system, and the verbs of two operators on each: plans made beforehand, applied in any order.

A program here is one slice as a plan applies it: the clock, what the batch did already, the entry read again, what the
verb needs, then the change. The clock that programs read stands still.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.adapters.test_conformance import FILL
from core.interleavings.orders import play
from core.interleavings.worlds import Saved
from qdeck import QdeckError
from qdeck._operations.queue_scope import context_of
from qdeck._redis import Endpoint, SyncClient
from qdeck.adapters.applying import PlanSlice
from qdeck.admin import Writer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from core.interleavings.orders import Choose, Played, Where
    from qdeck.adapters import Program, Request
    from qdeck.admin import JobRecord

VERBS: Final = ("retry", "discard", "cancel", "run", "bury", "requeue")
_EXAMPLES: Final = 5  # of a state, of which that with most verbs is taken
_KEEP_MS: Final = 86_400_000
_MOMENT: Final = re.compile(rb"\b1[0-9]{12}\b|\b1[0-9]{9}(?:\.[0-9]+)?\b|\b20\d\d-\d\d-\d\d[T ][0-9:.]+(?:\+00:00|Z)?")


class StillClient(SyncClient):
    """A client whose server's clock stands still."""

    clock: list[bytes] | None = None

    def _exchange(self, request: Request) -> list[Any]:
        replies = super()._exchange(request)
        for at, command in enumerate(request.commands):
            if command == (b"TIME",):
                self.clock = self.clock or replies[at]
                replies[at] = self.clock
        return replies


class OtherWorld:
    """The entries of one system, one of each queue and state, and the verbs that can be applied to each."""

    def __init__(self, adapter: str, url: str, raw: redis.Redis) -> None:
        self._filling = FILL[adapter]()
        self._filling.populate(raw)
        self._raw, self.adapter = raw, adapter
        self.client = StillClient(Endpoint(url))
        self.writer = Writer(url, adapters=(adapter,))
        self._programs: dict[str, Any] = {}
        self.pairs: list[tuple[str, str]] = []
        for jobs in self._alike().values():
            names = max((self._plan(job) for job in jobs[:_EXAMPLES]), key=len)
            self.pairs += itertools.combinations_with_replacement(names, 2)
        self._saved = Saved(raw)
        for name in self._programs:  # loads the scripts: else the first order has more calls than the others
            self.client.run(self.step(name, 0))
            self._saved.restore()

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        self.writer.close()

    def _alike(self) -> dict[tuple[str, str, str], list[JobRecord]]:
        """Return the jobs by queue and state: some of them can be changed, others are broken."""
        found: dict[tuple[str, str, str], list[JobRecord]] = {}
        for row in self.writer.snapshot().queues:
            for job in self.writer.jobs(row.ref):
                found.setdefault((row.name, job.state, job.native_state), []).append(job)
        return found

    def _plan(self, job: JobRecord) -> list[str]:
        """Plan every verb on a job; return the names of the steps."""
        names = []
        for verb in VERBS:
            try:
                plan, _ = self.writer.plan_jobs(verb, [job])
            except QdeckError:
                continue  # its system has no such verb
            if entries := list(plan.entries()):
                names.append(f"{verb} {job.queue} {job.key}")
                self._programs[names[-1]] = entries, context_of(plan.head, plan.head.created_ms)
        return names

    def step(self, name: str, number: int) -> Program[Any]:
        """Return the program of a step, as the batch of that number."""
        entries, context = self._programs[name]
        own = msgspec.structs.replace(context, batch=f"b{number}")
        applier = self.writer.adapters.instance(self.adapter).applier(own, _KEEP_MS, 1.0)
        return (yield from applier.apply([PlanSlice(0, list(entries))], 1 << 20))

    def play(self, steps: Sequence[str], choose: Choose, where: Where | None = None) -> tuple[Played, str]:
        """Play steps in an order; return how it went, and what the server holds then."""
        self._saved.restore()
        played = play(self.client, [self.step(name, at) for at, name in enumerate(steps)], choose, where)
        assert where or not any(played.errors), played.told(where)
        return played, self.text()

    def text(self) -> str:
        """Return what the server holds, without moments."""
        held = repr(sorted(self._filling.contents(self._raw).items(), key=lambda one: one[0]))
        return _MOMENT.sub(b"T", held.encode()).decode()
