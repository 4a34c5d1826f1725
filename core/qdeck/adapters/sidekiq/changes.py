"""The changes of verbs in Sidekiq, as cells: jobs are found by their exact bytes, never by their score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._model.reasons import Caution, CautionCode, SkipCode
from qdeck._model.words import Verb
from qdeck._redis.commands import raw_of
from qdeck.adapters import cells
from qdeck.adapters.cells import ANY, THERE, Change, End
from qdeck.adapters.model import Skipped
from qdeck.adapters.sidekiq import jobs
from qdeck.adapters.sidekiq.keys import WAITING

if TYPE_CHECKING:
    from qdeck.adapters.cells import Cell
    from qdeck.adapters.model import Entry
    from qdeck.adapters.sidekiq.keys import SidekiqKeys

_LOCKS: Final = ("unique_token", "unique_digest", "lock_digest")


def build(keys: SidekiqKeys, act: Verb, entry: Entry, now: int) -> Change:
    """Return the change that a verb makes to a job."""
    seen = entry.seen
    job = jobs.read(seen.member)
    if act is Verb.DISCARD and job is not None and job.get("bid"):
        raise Skipped.because("it belongs to a batch, which would never complete without it")
    if act is Verb.DISCARD:
        locked = job is not None and any(job.get(name) for name in _LOCKS)
        caution = Caution(code=CautionCode.ELSEWHERE_UNCHANGED, name="the unique lock of a job") if locked else None
        return Change(id=entry.id, cells=(_taken(entry),), effect="removed", caution=caution)
    if job is None or not isinstance(job.get("queue"), str):
        raise Skipped(SkipCode.UNREADABLE, "it is not a Sidekiq job")
    if act is Verb.BURY:
        listed = cells.score(keys.set_of("set:dead"), seen.member, None, b"%d.%03d" % divmod(now, 1000))
        return Change(
            id=entry.id, cells=(_taken(entry), listed), effect="moved to the dead set; Sidekiq keeps it for 6 months"
        )
    return _in_line(keys, entry, job, now)


def _taken(entry: Entry) -> Cell:
    seen = entry.seen
    if entry.native_state == WAITING:
        return cells.take(seen.key, seen.member, End.LEFT, seen.at)
    return cells.score(seen.key, seen.member, seen.score, None)


def _in_line(keys: SidekiqKeys, entry: Entry, job: jobs.Job, now: int) -> Change:
    """Add a job to its queue like Sidekiq does; the retry count of a failed one is reduced by one."""
    queue = job["queue"]
    fresh = dict(job)
    count = fresh.get("retry_count")
    if entry.native_state != "schedule" and isinstance(count, int):
        fresh["retry_count"] = count - 1
    fresh["enqueued_at"] = jobs.like(now, job.get("created_at"))
    made = (
        _taken(entry), cells.member(keys.queues, raw_of(queue), ANY, THERE),
        cells.push(keys.queue(queue), jobs.written(fresh), End.LEFT),
    )  # fmt: skip
    return Change(id=entry.id, cells=made, effect=f"added to the end of {queue}")
