"""Schedules of RedBeat, which runs Celery's periodic tasks from Redis; those of `celery beat` itself are in a file."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from qdeck._engine.stored_numbers import score_ms, whole
from qdeck._model.payload import shown_text
from qdeck._redis import reads
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck._schedules.model import ScheduleRow
from qdeck.adapters import recurring
from qdeck.adapters.stored_values import decode_json, read_short, stored_json

if TYPE_CHECKING:
    from qdeck._redis.commands import Program

_CRON: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_MOMENT: Final = ("year", "month", "day", "hour", "minute", "second", "microsecond")


def read(adapter: str, prefix: bytes, now: int) -> Program[list[ScheduleRow]]:
    """Read the schedules by the time of their next run."""
    [reply] = yield with_errors((b"ZRANGE", prefix + b":schedule", 0, recurring.MOST - 1, b"WITHSCORES"))
    members = [one for one in ([] if is_error(reply) else reads.pairs(reply)) if one[0].startswith(prefix)]
    values = yield from read_short([(key, name) for key, _ in members for name in (b"definition", b"meta")])
    return [
        _row(adapter, text_of(key.removeprefix(prefix)), score, values[2 * at], values[2 * at + 1], now)
        for at, (key, score) in enumerate(members)
    ]


def _row(adapter: str, name: str, score: bytes, definition: bytes | None, meta: bytes | None, now: int) -> ScheduleRow:
    told, state = recurring.table(decode_json(definition)), recurring.table(decode_json(meta))
    last, enabled = recurring.table(state.get("last_run_at")), told.get("enabled") is not False
    at = score_ms(score, 1000)
    next_ms = at if at is not None and at >= 0 else None  # RedBeat writes -1 where no run follows
    zone = last.get("timezone")
    return ScheduleRow(
        name=shown_text(told.get("name")) or name, adapter=adapter,
        queue=shown_text(recurring.table(told.get("options")).get("queue")) or "celery",
        task=shown_text(told.get("task")) or "", cron=_rule(recurring.table(told.get("schedule"))),
        tz=zone if isinstance(zone, str) and _zone(zone) is not None else "UTC",
        payload=stored_json([told.get("args") or [], told.get("kwargs") or {}]), enabled=enabled,
        next_ms=next_ms, last_ms=_moment(last), jobs_made=whole(state.get("total_run_count")) or 0,
        late_s=recurring.late_s(next_ms, now) if enabled else None, problem="" if told else "it has no definition",
        why_fixed="the application defines it for RedBeat",
    )  # fmt: skip


def _rule(schedule: dict[str, Any]) -> str:
    kind, every = schedule.get("__type__"), schedule.get("every")
    if kind == "crontab":
        return " ".join(str(schedule.get(name, "*")).replace(" ", "") for name in _CRON)
    return (recurring.every(every) if kind == "interval" else "") or shown_text(kind) or ""


def _zone(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return None


def _moment(parts: dict[str, Any]) -> int | None:
    """Return a moment as RedBeat writes it; None where its time zone is none that is known."""
    zone = parts.get("timezone")
    known = _zone(zone) if isinstance(zone, str) else None
    try:
        year, month, day, hour, minute, second, micros = (parts[name] for name in _MOMENT)
        moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=known)
        return None if known is None else round(moment.timestamp() * 1000)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
