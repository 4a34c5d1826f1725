"""The agent's cleaner: expired temporary queues, and when it is told to, orphaned ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qdeck._errors import QdeckError
from qdeck.messages import _cleaning as cleaning
from qdeck.messages import _registry as registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis import AsyncClient
    from qdeck._settings.model import Agent
    from qdeck.messages import LifeCycleCount


async def clean(client: AsyncClient, settings: Agent, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Clean, or with `clean_dry_run` only look; return the counts that are not zero."""
    dry_run = settings.clean_dry_run
    found: list[cleaning.Cleaning] = [cleaning.ExpiredCleaning(dry_run=dry_run)]
    if settings.clean_orphans:
        found.append(cleaning.OrphanCleaning(idle_s=cleaning.IDLE_S, dry_run=dry_run, automatic=True))
    for one in found:
        await client.run(one.run(cancelled=cancelled))
    reports = [one.report for one in found]
    counts = {name: sum(getattr(one, name) for one in reports) for name in ("removed", "messages", "bytes")}
    counts |= {"in_use": reports[0].in_use, "orphans": sum(one.removed for one in reports[1:])}
    kept = {name: count for name, count in counts.items() if count}
    return {"dry_run": True, **kept} if dry_run and kept else kept


async def counts(client: AsyncClient) -> list[LifeCycleCount]:
    """Return what happened to temporary queues; nothing where the rights do not reach."""
    try:
        return await client.run(registry.metrics())
    except QdeckError:
        return []
