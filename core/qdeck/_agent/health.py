"""The health report as others read it: JSON for the API and for `qdeck:health`, a line for the log."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck import reads
from qdeck._deck.model import Status
from qdeck._engine import codec

if TYPE_CHECKING:
    from qdeck._deck.verdict import Check
    from qdeck._engine.ops import Program
    from qdeck._rules.health import HealthReport, QueueHealth, Rates

KEY: Final = "qdeck:health"  # hash: metrics (JSON), status, last_check (ISO 8601); gone when nobody checked for an hour
LIVE_MS: Final = 3_600_000
_MOST_REASONS: Final = 5


def iso(ms: int | None) -> str | None:
    """A moment as ISO 8601 in UTC."""
    if ms is None:
        return None
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(report: HealthReport) -> dict[str, Any]:
    """The report in the words of the document on queue reliability; what cannot be known is null."""
    errors, rates = report.errors, report.rates
    return {
        "at": iso(report.at_ms),
        "status": report.status.value,
        "reasons": [reason.text for reason in report.reasons],
        "queues": {state: {place: _queue(row) for place, row in rows.items()} for state, rows in report.queues.items()},
        "tasks": None if report.tasks is None else {name: asdict(task) for name, task in report.tasks.items()},
        "processing_rate": None if rates is None else _rates(rates),
        "errors": {
            "dlq_size": errors.dead,
            "stuck_count": errors.stuck,
            "orphaned_count": errors.orphaned,
            "stuck_vm_count": errors.stuck,
            "orphaned_metadata_count": errors.orphaned,
        },
        "checks": [_check(check) for check in report.checks],
        "notices": list(report.notices),
    }


def _rates(rates: Rates) -> dict[str, float]:
    return {"enqueued_per_min": round(rates.enqueued, 3), "ended_per_min": round(rates.ended, 3)}


def _queue(row: QueueHealth) -> dict[str, Any]:
    return {
        "size": row.size,
        "oldest_age": None if row.oldest_age is None else round(row.oldest_age, 3),
        "avg_age": None if row.avg_age is None else round(row.avg_age, 3),
        "stuck_count": row.stuck_count,
        "exact": row.exact,
    }


def _check(check: Check) -> dict[str, Any]:
    status = check.status
    return {
        "name": check.name,
        "ok": None if status is None else status is Status.HEALTHY,
        "status": "unknown" if status is None else status.value,
        "detail": check.detail,
        "value": check.value,
        "threshold": check.threshold,
    }


def hash_fields(report: HealthReport) -> dict[str, str | bytes]:
    """What `qdeck:health` holds."""
    return {
        "metrics": codec.encode_json(document(report)),
        "status": report.status.value,
        "last_check": iso(report.at_ms) or "",
    }


def summary(report: HealthReport) -> dict[str, Any]:
    """What the log tells: the verdict, the numbers behind it and the worst reasons."""
    seen = report.snapshot
    told: dict[str, Any] = {
        "status": report.status.value,
        "queues": len(seen.queues),
        "ready": seen.totals.ready,
        "running": seen.totals.running,
        "dead": report.errors.dead,
        "stuck": report.errors.stuck,
        "orphaned": report.errors.orphaned,
        "reasons": [reason.text for reason in report.reasons[:_MOST_REASONS]],
    }
    if len(report.reasons) > _MOST_REASONS:
        told["more_reasons"] = len(report.reasons) - _MOST_REASONS
    if report.rates is not None:
        told["processing_rate"] = _rates(report.rates)
    if report.notices:
        told["notices"] = list(report.notices)
    return told


def read_last() -> Program[dict[str, Any] | None]:
    """The report that an agent wrote last; None when none did within the hour, or it may not be read."""
    [raw] = yield reads.read((b"HGET", KEY, b"metrics"))
    if reads.is_error(raw) or raw is None:
        return None
    try:
        found = codec.decode_json(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
