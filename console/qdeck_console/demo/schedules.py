"""The schedules of the demo: cron rules whose jobs its worker makes, and one that somebody paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck._schedules import store
from qdeck._schedules.model import Definition
from qdeck_console.demo import tasks

if TYPE_CHECKING:
    from qdeck._connection import SyncClient


def seed_schedules(client: SyncClient) -> None:
    """Adds them. One makes its first job at once, so that the first look sees how it ended."""
    for name, call, cron, zone in (
        ("digest", tasks.send_digest.call("weekly"), "*/2 * * * *", "UTC"),
        ("monthly-close", tasks.extract.call("2026-11"), "0 2 1 * *", "Europe/Madrid"),
        ("invoices", tasks.issue_invoice.call(20_261_101, 4_900), "30 6 * * 1-5", "Europe/Madrid"),
    ):
        client.run(store.register(Definition.of(name, call.queue, call.job, cron=cron, tz=zone)))
    client.run(store.enable("invoices", False))
    client.run(store.run("digest"))
