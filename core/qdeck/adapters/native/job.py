"""The details of one job, and the locations of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec, keys
from qdeck._engine.stored_numbers import digits
from qdeck._errors import UnknownJob
from qdeck._model import payload
from qdeck._model.values import JobDetail, JobLocation, State
from qdeck._redis import reads
from qdeck._redis.commands import raw_of
from qdeck._redis.errors import good, is_error
from qdeck.adapters.native import ALL_STATES, records
from qdeck.adapters.native.records import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Command, Program

_MOST_CHUNKS: Final = 20  # of the list of dependents, each of about 200
_PARTS: Final = ("head", "attempts", "lease", "error", "body", "result", "log")


def by_id(queue: str, job_ids: Sequence[str], now: int = 0) -> Program[list[Row | None]]:
    """Return where these jobs are; a job that moves between two reads is searched again."""
    found: dict[str, Row] = {}
    missing = list(dict.fromkeys(job_ids))
    for _ in range(3):
        calls: list[Command] = [
            (b"ZSCORE", keys.key(queue, state), raw_of(job_id)) for job_id in missing for state in ALL_STATES
        ]
        heads: list[Command] = [(b"HEXISTS", keys.key(queue, "head"), raw_of(job_id)) for job_id in missing]
        replies = yield from reads.try_all([*calls, *heads])
        there = replies[len(calls) :]
        again = []
        for at, job_id in enumerate(missing):
            scores = replies[at * len(ALL_STATES) : (at + 1) * len(ALL_STATES)]
            for state, score in zip(ALL_STATES, scores, strict=True):
                if good(score) is not None:  # a key of another type matters only where the job is behind it
                    found[job_id] = Row(queue, state, raw_of(job_id), score, now, True)
                    break
            else:
                again += [job_id] if good(there[at]) else []
        missing = again
        if not missing:
            break
    return [found.get(job_id) for job_id in job_ids]


def read_job(queue: str, job_id: str) -> Program[JobDetail]:
    """Return the details of one job; raise `UnknownJob` if it does not exist."""
    now = yield from reads.clock()
    [row] = yield from by_id(queue, [job_id], now)
    if row is None:
        raise UnknownJob(
            f"there is no job {job_id!r} in queue {queue!r}",
            hint=f"Run qdeck find {job_id} to search every queue; ended jobs are kept for a limited time.",
        )
    after, field = keys.key(queue, "after"), raw_of(job_id)
    sizes = yield [(b"HSTRLEN", keys.key(queue, part), field) for part in _PARTS]
    size_of = dict(zip(_PARTS, sizes, strict=True))
    short = [part for part in _PARTS if size_of[part] <= records.MOST_SHOWN]
    *replies, waits, kids = yield [
        *((b"HGET", keys.key(queue, part), field) for part in short),
        (b"HGET", after, b"<" + field),
        (b"HGET", after, b">" + field),
    ]
    values = dict(zip(short, replies, strict=True))
    head, attempts, lease, error, body, result, log = (values.get(part) for part in _PARTS)
    for part in _PARTS:
        if part not in values:
            row.leave_out(part, size_of[part])
    row.head_raw, row.attempts_raw, row.lease_raw, row.error_raw, row.body_raw = head, attempts, lease, error, body
    dependents, more = yield from read_dependents(queue, job_id, kids)
    if row.state == State.RUNNING:
        from qdeck.adapters.native.stuck import note_owners

        yield from note_owners([row])
    known = _of_head(row) | _of_lease(row)
    return JobDetail(
        **records.facts(row),
        **known,
        depends_on=tuple(_words(waits)),
        dependents=tuple(dependents),
        more_dependents=more,
        has_result=result is not None or "result" not in values,
        result=None if result is None else payload.decode(result),
        log=None if log is None else payload.mask_text(log.decode("utf-8", "backslashreplace")),
        body_bytes=size_of["body"],
    )


def _of_head(row: Row) -> dict[str, Any]:
    head, attempts = records.read_head(row.head_raw), records.read_attempts(row.attempts_raw)
    events = codec.read_events(row.error_raw)
    known: dict[str, Any] = {
        "history": records.history(row, head, records.read_lease(row.lease_raw)),
        "failure": None if row.state == "done" else records.last_cause(events),
    }
    if head is not None:
        known |= {
            "unique": head.unique,
            "retries": head.retries,
            "outages": attempts.outages,
            "backoff": head.backoff,
            "on_failure": head.on_failure,
            "handler_of": head.origin,
            "run_anyway": head.run_anyway,
            "expires_ms": head.expires_ms,
            "expires_after_ms": head.expires_after_ms,
            "time_limit_ms": head.limit_ms,
            "lease_ms": head.lease_ms,
            "keep_result_ms": head.keep_ms,
        }
    return known


def _of_lease(row: Row) -> dict[str, Any]:
    lease = records.read_lease(row.lease_raw)
    if lease is None:
        return {}
    return {"claimed_ms": lease.claimed_ms, "cancel_requested": lease.cancel_requested}


def _words(raw: bytes | None) -> list[str]:
    return raw.decode("utf-8", "replace").split() if raw else []


def read_dependents(queue: str, job_id: str, first: bytes | None) -> Program[tuple[list[str], bool]]:
    """Return the dependents of a job: the newest part of the list, and the parts behind it."""
    words = _words(first)
    if not words:
        return [], False
    behind, found = digits(words[0]) or 0, words[1:]
    numbers = range(behind, max(0, behind - _MOST_CHUNKS), -1)
    after = keys.key(queue, "after")
    replies = yield from reads.fetch_all([(b"HGET", after, b">%b#%d" % (raw_of(job_id), number)) for number in numbers])
    for reply in replies:
        # A part behind the first carries the count of its own time in front.
        found += _words(reply)[1:]
    return found, behind > _MOST_CHUNKS


def find(names: Sequence[str], job_id: str, unread: list[str]) -> Program[list[JobLocation]]:
    """Return the queues with a job of this id, and its states; add queues that cannot be read to `unread`."""
    found: list[JobLocation] = []
    field = raw_of(job_id)
    calls: list[Command] = []
    for name in names:
        calls += [(b"HEXISTS", keys.key(name, "head"), field), (b"ZSCORE", keys.key(name, "done"), field)]
    replies = yield from reads.try_all(calls)
    for at, name in enumerate(names):
        head, done = replies[2 * at : 2 * at + 2]
        if not (is_error(head) or is_error(done) or head or done is not None):
            continue
        there = yield from reads.contained(by_id(name, [job_id]), name, unread)
        row = there[0] if there else None
        if row is not None:
            key = records.job_key(name, job_id)
            found.append(JobLocation(queue=name, id=job_id, key=key, state=row.state))
    return found
