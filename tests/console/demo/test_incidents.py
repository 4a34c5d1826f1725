"""The console shows that an incident is solved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdeck.admin import Writer
from qdeck.testing import Past
from qdeck_console.demo import names
from qdeck_console.demo.incidents import INCIDENTS, IncidentCheck
from qdeck_console.demo.seed import Seeder
from support.screens import app_of, console, until

if TYPE_CHECKING:
    import redis


async def test_the_footer_shows_that_an_incident_is_solved(url: str, raw: redis.Redis) -> None:
    incident = INCIDENTS[1]
    with Past(url) as past:
        incident.seed(Seeder(past))
    async with console(url) as pilot:
        await until(pilot, "18 jobs waiting")
        with IncidentCheck(url, incident) as watch:
            watch.attach(app_of(pilot))
            assert watch.result == "Not solved. Goal: Issue the invoices that wait."
            with Writer(url) as writer:
                writer.resume(names.BILLING)
                writer.apply(writer.plan("cancel", names.BILLING))
            await until(pilot, "✓ Solved in ")
            assert watch.result.startswith("Solved in ")
