"""The agent's cleaner: temporary queues whose time is over, and when it is told to, those that nobody owns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qdeck._errors import QdeckError
from qdeck.messages import _cleaning as cleaning
from qdeck.messages.looking import read_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from qdeck._redis import AsyncClient
    from qdeck._settings.model import Agent
    from qdeck.messages import LifeCycleCount
    from qdeck.messages._batch import Keeper

MOST_SWEEPS: Final = 1000  # slices of queues whose time is over, in one run


async def clean(client: AsyncClient, settings: Agent, cancelled: Callable[[], bool]) -> dict[str, Any]:
    """Cleans, or with `clean_dry_run` only looks; tells the counts that are not zero."""
    report = cleaning.CleanReport(dry_run=settings.clean_dry_run)
    await _expired(client, report, cancelled)
    told = {"removed": report.removed, "messages": report.messages, "bytes": report.bytes, "in_use": report.in_use}
    if settings.clean_orphans:
        orphans = cleaning.CleanReport(dry_run=settings.clean_dry_run)
        await _orphans(client, orphans, cancelled)
        told["orphans"] = orphans.removed
        told["removed"] += orphans.removed
        told["messages"] += orphans.messages
        told["bytes"] += orphans.bytes
    kept = {name: count for name, count in told.items() if count}
    return {"dry_run": True, **kept} if settings.clean_dry_run and kept else kept


async def _expired(client: AsyncClient, report: cleaning.CleanReport, cancelled: Callable[[], bool]) -> None:
    for number in range(MOST_SWEEPS):
        if cancelled():
            return
        if report.dry_run:
            found = await client.run(cleaning.look_expired(number * cleaning.SLICE))
        else:
            found = await client.run(cleaning.sweep_expired())
        for one in found:
            report.add(one)
        if not (len(found) == cleaning.SLICE if report.dry_run else cleaning.goes_on(found)):
            return


async def _orphans(client: AsyncClient, report: cleaning.CleanReport, cancelled: Callable[[], bool]) -> None:
    keeper = cleaning.automatic("orphans")
    try:
        await _search(client, report, cancelled, keeper)
    finally:
        if keeper.is_open:
            await client.run(cleaning.end(keeper, report))


async def _search(
    client: AsyncClient, report: cleaning.CleanReport, cancelled: Callable[[], bool], keeper: Keeper
) -> None:
    cursor: Any = 0
    while not cancelled():
        step = cleaning.orphans(cursor, idle_s=cleaning.IDLE_S, dry_run=report.dry_run, keeper=keeper)
        seen = await client.run(step)
        report.scanned += seen.scanned
        for one in seen.found:
            report.add(one)
        cursor = seen.cursor
        if cursor == 0:
            return


async def counts(client: AsyncClient) -> list[LifeCycleCount]:
    """What happened to temporary queues; nothing where the rights do not reach."""
    try:
        return await client.run(read_counts())
    except QdeckError:
        return []
