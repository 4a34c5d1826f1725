"""The health report as others read it: one JSON for `qdeck health`, for the agent's API and for `qdeck:health`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from qdeck._formatting import iso
from qdeck._model.answers import answers
from qdeck._model.values import Status

if TYPE_CHECKING:
    from qdeck._model.values import Check
    from qdeck._rules.health import HealthReport, ProcessingRates, QueueHealth


def document(report: HealthReport) -> dict[str, Any]:
    """Return the report in the words of the document on queue reliability; what cannot be known is null."""
    errors, rates = report.errors, report.rates
    return {
        "at": iso(report.at_ms),
        "status": report.status.value,
        "answers": [answer.as_json() for answer in answers(report.findings, report.checks)],
        "findings": [finding.as_json() for finding in report.findings],
        "queues": {
            state: {str(ref): _queue(row) for ref, row in rows.items()} for state, rows in report.queues.items()
        },
        "tasks": {name: asdict(task) for name, task in report.tasks.items()},
        "processing_rate": ({} if rates is None else rates_document(rates)) | dict(report.adapter_rates) or None,
        "errors": {
            "dlq_size": errors.dead,
            "stuck_count": errors.stuck,
            "late_count": errors.late,
            "orphaned_count": errors.orphaned,
            "stuck_vm_count": errors.stuck_vms,
            "orphaned_metadata_count": errors.orphaned,
        },
        "checks": [_check(check) for check in report.checks],
        "adapters": {name: dict(facts) for name, facts in report.adapters.items()},
        "notices": list(report.notices),
    }


def rates_document(rates: ProcessingRates) -> dict[str, float]:
    """Jobs a minute."""
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
