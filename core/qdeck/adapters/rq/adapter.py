"""The `rq` adapter: a queue for each list, with the sorted sets in which RQ lists jobs by state.

A job is listed by id; its facts are in a hash of its own, and its errors in a stream. Its call is a pickle, which is
shown and never loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from qdeck._model.queue_ref import Feature
from qdeck._model.reasons import CapabilityCode
from qdeck._model.values import State
from qdeck._model.words import Verb
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck.adapters.adapter import Adapter
from qdeck.adapters.model import Capability, Kind, Outcome, change_each
from qdeck.adapters.rq.keys import NAME, QUEUES, job_key, job_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from qdeck._model.values import JobDetail, WorkerRow
    from qdeck._redis.commands import Program
    from qdeck._schedules.model import ScheduleRow
    from qdeck.adapters.cells import Change
    from qdeck.adapters.model import Entry, Look, Raw, Retried, Skipped, Source, Want
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
    features: ClassVar[frozenset[Feature]] = frozenset({Feature.PAUSE})
    outcome_evidence: ClassVar[str] = "the outcome is read from the job's record, as long as RQ keeps it"

    def fixed_keys(self) -> Mapping[bytes, Kind | None]:
        """Return the set that lists every queue of RQ."""
        return {QUEUES: Kind.SET}

    def capabilities(self) -> Mapping[Verb, Capability]:
        """Return the verbs, which do the same as RQ's commands and library."""
        return {
            Verb.RETRY: Capability(states=(State.DEAD,), note="like rq requeue; retries_left is not reset"),
            Verb.RUN: Capability(states=(State.DELAYED,)),
            Verb.CANCEL: Capability(states=_WAITING, note="like Job.cancel"),
            Verb.REQUEUE: Capability(states=(State.RUNNING,), note="only a job whose worker is gone"),
            Verb.BURY: Capability(states=(State.RUNNING,), note="only a job whose worker is gone; it becomes failed"),
            Verb.DISCARD: Capability(
                states=(*_WAITING, *_ENDED), note="like Job.delete; jobs with dependents are skipped"
            ),
            Verb.REPRIORITISE: Capability(code=CapabilityCode.NO_SUCH_STATE, note="RQ queues have no priorities"),
        }

    def pause_change(self, queue: str, *, paused: bool) -> Program[Change | None]:
        """Return what suspends or resumes all workers of RQ, like `rq suspend` and `rq resume`."""
        from qdeck.adapters.rq import changes

        return changes.suspend(paused=paused)

    def rows(self, now: int) -> Program[Look]:
        """Return all queues with the sizes of their lists and sorted sets."""
        from qdeck.adapters.rq import rows

        return (yield from rows.read(self.name, now))

    def schedules(self, now: int) -> Program[list[ScheduleRow]]:
        """Return the jobs of `rq cron` and of rq-scheduler."""
        from qdeck.adapters.rq import schedules

        return schedules.read(self.name, now)

    def sources(self, queue: str, states: Sequence[str]) -> Program[list[Source]]:
        """Return the list and the sorted sets of these states."""
        yield from ()  # reads nothing, but is a program
        return sources_of(queue, states)

    def fill(self, queue: str, raws: Sequence[Raw], now: int, want: Want) -> Program[list[Entry]]:
        """Return the jobs of these members."""
        from qdeck.adapters.rq import jobs

        return (yield from jobs.fill(queue, raws, now, want)) if raws else []

    def workers(self, now: int) -> Program[list[WorkerRow]]:
        """Return the workers, as each last registered itself."""
        from qdeck.adapters.rq import workers

        return (yield from workers.read(self.name, now))

    def job(self, queue: str, wanted: str) -> Program[JobDetail]:
        """Return the details of one job, with its results and the traceback of the last failure."""
        from qdeck.adapters.rq import jobs

        detail = yield from super().job(queue, wanted)
        return (yield from jobs.with_results(detail))

    def outcomes(self, tried: Sequence[Retried], now: int) -> Program[list[Outcome]]:
        """Return the outcomes from the records of the jobs."""
        replies = yield with_errors(*((b"HGET", job_key(one.seen.member), b"status") for one in tried))
        return [Outcome.UNKNOWN if is_error(one) else _OUTCOMES.get(one, Outcome.UNKNOWN) for one in replies]

    def changes(self, act: Verb, entries: Sequence[Entry], context: Context) -> Program[Sequence[Change | Skipped]]:
        """Return what a verb changes in these jobs."""
        from qdeck.adapters.rq import changes

        ids = [job_of(entry.native_state, entry.seen.member) for entry in entries]
        facts = yield from changes.read_facts(ids)
        return change_each(lambda one: changes.build(act, *one, context.now), zip(entries, facts, strict=True))
