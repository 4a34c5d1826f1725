"""The health report of the agent: stored as `qdeck:health`, and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._engine import codec
from qdeck._formatting import iso
from qdeck._redis.commands import with_errors
from qdeck._redis.errors import is_error
from qdeck._rules.health_document import document, rates_document

if TYPE_CHECKING:
    from qdeck._redis.commands import Program
    from qdeck._rules.health import HealthReport

KEY: Final = "qdeck:health"  # hash: metrics (JSON), status, last_check (ISO 8601); expires an hour after a check
LIVE_MS: Final = 3_600_000
MAX_FINDINGS: Final = 5


def hash_fields(report: HealthReport) -> dict[str, str | bytes]:
    """Return the fields of `qdeck:health`."""
    return {
        "metrics": codec.encode_json(document(report)),
        "status": report.status.value,
        "last_check": iso(report.at_ms) or "",
    }


def summary(report: HealthReport) -> dict[str, Any]:
    """Return the report for the log: the status, its numbers and the worst findings."""
    snapshot = report.snapshot
    fields: dict[str, Any] = {
        "status": report.status.value,
        "queues": len(snapshot.queues),
        "ready": snapshot.totals.ready,
        "running": snapshot.totals.running,
        "dead": report.errors.dead,
        "stuck": report.errors.stuck,
        "late": report.errors.late,
        "orphaned": report.errors.orphaned,
        "findings": [finding.as_json() for finding in report.findings[:MAX_FINDINGS]],
    }
    if len(report.findings) > MAX_FINDINGS:
        fields["more_findings"] = len(report.findings) - MAX_FINDINGS
    if report.rates is not None:
        fields["processing_rate"] = rates_document(report.rates)
    if report.notices:
        fields["notices"] = list(report.notices)
    return fields


def read_last() -> Program[dict[str, Any] | None]:
    """Return the last report of an agent; None when there was none within the hour, or it may not be read."""
    [raw] = yield with_errors((b"HGET", KEY, b"metrics"))
    if is_error(raw) or raw is None:
        return None
    try:
        found = codec.decode_json(raw)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
