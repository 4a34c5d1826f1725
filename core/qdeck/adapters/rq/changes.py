"""The changes of verbs in RQ, as cells: the effects of RQ's own methods, in one step."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from qdeck._engine.stored_numbers import digits
from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.words import Verb
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
from qdeck.adapters import cells
from qdeck.adapters.cells import ANY, THERE, Cell, Change, End
from qdeck.adapters.model import Skipped
from qdeck.adapters.rq.keys import (
    HANDOVER,
    QUEUED,
    QUEUES,
    STARTED,
    SUSPENDED,
    dependencies_key,
    dependents_key,
    execution_key,
    executions_key,
    first_seen_key,
    group_key,
    job_key,
    job_of,
    queue_key,
    registry_key,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program
    from qdeck.adapters.model import Entry

FAILURE_TTL_S: Final = 31_536_000  # RQ's own, where a job has none
NO_ERROR: Final = zlib.compress(b"")
_NEEDED: Final = (b"status", b"origin", b"group_id", b"failure_ttl", b"enqueue_at_front_on_retry")
_STATUS: Final = {
    QUEUED: b"queued", STARTED: b"started", HANDOVER: b"queued", "scheduled": b"scheduled", "deferred": b"deferred",
    "failed": b"failed", "finished": b"finished", "canceled": b"canceled",
}  # fmt: skip
Facts = dict[bytes, bytes | None]


def moment(now: int) -> bytes:
    """Return a moment as RQ writes it."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").encode()


def read_facts(ids: Sequence[bytes]) -> Program[list[Facts | None]]:
    """Read what changes of jobs depend on; None is a job without a record."""
    replies = yield with_errors(*((b"HMGET", job_key(one), *_NEEDED) for one in ids))
    return [reads.record(_NEEDED, reply) for reply in replies]


def suspend(*, paused: bool) -> Program[Change | None]:
    """Return the change that suspends all workers, or resumes them; None where that is done already."""
    stands: bytes | None = yield (b"GET", SUSPENDED)
    if paused is (stands is not None):
        return None
    cell = cells.string(SUSPENDED, stands, b"1" if paused else None)
    return Change(id="", cells=(cell,), effect="all workers of RQ are " + ("suspended" if paused else "resumed"))


def build(act: Verb, entry: Entry, facts: Facts | None, now: int) -> Change:
    """Return the change that a verb makes to a job."""
    job = job_of(entry.native_state, entry.seen.member)
    if facts is None and act is not Verb.DISCARD:
        raise Skipped(SkipCode.NO_RECORD)
    if act in (Verb.REQUEUE, Verb.BURY) and entry.stuck is None:
        raise Skipped.because("its worker sent a heartbeat in time")
    made = _JobCells(entry, job, facts or {}, now)
    if act in (Verb.RETRY, Verb.RUN, Verb.REQUEUE):
        return made.put_in_line(act)
    if act is Verb.CANCEL:
        return made.cancelled()
    if act is Verb.BURY:
        return made.buried()
    return made.discarded()


class _JobCells:
    """The cells of one job."""

    def __init__(self, entry: Entry, job: bytes, facts: Facts, now: int) -> None:
        self.entry, self.job, self.facts, self.now = entry, job, facts, now
        self.queue = entry.queue

    def taken(self) -> list[Cell]:
        """Return the cells that remove it from its list or set, and its execution if it runs."""
        seen, native = self.entry.seen, self.entry.native_state
        if native == QUEUED:
            return [cells.take(seen.key, seen.member, End.RIGHT, seen.at)]
        if native == HANDOVER:
            first_seen = cells.whole_key(first_seen_key(self.queue, self.job), ANY)
            return [cells.take(seen.key, seen.member, End.LEFT, seen.at), first_seen]
        left = [cells.score(seen.key, seen.member, seen.score, None)]
        if native == STARTED and seen.member != self.job:
            execution = seen.member[len(self.job) + 1 :]
            left.append(cells.score(executions_key(self.job), execution, ANY, None))
            left.append(cells.whole_key(execution_key(self.job, execution), ANY))
        return left

    def status(self, after: bytes) -> Cell:
        """Return the cell of the status, which must match the key that lists it."""
        before = _STATUS[self.entry.native_state]
        return cells.field(job_key(self.job), b"status", before, after)

    def fields(self, **after: bytes) -> list[Cell]:
        """Return cells for fields of its hash, whatever they were."""
        return [cells.field(job_key(self.job), name.encode(), ANY, value) for name, value in after.items()]

    def put_in_line(self, act: Verb) -> Change:
        """Add it to the end of its queue, as a job that never ran; its counts of retries are kept."""
        line = queue_key(text_of(self.facts.get(b"origin") or b"") or self.queue)
        made = [*self.taken(), self.status(b"queued")]
        if act is Verb.RUN:
            made += self.fields(enqueued_at=moment(self.now))
        else:
            made += self.fields(started_at=b"", ended_at=b"", exc_info=NO_ERROR, enqueued_at=moment(self.now))
        made += [cells.member(QUEUES, line, ANY, THERE), cells.push(line, self.job, End.RIGHT)]
        return Change(id=self.entry.id, cells=tuple(made), effect=f"added to the end of {self.queue}")

    def cancelled(self) -> Change:
        """Remove it from its queue, and list it as cancelled."""
        listed = registry_key("canceled", self.queue)
        made = [*self.taken(), self.status(b"canceled"), cells.score(listed, self.job, ANY, b"%d" % (self.now // 1000))]
        return Change(id=self.entry.id, cells=tuple(made), effect="cancelled; its dependents keep waiting")

    def buried(self) -> Change:
        """List it as failed, like RQ does with a job whose worker is gone; its retries are not used."""
        stored = self.facts.get(b"failure_ttl") or b""
        until = self.now // 1000 + (digits(stored) or FAILURE_TTL_S)
        ends = () if stored.startswith(b"-") else tuple(
            cells.expiry(key, ANY, b"%d" % (1000 * until))
            for key in (job_key(self.job), dependents_key(self.job), dependencies_key(self.job))
        )  # fmt: skip
        score = b"%d" % until if ends else stored  # RQ never removes a job with a negative score
        error = zlib.compress(b"Moved to FailedJobRegistry by an operator")
        made = [
            *self.taken(), self.status(b"failed"), *self.fields(ended_at=moment(self.now), exc_info=error),
            cells.score(registry_key("failed", self.queue), self.job, ANY, score), *ends,
        ]  # fmt: skip
        return Change(id=self.entry.id, cells=tuple(made), effect="moved to the failed jobs")

    def discarded(self) -> Change:
        """Remove it and its record; refused while others wait for it."""
        job = self.job
        made = [*self.taken(), cells.whole_key(dependents_key(job), None, cells.GUARD)]
        made += [cells.whole_key(key, ANY) for key in (job_key(job), dependencies_key(job), executions_key(job))]
        if group := self.facts.get(b"group_id"):
            made.append(cells.member(group_key(group), job, ANY, None))
        stays = Caution(code=CautionCode.ELSEWHERE_UNCHANGED, name="the result of a job in rq:results")
        return Change(id=self.entry.id, cells=tuple(made), effect="removed with its record", caution=stays)
