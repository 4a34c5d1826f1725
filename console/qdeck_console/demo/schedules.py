"""The schedules of the demo: cron rules whose jobs its worker makes, and one that is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck_console.demo import tasks

if TYPE_CHECKING:
    from qdeck.testing import Past


def seed_schedules(past: Past) -> None:
    """Add them. One makes its first job at once, so that the first look sees how it ended."""
    madrid = "Europe/Madrid"
    past.schedule("digest", tasks.send_digest.call("weekly"), cron="*/2 * * * *", run=True)
    past.schedule("monthly-close", tasks.extract.call("2026-11"), cron="0 2 1 * *", tz=madrid)
    invoice = tasks.issue_invoice.call(20_261_101, 4_900)
    past.schedule("invoices", invoice, cron="30 6 * * 1-5", tz=madrid, enabled=False)
