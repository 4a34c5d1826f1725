"""Purges of the agent: make a plan, apply it, and report it.

The plan is kept for as long as the purge takes. A purge is undone by its batch, which the server keeps.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qdeck._formatting import iso
from qdeck._settings.limits import Limits, read_rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from qdeck._operations.model import BatchResult
    from qdeck._operations.planfile import Plan
    from qdeck._settings import Settings
    from qdeck.adapters.plans import PlanEntry
    from qdeck.admin import AsyncReader

MAX_SKIPS: Final = 100  # listed one by one


@dataclass(slots=True)
class RuleTotals:
    """What a rule removes, for the log: number, bytes, and age and reason of the oldest."""

    count: int = 0
    oldest_s: float = 0.0
    bytes: int = 0
    reason: str = ""

    def add(self, entry: PlanEntry) -> None:
        """Count an entry."""
        self.count += 1
        self.bytes += entry.bytes
        if not self.reason or (entry.age_s or 0.0) > self.oldest_s:
            self.oldest_s, self.reason = entry.age_s or 0.0, entry.reason

    def as_json(self) -> dict[str, Any]:
        """Return the totals for the log."""
        return {
            "count": self.count,
            "oldest_age": round(self.oldest_s, 3),
            "bytes": self.bytes,
            "reason": self.reason,
        }


@contextlib.asynccontextmanager
async def planned(
    reader: AsyncReader,
    settings: Settings,
    reason: str,
    cancelled: Callable[[], bool] | None = None,
    *,
    rules: Sequence[str] = (),
) -> AsyncIterator[Plan]:
    """Yield the plan of a purge by some rules, or by those of the configuration, and its thresholds; the file is
    removed afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="qdeck-purge-") as folder:
        yield await reader.plan_purge(
            read_rules(rules, settings),
            Limits.of(settings),
            path=Path(folder) / "plan.jsonl",
            reason=reason,
            cancelled=cancelled,
        )


def by_rule(plan: Plan) -> dict[str, Any]:
    """Return what each rule removes, for the log."""
    found: dict[str, RuleTotals] = {}
    for entry in plan.entries():
        found.setdefault(entry.rule or "", RuleTotals()).add(entry)
    return {rule: totals.as_json() for rule, totals in found.items()}


def left_out(plan: Plan) -> dict[str, int]:
    """Return how many entries the plan names and leaves out, such as VMs of unknown age; empty for none."""
    return {"left_out": len(plan.tail.skipped)} if plan.tail.skipped else {}


def summary(plan: Plan, result: BatchResult | None) -> dict[str, Any]:
    """Return a purge for the log: counts, ages, reasons, and the result."""
    found: dict[str, Any] = {"dry_run": result is None, "planned": plan.count, "bytes": plan.tail.bytes}
    found |= {"rules": by_rule(plan), **left_out(plan)}
    if result is not None:
        found |= {"applied": result.applied, "skipped": result.skipped_count, "batch": result.batch}
        if result.undo_until_ms is not None:
            found["undo_until"] = iso(result.undo_until_ms)
        if result.error is not None:
            found["error"] = result.error
    return found


def plan_document(plan: Plan, limit: int) -> dict[str, Any]:
    """Return a dry run for the API; `more` is the number of entries left out."""
    entries: list[dict[str, Any]] = []
    for entry in plan.entries():
        if len(entries) == limit:
            break
        entries.append(
            {
                "adapter": entry.adapter,
                "queue": entry.queue,
                "id": entry.id,
                "state": entry.state,
                "rule": entry.rule,
                "reason": entry.reason,
                "age_s": entry.age_s,
                "verb": entry.verb,
            }
        )
    tail = plan.tail
    return {
        "plan": plan.id,
        "dry_run": True,
        "created_at": iso(plan.head.created_ms),
        "expires_at": iso(plan.head.expires_ms),
        "counts": dict(tail.rules),
        "bytes": tail.bytes,
        "entries": entries,
        "more": plan.count - len(entries),
        "skipped": [skip.as_json() for skip in tail.skipped[:MAX_SKIPS]],
    }


def batch_document(plan: Plan, result: BatchResult | None) -> dict[str, Any]:
    """Return an applied purge for the API."""
    if result is None:
        return {"batch": None, "dry_run": False, "counts": {}, "applied": 0, "skipped": [], "undo_until": None}
    return {
        "batch": result.batch,
        "dry_run": False,
        "counts": dict(plan.tail.rules),
        "applied": result.applied,
        "skipped": [skip.as_json() for skip in result.skipped[:MAX_SKIPS]],
        "undo_until": iso(result.undo_until_ms),
        "error": result.error,
    }
