"""Queues of one name in several adapters: each is a row of its own, and keys act on the one that is pointed at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from characterisation.seed import fill
from characterisation.seed_native import MAIL
from qdeck.admin import ADAPTERS, QueueRef, Writer
from qdeck_console.queue_findings import ListedQueue
from qdeck_console.screens.dead import DeadScreen
from qdeck_console.screens.job import JobScreen
from qdeck_console.screens.jobs import JobsScreen
from qdeck_console.screens.prompt import Prompt
from qdeck_console.screens.queue import QueueScreen
from qdeck_console.widgets.lines import LineList
from support.screens import app_of, command, console, text, until

if TYPE_CHECKING:
    import redis
    from textual.pilot import Pilot

OWN, LIST, POOL = (QueueRef(adapter, MAIL) for adapter in ("native", "lists", "vmpooler"))


@pytest.fixture(autouse=True)
def _seeded(raw: redis.Redis) -> None:
    fill(raw)


def screen(pilot: Pilot[int]) -> Any:
    return app_of(pilot).screen


def refs(pilot: Pilot[int]) -> set[QueueRef]:
    rows = [item.row for item in screen(pilot).query_one("#list", LineList).listing.items]
    return {row.row.ref for row in rows if isinstance(row, ListedQueue)}


async def test_each_is_a_row_with_its_adapter_and_a_unique_name_stays_bare(url: str) -> None:
    async with console(url, size=(160, 48), adapters=ADAPTERS) as pilot:
        await until(pilot, lambda: {OWN, LIST, POOL} <= refs(pilot))
        shown = text(app_of(pilot))
        for name in ("native/shop ▸ mail", "lists/shop ▸ mail", "vmpooler/shop ▸ mail", "scheduler/scheduler"):
            assert name in shown, name
        assert "native/shop ▸ bills" not in shown
        assert "ifdb/ifdb" not in shown
        history = app_of(pilot).shown.history
        assert [history.ready(ref, 1)[-1] for ref in (OWN, LIST, POOL)] == [5, 4, 1]


@pytest.mark.parametrize(("ref", "job"), [(OWN, "ready-first"), (LIST, "oldest"), (POOL, "twin")])
async def test_the_jobs_that_are_opened_are_those_of_the_row(url: str, ref: QueueRef, job: str) -> None:
    async with console(url, size=(160, 48), adapters=ADAPTERS) as pilot:
        await until(pilot, lambda: ref in refs(pilot))
        screen(pilot).query_one("#list", LineList).cursor = str(ref)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(screen(pilot), JobsScreen) and job in text(app_of(pilot)))
        assert screen(pilot).queue == ref
        await until(pilot, lambda: screen(pilot).view.row is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(screen(pilot), JobScreen))
        assert screen(pilot).queue == ref


async def test_groups_of_dead_letters_are_of_one_queue_each_and_only_they_are_retried(url: str) -> None:
    async with console(url, "4", size=(160, 48), adapters=ADAPTERS, read_only=False) as pilot:

        def groups() -> dict[QueueRef, int]:
            found: dict[QueueRef, int] = {}
            seen = screen(pilot)
            for group in seen.whole.triaged.groups if isinstance(seen, DeadScreen) else ():
                found[group.ref] = found.get(group.ref, 0) + group.count
            return found

        await until(pilot, lambda: (groups().get(OWN), groups().get(LIST)) == (5, 4))
        shown = text(app_of(pilot))
        assert "lists/shop ▸ mail" in shown
        view = screen(pilot).group_view
        view.cursor = next(item.key for item in view.listing.items if item.row.ref == LIST and item.row.count == 2)
        await until(pilot, lambda: screen(pilot).group is not None and screen(pilot).group.ref == LIST)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(screen(pilot), Prompt))
        assert "lists/shop ▸ mail" in text(app_of(pilot))
        await pilot.press("tab", "enter")
        await until(pilot, "2 retried")
        await until(pilot, lambda: groups().get(LIST) == 2)
        assert groups().get(OWN) == 5
    with Writer(url, adapters=ADAPTERS) as writer:
        assert writer.activity()[-1].queues == (str(LIST),)


async def test_a_command_offers_each_with_its_adapter(url: str) -> None:
    async with console(url, size=(160, 48), adapters=ADAPTERS) as pilot:
        await until(pilot, lambda: OWN in refs(pilot))
        await command(pilot, f"queue {POOL}")
        await until(pilot, lambda: isinstance(screen(pilot), QueueScreen) and screen(pilot).queue == POOL)
        await pilot.press("y")
        await until(pilot, str(POOL))
