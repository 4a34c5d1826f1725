"""The health report where the agent leaves it: `qdeck:health`, and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._redis.commands import ask
from qdeck._redis.errors import is_error
from qdeck._rules.report import document, rates_document
from qdeck._words import iso

if TYPE_CHECKING:
    from qdeck._redis.commands import Program
    from qdeck._rules.health import HealthReport

KEY: Final = "qdeck:health"  # hash: metrics (JSON), status, last_check (ISO 8601); gone when nobody checked for an hour
LIVE_MS: Final = 3_600_000
_MOST_FINDINGS: Final = 5


def hash_fields(report: HealthReport) -> dict[str, str | bytes]:
    """What `qdeck:health` holds."""
    return {
        "metrics": codec.encode_json(document(report)),
        "status": report.status.value,
        "last_check": iso(report.at_ms) or "",
    }


def summary(report: HealthReport) -> dict[str, Any]:
    """What the log tells: the verdict, the numbers behind it and the worst findings."""
    seen = report.snapshot
    told: dict[str, Any] = {
        "status": report.status.value,
        "queues": len(seen.queues),
        "ready": seen.totals.ready,
        "running": seen.totals.running,
        "dead": report.errors.dead,
        "stuck": report.errors.stuck,
        "late": report.errors.late,
        "orphaned": report.errors.orphaned,
        "findings": [finding.as_json() for finding in report.findings[:_MOST_FINDINGS]],
    }
    if len(report.findings) > _MOST_FINDINGS:
        told["more_findings"] = len(report.findings) - _MOST_FINDINGS
    if report.rates is not None:
        told["processing_rate"] = rates_document(report.rates)
    if report.notices:
        told["notices"] = list(report.notices)
    return told


def read_last() -> Program[dict[str, Any] | None]:
    """The report that an agent wrote last; None when none did within the hour, or it may not be read."""
    [raw] = yield ask((b"HGET", KEY, b"metrics"))
    if is_error(raw) or raw is None:
        return None
    try:
        found = codec.decode_json(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
