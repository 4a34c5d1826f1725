"""Recurring jobs of RQ: those of `rq cron`, which describes itself in a hash, and those of rq-scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine.stored_numbers import score_ms
from qdeck._model.payload import mask_text, shown_text
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck._schedules.model import ScheduleRow
from qdeck.adapters import pickle_reader, recurring
from qdeck.adapters.rq import jobs
from qdeck.adapters.rq.keys import REGISTRIES, job_key
from qdeck.adapters.stored_values import decode_json, read_short, stored_json
from qdeck.adapters.times import read_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qdeck._redis.commands import Program

_CRONS: Final = b"rq:cron_schedulers"
_SCHEDULED: Final = b"rq:scheduler:scheduled_jobs"
_FIXED: Final = "rq cron has it in memory: change its configuration"
_FIELDS: Final = (b"origin", b"description", b"meta")
_OUTCOMES: Final = {native: state.value for native, (_, state) in REGISTRIES.items()} | {"queued": "ready"}


def read(adapter: str, now: int) -> Program[list[ScheduleRow]]:
    """Read the recurring jobs of both."""
    crons, scheduled = yield with_errors(
        (b"ZRANGE", _CRONS, 0, recurring.MOST - 1), (b"ZRANGE", _SCHEDULED, 0, recurring.MOST - 1, b"WITHSCORES")
    )
    rows = yield from _read_crons(adapter, [] if is_error(crons) else crons, now)
    return [*rows, *(yield from _read_scheduled(adapter, [] if is_error(scheduled) else reads.pairs(scheduled), now))]


def _read_crons(adapter: str, names: Sequence[bytes], now: int) -> Program[list[ScheduleRow]]:
    """Read what each `rq cron` that is alive enqueues, and how the last job of each went."""
    texts = yield from read_short([(b"rq:cron_scheduler:" + name, b"cron_jobs") for name in names])
    lists = {name: decode_json(text) for name, text in zip(names, texts, strict=True) if text is not None}
    broken = [
        ScheduleRow(name=text_of(name), adapter=adapter, problem="its list of jobs cannot be read", why_fixed=_FIXED)
        for name, jobs_of in lists.items()
        if not isinstance(jobs_of, list)
    ]
    found = [one for some in lists.values() if isinstance(some, list) for one in some if isinstance(one, dict)]
    found = found[: recurring.MOST]
    last = yield from reads.try_all(
        [(b"ZRANGE", b"rq:cron_job:%b:jobs" % str(one.get("name")).encode("utf-8", "replace"), -1, -1) for one in found]
    )
    ids = [b"" if is_error(reply) or not reply else reply[0] for reply in last]
    states = yield from reads.try_all([(b"HGET", job_key(one), b"status") for one in ids])
    return broken + [
        _cron_row(adapter, table, job, None if is_error(state) else state, now)
        for table, job, state in zip(found, ids, states, strict=True)
    ]


def _cron_row(adapter: str, table: dict[str, Any], job: bytes, state: bytes | None, now: int) -> ScheduleRow:
    next_ms = read_ms(_text(table, "next_enqueue_time"))
    interval = table.get("interval")
    rule = recurring.every(interval) or shown_text(table.get("cron"))
    args = [decode_json((_text(table, name) or "null").encode()) for name in ("args", "kwargs")]
    return ScheduleRow(
        name=shown_text(table.get("name")) or "", adapter=adapter, queue=shown_text(table.get("queue_name")) or "",
        task=shown_text(table.get("func_name")) or "", cron=rule or "", tz="UTC",
        payload=stored_json([args[0] or [], args[1] or {}]), next_ms=next_ms,
        last_ms=read_ms(_text(table, "latest_enqueue_time")), last_id=mask_text(text_of(job)) or None,
        last_outcome=_OUTCOMES.get(text_of(state)) if state else None, late_s=recurring.late_s(next_ms, now),
        why_fixed=_FIXED,
    )  # fmt: skip


def _read_scheduled(adapter: str, members: Sequence[tuple[bytes, bytes]], now: int) -> Program[list[ScheduleRow]]:
    """Read the jobs of rq-scheduler; those without a rule run once."""
    values = yield from read_short([(job_key(job), name) for job, _ in members for name in _FIELDS])
    rows = []
    for at, (job, score) in enumerate(members):
        origin, description, meta = values[at * len(_FIELDS) : (at + 1) * len(_FIELDS)]
        told = recurring.table(pickle_reader.read(meta).value if meta else None)
        next_ms, interval = score_ms(score, 1000), told.get("interval")
        rule = shown_text(told.get("cron_string")) or recurring.every(interval) or "once"
        words = text_of(description or b"")
        called = jobs.CALL.match(words)
        task = called[1] if called else mask_text(words)
        rows.append(
            ScheduleRow(
                name=mask_text(text_of(job)), adapter=adapter, queue=text_of(origin or b""), task=task, cron=rule,
                tz="UTC", next_ms=next_ms, late_s=recurring.late_s(next_ms, now),
                problem="" if origin else "it has no record", why_fixed="change it with rq-scheduler",
            )
        )  # fmt: skip
    return rows


def _text(table: dict[str, Any], name: str) -> str | None:
    value = table.get(name)
    return value if isinstance(value, str) else None
