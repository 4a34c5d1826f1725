"""Purges as the agent does them: a plan, then exactly that plan, and what to tell of it.

The plan is kept for as long as the purge takes. What a purge did is undone by its batch, which the server knows.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qdeck._settings.limits import Limits, read_rules
from qdeck._words import iso

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from qdeck._operations.model import BatchResult
    from qdeck._operations.planfile import Plan
    from qdeck._settings import Settings
    from qdeck.adapters.plans import PlanEntry
    from qdeck.admin import AsyncReader

MOST_SKIPS: Final = 100  # told one by one


@dataclass(slots=True)
class Taken:
    """What a rule takes, as it is told in the log: how many, how old the oldest is, and why, of one of them."""

    count: int = 0
    oldest_s: float = 0.0
    bytes: int = 0
    reason: str = ""

    def add(self, entry: PlanEntry) -> None:
        """Counts an entry."""
        self.count += 1
        self.bytes += entry.bytes
        if not self.reason or (entry.age_s or 0.0) > self.oldest_s:
            self.oldest_s, self.reason = entry.age_s or 0.0, entry.reason

    def told(self) -> dict[str, Any]:
        """For the log."""
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
    """The plan of a purge by some rules, or by those of the configuration, and its thresholds; it is gone after."""
    with tempfile.TemporaryDirectory(prefix="qdeck-purge-") as folder:
        yield await reader.plan_purge(
            read_rules(rules, settings),
            Limits.of(settings),
            path=Path(folder) / "plan.jsonl",
            reason=reason,
            cancelled=cancelled,
        )


def by_rule(plan: Plan) -> dict[str, Any]:
    """What each rule takes, for the log."""
    found: dict[str, Taken] = {}
    for entry in plan.entries():
        found.setdefault(entry.rule or "", Taken()).add(entry)
    return {rule: taken.told() for rule, taken in found.items()}


def summary(plan: Plan, result: BatchResult | None) -> dict[str, Any]:
    """What the log tells of a purge: counts, ages, reasons, and what was done."""
    told: dict[str, Any] = {"dry_run": result is None, "planned": plan.count, "bytes": plan.tail.bytes}
    told["rules"] = by_rule(plan)
    if result is not None:
        told |= {"applied": result.applied, "skipped": result.skipped_count, "batch": result.batch}
        if result.undo_until_ms is not None:
            told["undo_until"] = iso(result.undo_until_ms)
        if result.error is not None:
            told["error"] = result.error
    return told


def plan_document(plan: Plan, limit: int) -> dict[str, Any]:
    """A dry run as the API tells it; `more` is how many entries were left out."""
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
        "skipped": [skip.as_json() for skip in tail.skipped[:MOST_SKIPS]],
    }


def batch_document(plan: Plan, result: BatchResult | None) -> dict[str, Any]:
    """A purge that was done, as the API tells it."""
    if result is None:
        return {"batch": None, "dry_run": False, "counts": {}, "applied": 0, "skipped": [], "undo_until": None}
    return {
        "batch": result.batch,
        "dry_run": False,
        "counts": dict(plan.tail.rules),
        "applied": result.applied,
        "skipped": [skip.as_json() for skip in result.skipped[:MOST_SKIPS]],
        "undo_until": iso(result.undo_until_ms),
        "error": result.error,
    }
