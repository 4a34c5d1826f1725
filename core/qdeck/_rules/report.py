"""The health report as others read it: one JSON for `qdeck health`, for the agent's API and for `qdeck:health`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from qdeck._deck.model import Status
from qdeck._deck.since import place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qdeck._deck.since import Began
    from qdeck._deck.verdict import Check
    from qdeck._rules.health import HealthReport, QueueHealth, Rates

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso(ms: int | None) -> str | None:
    """A moment as ISO 8601 in UTC; one that no calendar has is none."""
    if ms is None:
        return None
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return None


def document(report: HealthReport) -> dict[str, Any]:
    """The report in the words of the document on queue reliability; what cannot be known is null."""
    errors, rates = report.errors, report.rates
    return {
        "at": iso(report.at_ms),
        "status": report.status.value,
        "reasons": [finding.text for finding in report.findings],
        "queues": {
            state: {str(ref): _queue(row) for ref, row in rows.items()} for state, rows in report.queues.items()
        },
        "tasks": {name: asdict(task) for name, task in report.tasks.items()},
        "processing_rate": None if rates is None else rates_document(rates),
        "errors": {
            "dlq_size": errors.dead,
            "stuck_count": errors.stuck,
            "late_count": errors.late,
            "orphaned_count": errors.orphaned,
            "stuck_vm_count": errors.stuck_vms,
            "orphaned_metadata_count": errors.orphaned,
        },
        "checks": [_check(check) for check in report.checks],
        "adapters": {name: _adapter(facts) for name, facts in report.adapters.items()},
        "notices": list(report.notices),
    }


def since_document(report: HealthReport, began: Mapping[str, Began]) -> list[dict[str, Any]]:
    """Since when what is wrong is so, where an agent noted it."""
    wrong = {
        place(check.name, one.queue): (check.name, one.label or None)
        for check in report.checks
        for one in check.findings
        if one.severity.exit_code
    }
    return [
        {"check": wrong[name][0], "queue": wrong[name][1], "at": iso(one.at_ms), "exact": one.exact}
        for name, one in began.items()
        if name in wrong
    ]


def _adapter(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What another system adds: its own verdict, with its age."""
    own = facts["own"]
    said = None
    if own is not None:
        said = {"status": own["status"], "last_check": iso(own["last_check_ms"]), "age_s": own["age_s"]}
        said |= {"written_by_qdeck": own["ours"], "metrics": own["metrics"]}
    return {"clones_per_min": facts["clones_per_min"], "orphaned": facts["orphaned"], "own_health": said}


def rates_document(rates: Rates) -> dict[str, float]:
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
