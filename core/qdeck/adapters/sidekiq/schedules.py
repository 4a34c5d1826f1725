"""Schedules of sidekiq-cron, the gem that most applications of Sidekiq use for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from qdeck._errors import QdeckError
from qdeck._model.payload import shown_text
from qdeck._redis.commands import text_of, with_errors
from qdeck._redis.errors import is_error
from qdeck._schedules.cron_rule import CronRule
from qdeck._schedules.model import ScheduleRow
from qdeck.adapters import recurring
from qdeck.adapters.sidekiq import jobs
from qdeck.adapters.stored_values import decode_json, read_short, stored_json
from qdeck.adapters.times import read_ms

if TYPE_CHECKING:
    from qdeck._redis.commands import Program
    from qdeck.adapters.sidekiq.keys import SidekiqKeys

_FIELDS: Final = (b"name", b"klass", b"cron", b"args", b"message", b"status", b"last_enqueue_time")
_RULE: Final = 5  # fields; the time zone comes after them


def read(adapter: str, keys: SidekiqKeys, now: int) -> Program[list[ScheduleRow]]:
    """Read the schedules of the default namespace of sidekiq-cron 2, and those of version 1."""
    replies = yield with_errors(*((b"SSCAN", key, b"0", b"COUNT", recurring.MOST) for key in keys.cron_jobs))
    found = {one.removeprefix(keys.prefix) for reply in replies if not is_error(reply) for one in reply[1]}
    members = [keys.prefix + one for one in sorted(found)[: recurring.MOST]]
    values = yield from read_short([(key, name) for key in members for name in _FIELDS])
    return [
        _row(adapter, text_of(key), values[at * len(_FIELDS) : (at + 1) * len(_FIELDS)], now)
        for at, key in enumerate(members)
    ]


def _row(adapter: str, key: str, values: list[bytes | None], now: int) -> ScheduleRow:
    texts = [text_of(value or b"") for value in values]
    name, task, rule, args, message, status, last = texts
    next_ms, zone = _next(rule, now)
    enabled = status != "disabled"
    return ScheduleRow(
        name=shown_text(name) or key, adapter=adapter, task=shown_text(task) or "", cron=shown_text(rule) or "",
        queue=shown_text((jobs.read(message.encode("utf-8", "replace")) or {}).get("queue")) or "default",
        tz=zone, payload=stored_json([decode_json(args.encode("utf-8", "replace")) or [], {}]),
        enabled=enabled, next_ms=next_ms if enabled else None, last_ms=read_ms(last or None),
        problem="" if task else "it has no record", why_fixed="change it on the page Cron of Sidekiq",
    )  # fmt: skip


def _next(rule: str, now: int) -> tuple[int | None, str]:
    """Return the next run of a rule that names its time zone, and the zone; without one, that of the process counts."""
    words = rule.split()
    if len(words) != _RULE + 1:
        return None, "UTC"
    try:
        run = CronRule(" ".join(words[:_RULE]), words[_RULE]).next(now // 1000)
    except (QdeckError, ValueError):
        return None, "UTC"
    return None if run is None else run * 1000, words[_RULE]
