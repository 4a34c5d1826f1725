"""The `rq` adapter: a queue for each list, with the sorted sets in which RQ lists jobs by state.

A job is listed by id; all about it is in a hash of its own, and what it failed of in a stream. What it calls is a
pickle, which is shown and never loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._deck.model import State
from qdeck._deck.reasons import CapabilityCode
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import Act, Capability, Kind, Outcome
from qdeck.adapters.rq.keys import NAME, QUEUES, job_key, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._deck.model import JobDetail, WorkerRow
    from qdeck._redis.commands import Program
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Source, Want
    from qdeck.adapters.plans import Context

_WAITING: Final = (State.READY, State.DELAYED, State.BLOCKED)
_ENDED: Final = (State.DEAD, State.DONE, State.CANCELLED)
_OUTCOMES: Final = {
    b"queued": Outcome.WAITING, b"deferred": Outcome.WAITING, b"started": Outcome.RUNNING, b"finished": Outcome.DONE,
    b"failed": Outcome.DEAD, b"scheduled": Outcome.FAILED, b"stopped": Outcome.CANCELLED,
    b"canceled": Outcome.CANCELLED,
}  # fmt: skip


class Rq(Adapter):
    """RQ 1 and 2, whose keys begin with `rq:`."""

    name: str = NAME
    about: ClassVar[str] = "rq:* of RQ"
    acl_keys: ClassVar[tuple[str, ...]] = ("rq:*",)
    outcome_evidence: ClassVar[str] = "the record of a job says how it went, for as long as RQ keeps it"

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """The set of its queues, which every queue of RQ is in."""
        return {QUEUES: Kind.SET}

    def capabilities(self) -> Mapping[Act, Capability]:
        """What its commands and its library do."""
        return {
            Act.RETRY: Capability(states=(State.DEAD,), note="as rq requeue; its count of retries stays as it is"),
            Act.RUN: Capability(states=(State.DELAYED,)),
            Act.CANCEL: Capability(states=_WAITING, note="as Job.cancel"),
            Act.REQUEUE: Capability(states=(State.RUNNING,), note="of a job whose worker is gone"),
            Act.BURY: Capability(states=(State.RUNNING,), note="of a job whose worker is gone; it counts as failed"),
            Act.DISCARD: Capability(states=(*_WAITING, *_ENDED), note="as Job.delete; never one that others wait for"),
            Act.REPRIORITISE: Capability(code=CapabilityCode.NO_SUCH_STATE, note="its queues have no priorities"),
        }

    def rows(self, now: int) -> Program[Look]:
        """All queues with the sizes of their lists and sorted sets."""
        from qdeck.adapters.rq import rows

        return (yield from rows.read(self.name, now))

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """The list and the sorted sets of these states."""
        yield from ()  # no reading: a program all the same
        return sources_of(queue, states)

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """The jobs that these members name."""
        from qdeck.adapters.rq import jobs

        return (yield from jobs.fill(queue, raws, now, want)) if raws else []

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """The workers, as each last described itself."""
        from qdeck.adapters.rq import workers

        return (yield from workers.read(self.name, now))

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """All about one job, with its results and the traceback of the last failure."""
        from qdeck.adapters.rq import jobs

        detail = yield from super().job(queue, wanted)
        return (yield from jobs.with_results(detail))

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """As the records of the jobs say."""
        replies = yield ask(*((b"HGET", job_key(one.seen.member), b"status") for one in tried))
        return [Outcome.UNKNOWN if is_error(one) else _OUTCOMES.get(one, Outcome.UNKNOWN) for one in replies]

    def change(self, act: Act, entry: Entry, context: Context) -> Program[Change]:
        """The cells of one job."""
        from qdeck.adapters.rq import changes

        [facts] = yield from changes.read_facts([changes.job_of_entry(entry)])
        return changes.build(act, entry, facts, context)
