"""The console over messages of the document on names: a dead letter with its reason, and keys that cannot act on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.adapters.test_scheduler import Page
from qdeck.admin import ADAPTERS
from qdeck_console.screens.job import JobScreen
from support.screens import app_of, app_on, until
from support.temporary import age

if TYPE_CHECKING:
    import redis

DEAD = "nooble4:dev:management:actions:dead_letter"


def letter(name: str) -> str:
    data = {"agent_id": "7", "reason": "agent 7 not found"}
    return json.dumps({"action_id": name, "action_type": "management.get_agent_config", "data": data})


@pytest.mark.parametrize("count", [1, 2])
async def test_edit_names_the_adapter_that_cannot_on_a_group_and_on_a_row(
    url: str, raw: redis.Redis, count: int
) -> None:
    """On a group it said "one job at a time", as if one of them could be edited."""
    raw.rpush(DEAD, *(letter(f"a{number}") for number in range(count)))
    async with app_on(url, adapters=ADAPTERS).run_test(size=(120, 36)) as pilot:
        await until(pilot, "management")
        await pilot.press("4")
        await until(pilot, "in 1 group")
        await pilot.press("e")
        await until(pilot, "∅ lists does not support edit")
        await pilot.press("tab")
        await until(pilot, "groups  space")
        await pilot.press("asterisk", "e")
        await until(pilot, "∅ lists does not support edit")


async def test_the_page_of_a_dead_letter_shows_its_error(url: str, raw: redis.Redis) -> None:
    """Other systems keep no history of attempts: the page had the payload only."""
    raw.rpush(DEAD, letter("a1"))
    async with app_on(url, adapters=ADAPTERS).run_test(size=(120, 36)) as pilot:
        await until(pilot, "management")
        await pilot.press("4")
        await until(pilot, "in 1 group")
        await pilot.press("tab")
        await until(pilot, "groups  space")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, JobScreen))
        shown = await until(pilot, "Error  agent 7 not found")
        assert "error ───" in shown
        assert "attempt 1" not in shown


async def test_a_ready_job_of_the_scheduler_says_what_its_priority_can_be(url: str, raw: redis.Redis) -> None:
    Page(raw).enqueue("job-1", "HIGH", ago_s=2)
    async with app_on(url, adapters=ADAPTERS).run_test(size=(120, 36)) as pilot:
        await until(pilot, "scheduler")
        await pilot.press("2")
        await until(pilot, "≥HIGH")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app_of(pilot).screen, JobScreen))
        await until(pilot, "priority ≥HIGH")


async def test_queues_of_one_tier_have_different_names_at_80_columns(url: str, raw: redis.Redis) -> None:
    """Both were `… ▸ professional ▸ *`: they differ at the start."""
    raw.rpush("execution:agent_run:professional:12345", "{}")
    raw.rpush("embedding:generate:professional:12345", "{}")
    async with app_on(url, adapters=ADAPTERS).run_test(size=(80, 24)) as pilot:
        shown = await until(pilot, "professional ▸ *")
        assert "execution… ▸ professional ▸ *" in shown
        assert "embedding… ▸ professional ▸ *" in shown


async def test_an_orphaned_list_says_what_it_holds_and_whose_it_is(url: str, raw: redis.Redis) -> None:
    """The question before its removal had the bytes only, and enter said that it belongs to no task."""
    name = "execution:callback:free:13579"
    raw.rpush(name, *(["{}"] * 3))
    age(raw, name)
    async with app_on(url, adapters=ADAPTERS).run_test(size=(120, 36)) as pilot:
        await until(pilot, "1 orphaned: t")
        await pilot.press("t")
        await until(pilot, "3 messages")
        await pilot.press("enter")
        await until(pilot, "∅ task_queues:13579 expired, or was never made")
        await pilot.press("x")
        await until(pilot, f"{name}  3 messages, ")
        await pilot.press("escape")
